"""`python -m benchmarks.zoo`: writes src/gpuyard/profiles/zoo again from the published tables."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from benchmarks.paper.cases import SHARED
from benchmarks.zoo.inference import write_inference
from benchmarks.zoo.operations import write_operations
from benchmarks.zoo.speeds import write_speeds
from benchmarks.zoo.steps import write_steps

ZOO = Path(str(files("gpuyard.profiles").joinpath("zoo")))

if __name__ == "__main__":
    write_operations(SHARED / "gpemu", ZOO / "operations.yaml")
    write_steps(SHARED / "gpemu", ZOO)
    write_speeds(SHARED / "published-gpu", ZOO / "gpu_speed.yaml")
    write_inference(SHARED / "gpulet", ZOO / "inference.yaml")
