"""Plain PyTorch whose batch size gpuyard may change while it trains: python train.py [--epochs N]."""

import argparse

import torch
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from gpuyard.client.batch_sampler import SharedBatchSampler
from gpuyard.client.gradient_noise import GradientNoise
from gpuyard.client.shared_batch import SharedBatch
from gpuyard.client.torch_batches import scale_learning_rate

PARTS = 2


def train(epochs: int, device: str) -> list[float]:
    """Fit a line; every step has two micro-batches, from which the noise scale follows."""
    torch.manual_seed(7)
    inputs = torch.randn(960, 8)
    data = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True) + 0.1 * torch.randn(960, 1))
    model = torch.nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    wait = torch.cuda.synchronize if device == "cuda" else None
    batch = SharedBatch(32, smallest=16, largest=64, learning_rate="adascale", wait=wait)
    sampler = SharedBatchSampler(RandomSampler(data), batch, parts=PARTS)
    noise = GradientNoise(model.parameters(), batch)
    scale_learning_rate(optimizer, batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 0.5 ** (sampler.samples / 4800))

    losses, sizes, samples, part = [], [], 0, 0
    loader = DataLoader(data, batch_sampler=sampler)
    for _ in range(epochs):
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
            (loss / PARTS).backward()
            losses.append(loss.detach())
            part, samples = part + 1, samples + len(x)
            noise.micro_batch(sampler.done())
            if part < PARTS:
                continue
            noise.step()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            batch.step(noise.value, samples=samples)
            sizes.append(samples)
            samples = part = 0
    batch.close()
    print(f"{sum(sizes)} samples in {sampler.epochs} epochs, batches of {', '.join(map(str, sorted(set(sizes))))}")
    return [float(loss) for loss in losses]


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--epochs", type=int, default=5)
    arguments.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    chosen = arguments.parse_args()
    train(chosen.epochs, chosen.device)
