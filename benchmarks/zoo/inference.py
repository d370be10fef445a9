"""Writes what is known of inference on slices: figures that came with gpulet, and a stand-in for the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import polars as pl

from gpuyard.profiles.gpus import gpu_key

GPUS = ("2080ti", "3080")
HEADER = """\
# Inference on slices of GPUs, in gpuyard's profile format (docs/profiles.md). Written by `python -m benchmarks.zoo`.
# gathering_ms, memory, traffic (parts of what L2 and DRAM can do, by batch), interference: casys-kaist/glet (ATC'22).
# Latencies, in ms by slice and batch, are a stand-in, since glet publishes none: from its kernel times, occupancies
# and the rule that an SLO is twice the latency of batch 32.
source: casys-kaist/glet (ATC'22); latencies are a stand-in
"""
UTILISATION_NAMES = {("3080", "ssd-mobilenetv1"): "ssd"}
"""Where a table calls a model by another name than the list of models."""


def write_inference(folder: Path, out: Path) -> None:
    """Write the file from the tables."""
    models = _table(folder, "models.csv")
    names = dict.fromkeys(models["util_table_alias"])
    lines = ["gpus:", *_gpus(folder), "models:"]
    for name in names:
        rows = models.filter(pl.col("util_table_alias") == name)
        lines += _model(folder, name, rows)
    out.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")


def _table(folder: Path, name: str) -> pl.DataFrame:
    return pl.read_csv(folder / name, comment_prefix="#", infer_schema_length=None)


def _gpus(folder: Path) -> Iterable[str]:
    memory = dict(_table(folder, "devices.csv").select("type", "mem_mb_scheduler").iter_rows())
    for device, *numbers in _table(folder, "interference_coefficients.csv").iter_rows():
        yield f"  {_key(device)}: {{memory_mb: {memory[device]}, interference: {_flow(numbers)}}}"


def _model(folder: Path, name: str, rows: pl.DataFrame) -> Iterable[str]:
    first = rows.row(0, named=True)
    aliases = [each for each in rows["name"] if each != name]
    yield f"  {name}:"
    if aliases:
        yield f"    aliases: [{', '.join(aliases)}]"
    yield "    serving:"
    yield f"      memory_mb: {first['mem_mb']}"
    yield f"      input_bytes: {first['input_bytes_per_request']}"
    yield f"      input: {_tensor(first['input_type'], first['input_dim'])}"
    yield f"      output: {_tensor('FP32', first['output_dim'])}"
    yield f"      gathering_ms: {_flow(_gathering(folder, first))}"
    yield "    latency:"
    for device in GPUS:
        yield f"      - gpu: {_key(device)}"
        yield f"        slices: {_latency(folder, device, first['latency_profile_alias'])}"
        yield f"        traffic: {_traffic(folder, device, name)}"


def _tensor(datatype: str, dimensions: object) -> str:
    return f"[{', '.join([datatype, *str(dimensions).split('x')])}]"


def _gathering(folder: Path, model: Mapping[str, object]) -> list[float]:
    if model["batch_overhead_table"] == "none":
        return [float(str(model["batch_overhead_constant_ms"]))] * 32
    table = _table(folder, "batching_overhead_ms.csv").sort("batch")
    factor = float(str(model["batch_overhead_multiplier"]))
    return [round(factor * each, 6) for each in table[f"t_{model['batch_overhead_table']}"]]


def _latency(folder: Path, device: str, name: str) -> str:
    rows = _table(folder, f"latency_profile_synthetic_{device}.csv").filter(pl.col("model") == name)
    slices = []
    for (percent,), part in rows.group_by("partition_pct", maintain_order=True):
        points = (f"{batch}: {ms}" for batch, ms in part.select("batch", "latency_ms").iter_rows())
        slices.append(f"{percent / 100}: {{{', '.join(points)}}}")
    return "{" + ", ".join(slices) + "}"


def _traffic(folder: Path, device: str, name: str) -> str:
    known = UTILISATION_NAMES.get((device, name), name)
    rows = _table(folder, f"util_{device}.csv").filter(
        (pl.col("model") == known) & pl.col("batch").is_in([1, 2, 4, 8, 16, 32])
    )
    points = rows.select("batch", "l2_util_pct", "dram_util_pct").iter_rows()
    return "{" + ", ".join(f"{batch}: [{l2 / 100:.9g}, {dram / 100:.9g}]" for batch, l2, dram in points) + "}"


def _flow(numbers: Iterable[float]) -> str:
    return "[" + ", ".join(f"{each!r}" for each in numbers) + "]"


def _key(device: str) -> str:
    return f"'{gpu_key(device)}'" if gpu_key(device).isdigit() else gpu_key(device)
