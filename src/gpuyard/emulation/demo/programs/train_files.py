"""Trains image classifiers from files with one loader after the other, and prints images per second as JSON lines.

An ordinary PyTorch program. The files are real, and so are the loader's processes; how fast the disk is and how long a
core takes to decode an image are options.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
import warnings
from itertools import product
from pathlib import Path
from statistics import median

import numpy as np
import torch
import torchvision
from torch.utils.data import DataLoader, Dataset

SIDE, CROP = 256, 224
FILES = 128


class Disk:
    """Gives so many MB/s to all loader processes together; 0 is as fast as it gets."""

    def __init__(self, mb_per_s: float) -> None:
        self.s_per_byte = 1e-6 / mb_per_s if mb_per_s else 0.0
        self.busy_until = multiprocessing.Value("d", 0.0)

    def read(self, path: Path) -> bytes:
        """Read a file when its turn has come."""
        content = path.read_bytes()
        with self.busy_until.get_lock():
            self.busy_until.value = max(self.busy_until.value, time.monotonic()) + len(content) * self.s_per_byte
            done = self.busy_until.value
        time.sleep(max(0.0, done - time.monotonic()))
        return content


class Images(Dataset[tuple[torch.Tensor, int]]):
    """Raw images; a share of them is in a cache that never evicts."""

    def __init__(self, folder: Path, count: int, disk: Disk, cached: float, decode_s: float) -> None:
        self.paths = sorted(folder.iterdir())
        self.count, self.disk, self.cached, self.decode_s = count, disk, cached, decode_s

    def __len__(self) -> int:
        """Return how many images an epoch has."""
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        """Read an image, decode, crop and flip it."""
        path = self.paths[index % len(self.paths)]
        in_cache = (index * 61 % 100) < self.cached * 100  # spread evenly over every batch
        content = path.read_bytes() if in_cache else self.disk.read(path)
        begun = time.monotonic()
        image = np.frombuffer(content, np.uint8).reshape(3, SIDE, SIDE)
        top, left = np.random.randint(0, SIDE - CROP, 2)
        crop = image[:, top : top + CROP, left : left + CROP]
        pixels = torch.from_numpy(crop[:, :, :: np.random.choice((1, -1))].copy())
        # The rest of what decoding takes a core is waited for, not used: so a laptop may stand for a server.
        time.sleep(max(0.0, begun + self.decode_s - time.monotonic()))
        return pixels, index % 1000


def train(model: torch.nn.Module, images: Images, batch: int, workers: int) -> float:
    """Train for one epoch; return the median of images per second after the first batches."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    loader = DataLoader(images, batch, num_workers=workers, pin_memory=True)
    ends: list[torch.cuda.Event] = []
    for pixels, labels in loader:
        inputs = pixels.cuda(non_blocking=True).float().div_(255)
        loss = torch.nn.functional.cross_entropy(model(inputs), labels.cuda(non_blocking=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ends.append(torch.cuda.Event(enable_timing=True))
        ends[-1].record()
    torch.cuda.synchronize()
    # Workers deliver in step, so the time of a whole round of them tells the rate. The first round is not typical.
    rounds = [first.elapsed_time(last) for first, last in zip(ends[workers:], ends[2 * workers :], strict=False)]
    return 1e3 * batch * workers / median(rounds)


def main() -> None:
    """Train as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", nargs="+", default=["resnet18"], help="of torchvision")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=12, help="batches to train on, at least")
    parser.add_argument("--rounds", type=int, default=4, help="batches from each worker, at least")
    parser.add_argument(
        "--loader", nargs="+", default=["2"], help="number of workers, as in 6; with a disk of 90 MB/s 6@90"
    )
    parser.add_argument("--cached", type=float, default=0.35, help="share of the files that need no disk")
    parser.add_argument("--decode-ms", type=float, default=0.0, help="milliseconds that a core takes for an image")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "This DataLoader will create")  # more workers than cores: they mostly wait

    with tempfile.TemporaryDirectory() as folder:
        for number in range(FILES):
            (Path(folder) / f"{number:03}.raw").write_bytes(np.random.bytes(3 * SIDE * SIDE))
        for name, loader in product(options.model, options.loader):
            workers, _, disk = loader.partition("@")
            count = options.batch * max(options.steps, options.rounds * int(workers))
            images = Images(Path(folder), count, Disk(float(disk or 0)), options.cached, options.decode_ms / 1e3)
            model = torchvision.models.get_model(name).cuda()
            rate = train(model, images, options.batch, int(workers))
            print(json.dumps({"model": name, "loader": loader, "images_per_s": rate}), flush=True)


if __name__ == "__main__":
    main()
