"""Writes the speeds of models by GPU type, and measures how well they can be told where nobody measured them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import polars as pl

from gpuyard.profiles.gpu_speed import REFERENCE_GPU, distance, roofline_ratio
from gpuyard.profiles.gpus import find_gpu
from gpuyard.profiles.names import bundled_step_models, canonical
from gpuyard.profiles.step_store import bundled_profiles
from gpuyard.profiles.steps import StepProfile

Factors = Mapping[str, float]
Table = Mapping[str, Factors]
Guess = Callable[[str, str], float]
"""A model's factor on a GPU type, told without having seen it."""

STEPS = "step times of GPEmu (PVLDB 18), mengwanguc/gpemu, at the largest batch size measured on both GPUs"
GAVEL = "steps/s on one GPU by Gavel (OSDI'20), stanford-futuredata/gavel, MIT"
GAVEL_MODELS = {"lstm": ("LM", 20)}
"""By our name: Gavel's name and the batch size of our profile."""
GAVEL_STAND_INS = {"transformer": ("Transformer", 128)}
"""Networks that are akin: a translation model for Transformer-XL."""

HEADER = f"""\
# Throughput by model and GPU type, relative to the {REFERENCE_GPU}, of a GPU that is fed enough (docs/profiles.md).
# Written by `python -m benchmarks.zoo`. typical: geometric mean over the measured models.
# errors, other_model: of the typical factor, for a model that was left out of the mean.
# errors, other_gpu: for a GPU kind that was left out, told from the nearest of the others by their data sheets.
"""


def write_speeds(folder: Path, out: Path) -> None:
    """Write the file from the bundled step profiles and Gavel's table."""
    steps = {canonical(model): step_factors(bundled_profiles(model)) for model in bundled_step_models()}
    gavel, stand_ins = (gavel_factors(folder, models) for models in (GAVEL_MODELS, GAVEL_STAND_INS))
    table = {**steps, **gavel, **stand_ins}
    lines = [
        "errors:",
        f"  other_model: {_spread(errors(table, lambda model, gpu: typical(table, gpu, model)))}",
        f"  other_gpu: {_spread(errors(table, lambda model, gpu: from_nearest(table[model], gpu)))}",
        f"typical: {_flow({gpu: typical(table, gpu) for gpu in _types(table)})}",
        "measured:",
        *_group(STEPS, steps),
        *_group(GAVEL, gavel),
        *_group(f"{GAVEL}: a translation model", stand_ins, "  stand_in: true"),
    ]
    out.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")


def step_factors(profiles: tuple[StepProfile, ...]) -> Factors:
    """Return one model's factors from its step profiles."""
    seconds = {
        profile.gpu: {p.batch: p.forward_s + p.backward_s for p in profile.points if p.measured} for profile in profiles
    }
    base = seconds.pop(REFERENCE_GPU)
    largest = {gpu: max(set(times) & set(base)) for gpu, times in seconds.items()}
    return {gpu: base[batch] / seconds[gpu][batch] for gpu, batch in largest.items()}


def gavel_factors(folder: Path, models: Mapping[str, tuple[str, int]]) -> Table:
    """Return the factors of some of Gavel's models, as measured on its physical cluster."""
    rows = pl.read_csv(folder / "gavel_throughputs.csv", comment_prefix="#", infer_schema_length=None).filter(
        (pl.col("set") == "physical") & (pl.col("placement") == "consolidated") & (pl.col("num_gpus") == 1)
    )
    found = {}
    for ours, (theirs, batch) in models.items():
        own = rows.filter((pl.col("model") == theirs) & (pl.col("batch").cast(pl.Int64) == batch))
        rates = {find_gpu(gpu).key: rate for gpu, rate in own.select("gpu", "steps_per_sec").iter_rows()}
        base = rates.pop(REFERENCE_GPU)
        found[ours] = {gpu: rate / base for gpu, rate in rates.items()}
    return found


def typical(table: Table, gpu: str, without: str | None = None) -> float:
    """Return the geometric mean of the factors on a GPU type."""
    logs = [np.log(factors[gpu]) for model, factors in table.items() if model != without and gpu in factors]
    return float(np.exp(np.mean(logs)))


def from_nearest(factors: Factors, gpu: str) -> float:
    """Return the factor on a GPU type from the nearest other one that was measured."""
    kind = find_gpu(gpu)
    others = [find_gpu(key) for key in (REFERENCE_GPU, *factors) if key != gpu]
    nearest = min(others, key=lambda other: distance(other, kind))
    return factors.get(nearest.key, 1.0) * roofline_ratio(kind, nearest)


def errors(table: Table, guess: Guess) -> list[float]:
    """Return the error of every measured factor, as a share."""
    return [abs(guess(model, gpu) / factor - 1) for model, gpu, factor in _pairs(table)]


def _types(table: Table) -> list[str]:
    return list(dict.fromkeys(gpu for _, gpu, _ in _pairs(table)))


def _pairs(table: Table) -> Iterator[tuple[str, str, float]]:
    for model, factors in table.items():
        yield from ((model, gpu, factor) for gpu, factor in factors.items())


def _spread(found: list[float]) -> str:
    return f"{{median: {np.median(found):.3f}, p90: {np.quantile(found, 0.9):.3f}, pairs: {len(found)}}}"


def _flow(factors: Factors) -> str:
    return "{" + ", ".join(f"{gpu}: {factor:.4g}" for gpu, factor in factors.items()) + "}"


def _group(source: str, table: Table, *more: str) -> list[str]:
    return [
        f"- source: {source!r}" if "'" not in source else f'- source: "{source}"',
        *more,
        "  models:",
        *(f"    {model}: {_flow(factors)}" for model, factors in table.items()),
    ]
