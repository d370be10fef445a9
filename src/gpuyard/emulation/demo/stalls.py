"""Data stalls: how many images per second a GPU trains on, by what its loader can deliver.

Studied on servers by CoorDL's authors (VLDB'21); GPEmu repeated it without GPUs (PVLDB 18).
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuyard.emulation.demo.running import Program

DECODE_MS = 1e3 / 174
"""Of one core for one image: GPEmu's servers decode 174 images/s with it."""
CACHED = 0.35
"""Share of the files that is in memory, as in the study of fetch stalls."""

LoaderRates = dict[str, dict[str, float]]
"""Images per second by model and loader."""


def throughput(models: Sequence[str], loaders: Sequence[str], *, gpu: str = "V100", steps: int = 12) -> LoaderRates:
    """Train each model from each loader: so many workers, as in `6`, and a disk of so many MB/s, as in `6@90`."""
    options = ("--decode-ms", DECODE_MS, "--cached", CACHED, "--steps", steps)
    with Program("train_files", *options, "--model", *models, "--loader", *loaders, gpus=gpu) as program:
        rates: LoaderRates = {model: {} for model in models}
        for row in program.results():
            rates[row["model"]][row["loader"]] = row["images_per_s"]
    return rates


def stall(rates: dict[str, float], loader: str) -> float:
    """Return the part of an epoch that is spent waiting for the disk: 1 - epoch with everything cached / epoch."""
    cached = loader.partition("@")[0]
    return max(0.0, 1.0 - rates[loader] / rates[cached])
