"""A U-Net with weighted losses and a Dice score, channels last, in bfloat16."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn


def twice(inside: int, outside: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(inplace=True),
        nn.Conv2d(outside, outside, 3, padding=1, bias=False), nn.GroupNorm(4, outside), nn.SiLU(inplace=True),
    )  # fmt: skip


class UNet(nn.Module):
    """Down, up, and across."""

    def __init__(self, channels: int, classes: int, width: int = 8, depth: int = 3) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        self.start = twice(channels, width)
        self.down = nn.ModuleList(twice(a, b) for a, b in pairwise(widths))
        self.widen = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in pairwise(widths))
        self.up = nn.ModuleList(twice(2 * a, a) for a in widths[:-1])
        self.end = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        levels = [self.start(x)]
        for step in self.down:
            levels.append(step(F.max_pool2d(levels[-1], 2)))
        x = levels.pop()
        for widen, up in zip(reversed(self.widen), reversed(self.up), strict=True):
            across = levels.pop()
            x = widen(x)
            missing = across.size(3) - x.size(3)
            x = F.pad(x, [missing // 2, missing - missing // 2, 0, across.size(2) - x.size(2)])
            x = up(torch.cat([across, x], dim=1))
        return self.end(x)


def dice(guess: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    common = 2 * (guess * truth).sum(dim=(-1, -2))
    both = guess.sum(dim=(-1, -2)) + truth.sum(dim=(-1, -2))
    both = torch.where(both == 0, common, both)
    return ((common + 1e-6) / (both + 1e-6)).mean()


def main() -> None:
    device = torch.device("cuda")
    model = UNet(3, 4).to(device, memory_format=torch.channels_last)
    assert model.start[0].weight.is_contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4, weight_decay=1e-8, momentum=0.9, foreach=True)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=1)
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([0.1, 1.0, 1.0, 1.0], device=device), ignore_index=255)
    for epoch in range(3):
        model.train()
        images = torch.rand(4, 3, 50, 48).to(device, memory_format=torch.channels_last, non_blocking=True)
        truth = torch.randint(0, 4, (4, 50, 48)).to(device)
        truth[:, :2] = 255
        with torch.autocast(device.type, dtype=torch.bfloat16):
            output = model(images)
            assert output.dtype == torch.bfloat16
            masks = F.one_hot(truth.clamp(max=3), 4).permute(0, 3, 1, 2).float()
            loss = criterion(output, truth) + 1 - dice(F.softmax(output, dim=1).float(), masks)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
        optimizer.step()
        model.eval()
        with torch.inference_mode(), torch.autocast("cuda", dtype=torch.bfloat16):
            guess = F.one_hot(model(images).argmax(dim=1), 4).permute(0, 3, 1, 2).float()
            score = dice(guess[:, 1:], masks[:, 1:])
        scheduler.step(score)
        print(f"epoch {epoch} loss {loss.item():.3f} dice {score.item():.3f} lr {optimizer.param_groups[0]['lr']}")


if __name__ == "__main__":
    main()
