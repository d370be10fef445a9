"""What pinned memory buys: a step takes as long as training and copying together, or as the longer of the two."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.emulation.demo.running import Program
from gpuyard.profiles.gpus import find_gpu
from gpuyard.profiles.step_store import find_step_profile

IMAGE_BYTES = 4 * 3 * 224 * 224

SPEED = 0.5
"""The GPU's time passes half as fast as here: on a busy machine, copying into pinned memory is not to hold it up."""

MEANING = {
    "pageable": "training + copy from pageable memory",
    "pinned": "training + copy from pinned memory",
    "ahead": "the longer of training and copy from pinned memory",
}


@dataclass(frozen=True)
class Copies:
    """A way to bring batches to the GPU, the milliseconds of a step, and those that its meaning leads to."""

    way: str
    step_ms: float
    expected_ms: float


def step_times(*, gpu: str = "P100", model: str = "alexnet", batch: int = 64, steps: int = 30) -> list[Copies]:
    """Train from the same loader with copies from pageable and pinned memory, and with copies ahead of their use."""
    options = ("--model", model, "--batch", batch, "--steps", steps)
    with Program("train_copies", *options, gpus=gpu, speed=SPEED) as program:
        measured = {row["copies"]: row["step_ms"] for row in program.results()}
    expected = _expected_ms(gpu, model, batch)
    return [Copies(way, measured[way], expected[way]) for way in MEANING]


def _expected_ms(gpu: str, model: str, batch: int) -> dict[str, float]:
    profile, kind = find_step_profile(gpu, model), find_gpu(gpu)
    assert profile is not None
    training = profile.at(batch).step_s * 1e3
    pageable, pinned = (kind.copy_seconds(batch * IMAGE_BYTES, pinned=pinned) * 1e3 for pinned in (False, True))
    return {"pageable": training + pageable, "pinned": training + pinned, "ahead": max(training, pinned)}
