"""A DCGAN with two optimizers, then a VAE that draws from its latent space."""

import torch
import torch.nn.functional as F
from torch import nn, optim


def initialise(module: nn.Module) -> None:
    """Draw the weights as the paper does."""
    name = module.__class__.__name__
    if "Conv" in name:
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif "BatchNorm" in name:
        nn.init.normal_(module.weight, 1.0, 0.02)
        nn.init.zeros_(module.bias)


def generator(width: int) -> nn.Module:
    return nn.Sequential(
        nn.ConvTranspose2d(100, width * 4, 4, 1, 0, bias=False), nn.BatchNorm2d(width * 4), nn.ReLU(True),
        nn.ConvTranspose2d(width * 4, width * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(width * 2), nn.ReLU(True),
        nn.ConvTranspose2d(width * 2, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
        nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh(),
    )  # fmt: skip


def discriminator(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(width, width * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(width * 2), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(width * 2, width * 4, 4, 2, 1, bias=False), nn.BatchNorm2d(width * 4), nn.LeakyReLU(0.2),
        nn.Conv2d(width * 4, 1, 4, 1, 0, bias=False), nn.Sigmoid(),
    )  # fmt: skip


def adversarial(device: torch.device, batch: int = 16) -> None:
    """Train generator and discriminator against each other."""
    makes, judges = generator(16).to(device), discriminator(16).to(device)
    makes.apply(initialise)
    judges.apply(initialise)
    criterion = nn.BCELoss()
    fixed = torch.randn(8, 100, 1, 1, device=device)
    maker = optim.Adam(makes.parameters(), lr=0.0002, betas=(0.5, 0.999))
    judge = optim.Adam(judges.parameters(), lr=0.0002, betas=(0.5, 0.999))
    for step in range(3):
        judges.zero_grad()
        real = torch.rand(batch, 3, 32, 32).to(device)
        label = torch.full((batch,), 1.0, dtype=torch.float, device=device)
        loss_real = criterion(judges(real).view(-1), label)
        loss_real.backward()
        fake = makes(torch.randn(batch, 100, 1, 1, device=device))
        label.fill_(0.0)
        output = judges(fake.detach()).view(-1)
        loss_fake = criterion(output, label)
        loss_fake.backward()
        judge.step()
        makes.zero_grad()
        label.fill_(1.0)
        loss = criterion(judges(fake).view(-1), label)
        loss.backward()
        maker.step()
        both = (loss_real + loss_fake).item()
        print(f"[{step}] Loss_D: {both:.4f} Loss_G: {loss.item():.4f} D(G(z)): {output.mean().item():.4f}")
    makes.eval()
    pictures = makes(fixed).detach().cpu()
    assert pictures.shape == (8, 3, 32, 32)


class Variational(nn.Module):
    """Encodes to a distribution, draws from it, decodes."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.mean, self.spread = nn.Linear(784, 400), nn.Linear(400, 20), nn.Linear(400, 20)
        self.widen, self.output = nn.Linear(20, 400), nn.Linear(400, 784)

    def decode(self, code: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.output(F.relu(self.widen(code))))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        hidden = F.relu(self.hidden(x.view(-1, 784)))
        mean, log_variance = self.mean(hidden), self.spread(hidden)
        deviation = torch.exp(0.5 * log_variance)
        return self.decode(mean + torch.randn_like(deviation) * deviation), mean, log_variance


def variational(device: torch.device) -> None:
    """Train on pictures and generate new ones."""
    torch.cuda.manual_seed(1)
    model = Variational().to(device)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(2):
        data = torch.rand(32, 1, 28, 28).to(device)
        optimizer.zero_grad()
        decoded, mean, log_variance = model(data)
        distance = F.binary_cross_entropy(decoded, data.view(-1, 784), reduction="sum")
        loss = distance - 0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
        loss.backward()
        optimizer.step()
        print(f"====> Epoch: {epoch} Average loss: {loss.item() / len(data):.4f}")
    with torch.no_grad():
        sample = model.decode(torch.randn(64, 20).to(device)).cpu()
    assert sample.view(64, 1, 28, 28).numpy().shape == (64, 1, 28, 28)


if __name__ == "__main__":
    adversarial(torch.device("cuda:0"))
    variational(torch.device("cuda"))
