"""Trains torchvision classifiers in mixed precision with a pinned loader, and resumes the last from its checkpoint."""

import argparse
import tempfile
from pathlib import Path

import torch
import torchvision
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset[tuple[torch.Tensor, int]]):
    """Random pictures, made by the loader's workers."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index >= self.count:
            raise IndexError(index)
        return torch.rand(3, 64, 64), index % 10


class Training:
    """A model, its optimizer and everything that a checkpoint must hold."""

    def __init__(self, name: str) -> None:
        self.device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
        self.model = torchvision.models.get_model(name, num_classes=10).to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=1, gamma=0.5)
        self.scaler = torch.amp.GradScaler("cuda")
        self.criterion = nn.CrossEntropyLoss()

    def epoch(self, loader: DataLoader[tuple[torch.Tensor, int]]) -> float:
        """Train on everything once and return the mean loss."""
        self.model.train()
        total = torch.zeros((), device=self.device)
        for images, labels in loader:
            assert images.is_pinned()
            images, labels = images.to(self.device, non_blocking=True), labels.to(self.device, non_blocking=True)
            self.optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.float16):
                output = self.model(images)
                loss = self.criterion(output, labels)
            assert output.dtype == torch.float16
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            total += loss.detach()
        self.schedule.step()
        return total.item() / len(loader)

    @torch.no_grad()
    def accuracy(self, loader: DataLoader[tuple[torch.Tensor, int]]) -> float:
        """Return the share of pictures whose class is guessed right."""
        self.model.eval()
        right = 0
        for images, labels in loader:
            guesses = self.model(images.cuda(non_blocking=True)).argmax(dim=1)
            right += (guesses == labels.cuda(non_blocking=True)).sum().item()
        return right / len(loader.dataset)

    def save(self, path: Path) -> None:
        """Write a checkpoint."""
        torch.save(
            {name: getattr(self, name).state_dict() for name in ("model", "optimizer", "schedule", "scaler")}, path
        )

    def load(self, path: Path) -> None:
        """Continue from a checkpoint."""
        checkpoint = torch.load(path, map_location=self.device, weights_only=True)
        for name, content in checkpoint.items():
            getattr(self, name).load_state_dict(content)


def main(models: list[str]) -> None:
    """Train each model for an epoch, and the last one for another that starts from a checkpoint."""
    torch.backends.cudnn.benchmark = True
    loader = DataLoader(
        Pictures(16), batch_size=8, shuffle=True, num_workers=2, pin_memory=True, persistent_workers=True
    )
    for name in models:
        training = Training(name)
        print(f"{name}: epoch 0 loss {training.epoch(loader):.4f} accuracy {training.accuracy(loader):.3f}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"
        training.save(path)
        parameters = sum(value.nbytes for value in training.model.state_dict().values())
        assert path.stat().st_size > parameters, "a checkpoint is as large as what it holds"
        resumed = Training(name)
        resumed.load(path)
    assert resumed.schedule.last_epoch == 1
    momentum = next(iter(resumed.optimizer.state.values()))["momentum_buffer"]
    assert momentum.device == resumed.device
    print(f"{name}: epoch 1 loss {resumed.epoch(loader):.4f} accuracy {resumed.accuracy(loader):.3f}")
    print(f"peak {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB of {torch.cuda.get_device_name()}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=["resnet18", "vgg11", "mobilenet_v2"])
    main(parser.parse_args().models)
