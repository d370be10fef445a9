"""Wall and event time of device-bound steps against the profile (acceptance check 2)."""

from __future__ import annotations

from benchmarks.emulated.programs import result, start
from benchmarks.limits import Figure
from gpuyard.profiles.step_store import find_step_profile

CASES = (
    ("V100", "resnet50", 64), ("V100", "vgg16", 64), ("P100", "alexnet", 256), ("A100", "resnet50", 128),
    ("V100", "mobilenet_v2", 128), ("K80", "resnet18", 64),
)  # fmt: skip
STEPS = 15


def run() -> list[Figure]:
    """Train each model on its GPU for a few steps."""
    figures = []
    for gpu, model, batch in CASES:
        expected = find_step_profile(gpu, model).at(batch).step_s
        measured = result(start("training", model, batch, STEPS, gpus=gpu))
        name = f"{model} on {gpu}, batch {batch}, {expected * 1e3:.1f} ms"
        wall, event = (abs(measured[key] / expected - 1) * 100 for key in ("wall_s", "event_s"))
        figures.append(Figure(f"step: {name}: wall time away from the profile", wall, "%", most=1.0))
        figures.append(Figure(f"step: {name}: event time away from the profile", event, "%", most=0.1))
    return figures
