"""The profile of a job: which points are measured, and what is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from gpuyard.profiles.synergy_files import PERCENTS, SynergyProfile
from gpuyard.profiles.throughput_part import throughput_part
from gpuyard.profiling.optimistic import JobModel, Measurement, sweep, sweep_points

SYNTHETIC = "synthetic data"


class MeasurePoint(Protocol):
    """Measures one point."""

    def __call__(self, cpus: int, *, synthetic: bool = False) -> Measurement:
        """With so many CPUs and room for all data; on one batch again and again if synthetic."""
        ...


@dataclass
class JobProfile:
    """What was measured of a job, and what is computed from it."""

    name: str
    cpu_grid: tuple[int, ...]
    data_gb: float | None = None
    """Size of the real data, if the command reads a sample of it."""
    gpu: Measurement = field(init=False)
    by_cpus: dict[int, Measurement] = field(default_factory=dict)

    @property
    def most_points(self) -> int:
        """Points that have to be measured, unless the sweep may stop early."""
        return 2 + len(sweep_points(max(self.cpu_grid)))

    def measure(self, run: MeasurePoint, note: Callable[[int | None, Measurement], None]) -> None:
        """Measure the GPU alone, then the sweep; `note` hears of each point: its CPUs, or None for the GPU alone."""
        self.gpu = run(max(self.cpu_grid), synthetic=True)
        note(None, self.gpu)
        for cpus, found in sweep(max(self.cpu_grid), self.gpu.typical_s, run):
            self.by_cpus[cpus] = found
            note(cpus, found)

    @property
    def model(self) -> JobModel:
        """From which any point is told."""
        return JobModel(self.gpu.typical_s, self.by_cpus)

    @property
    def memory_grid(self) -> tuple[float, ...]:
        """GB per GPU at which parts of the data are cached; any amount, for a loader that counts nothing."""
        parts, data_gb = self.model.cached_parts(), self.data_gb or self.model.data_bytes / 1e9
        return tuple(float(f"{part * data_gb:.9g}") for part in parts) if self.model.step_bytes else (1.0,)

    def rows(self) -> list[dict[str, Any]]:
        """Every point of the matrix, with how it is known."""
        model = self.model
        return [
            {
                "cpus": cpus,
                "memory_gb": memory,
                "cached_pct": 100 * part,
                "step_ms": 1e3 * model.step_s(cpus, part),
                "storage_mbps": model.storage_mbps(cpus, part),
                "origin": "measured" if part == 1 and cpus in self.by_cpus else "computed",
                "spread_pct": 100 * self.by_cpus[cpus].spread if part == 1 and cpus in self.by_cpus else None,
            }
            for cpus in self.cpu_grid
            for memory, part in zip(self.memory_grid, model.cached_parts(), strict=True)
        ]

    def facts(self) -> dict[str, str]:
        """What was measured, each with its spread."""
        points = {cpus_text(cpus): found for cpus, found in sorted(self.by_cpus.items(), reverse=True)}
        told = {
            name: f"{1e3 * found.typical_s:.4g} ms a step{spread_text(found.spread)}"
            for name, found in {SYNTHETIC: self.gpu, **points}.items()
        }
        if self.model.step_bytes:
            for name, found in {"disk": self.model.disk, "memory": self.model.memory}.items():
                told[name] = f"{found.bytes_s / 1e6:.4g} MB/s{spread_text(found.spread)}"
            told["data"] = f"{self.model.data_bytes / 1e9:.4g} GB" + (
                f", a sample of {self.data_gb:g} GB" if self.data_gb else ""
            )
        return told

    def entry(self, gpu_type: str) -> dict[str, Any]:
        """As one model of a profile file."""
        model, parts = self.model, self.model.cached_parts()
        measured = "; ".join(f"{name} {text}" for name, text in self.facts().items())
        step_s, storage_mbps = (
            [[tell(cpus, part) for part in parts] for cpus in self.cpu_grid]
            for tell in (model.step_s, model.storage_mbps)
        )
        return {
            "source": f"gpuyard profile job, measured with all data cached: {measured}; the rest computed",
            "gpu_type": gpu_type,
            **throughput_part(self.cpu_grid, self.memory_grid, step_s, storage_mbps),
        }

    def as_synergy(self) -> SynergyProfile:
        """As Synergy's profiler tells it: a row for each measured number of CPUs, memory in percent of the data."""
        model = self.model
        rows = sorted(self.by_cpus, reverse=True)
        parts = {percent: percent / 100 for percent in PERCENTS} if model.step_bytes else {100: 1.0}
        return SynergyProfile(
            {cpus: model.cached_s(cpus) for cpus in rows},
            {cpus: {p: model.step_s(cpus, part) * model.epoch_steps for p, part in parts.items()} for cpus in rows},
            {cpus: {p: model.storage_mbps(cpus, part) for p, part in parts.items()} for cpus in rows},
        )


def cpus_text(cpus: int) -> str:
    """Name a point of the sweep."""
    return f"{cpus} CPU{'s' * (cpus > 1)}"


def spread_text(spread: float | None) -> str:
    """Write a spread behind what it is of."""
    return "" if spread is None else f" (spread {100 * spread:.1f} %)"


def cpu_points(most: int) -> tuple[int, ...]:
    """1, 2, 3, 4, then steps of 2, up to the most; 3 is the reference share."""
    return tuple(sorted({*range(1, min(most, 4) + 1), *range(6, most + 1, 2), most}))
