"""A small convolutional network on digits, as one writes it on the first day: train, test, save."""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """Two convolutions, two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        x = torch.flatten(self.dropout1(F.max_pool2d(x, 2)), 1)
        return F.log_softmax(self.fc2(self.dropout2(F.relu(self.fc1(x)))), dim=1)


def train(model: nn.Module, device: torch.device, loader: Any, optimizer: optim.Optimizer, epoch: int) -> None:
    """Train for an epoch and tell the loss now and then."""
    model.train()
    for number, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        if number % 4 == 0:
            print(f"Train Epoch: {epoch} [{number * len(data)}/{len(loader.dataset)}]\tLoss: {loss.item():.6f}")


def test(model: nn.Module, device: torch.device, loader: Any) -> None:
    """Tell the mean loss and the accuracy."""
    model.eval()
    test_loss, correct = 0.0, 0
    with torch.no_grad():
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            prediction = output.argmax(dim=1, keepdim=True)
            correct += prediction.eq(target.view_as(prediction)).sum().item()
    count = len(loader.dataset)
    print(f"Test set: Average loss: {test_loss / count:.4f}, Accuracy: {correct}/{count}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(1)
    assert torch.cuda.is_available()
    device = torch.device("cuda")
    digits = TensorDataset(torch.rand(256, 1, 28, 28), torch.randint(0, 10, (256,)))
    loader = DataLoader(digits, batch_size=32, shuffle=True, num_workers=1, pin_memory=True)
    model = Net().to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    for epoch in range(1, args.epochs + 1):
        train(model, device, loader, optimizer, epoch)
        test(model, device, loader)
        scheduler.step()
    with tempfile.TemporaryDirectory() as folder:
        torch.save(model.state_dict(), Path(folder) / "digits.pt")
        again = Net()
        again.load_state_dict(torch.load(Path(folder) / "digits.pt", map_location="cpu"))
    assert all(parameter.device.type == "cpu" for parameter in again.parameters())


if __name__ == "__main__":
    main()
