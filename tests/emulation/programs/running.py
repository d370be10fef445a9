"""How the programs in `scripts` are run: each in a process of its own, in virtual time."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.emulation.torch.conftest import Finished, emulated

SCRIPTS = Path(__file__).parent / "scripts"

NEEDS = {
    "accelerated": ("accelerate",),
    "classify_images": ("torchvision",),
    "detection": ("torchvision",),
    "hugging_face": ("transformers", "accelerate"),
    "lightning_loop": ("lightning", "torchmetrics"),
    "model_zoo": ("torchvision",),
}
"""Packages that a program imports besides torch."""

LIBRARIES_WARN = ("accelerated", "hugging_face", "lightning_loop")
"""Programs whose libraries warn on their own; in all others a warning is an error."""


def need(*packages: str) -> None:
    """Skip a test where packages are missing; they are not imported, which some survive on emulated GPUs only."""
    for package in packages:
        if find_spec(package) is None:
            pytest.skip(f"needs {package}: pip install {package}")


def run(name: str, *arguments: str, gpus: str = "2xV100") -> Finished:
    """Run a program; fails if it does."""
    need("torch", *NEEDS.get(name, ()))
    warnings = () if name in LIBRARIES_WARN else ("-W", "error")
    done = subprocess.run(
        [sys.executable, *warnings, str(SCRIPTS / f"{name}.py"), *arguments],
        env=emulated(gpus=gpus, clock="virtual"),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done
