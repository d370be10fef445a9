"""The slices of a GPU, made of what they hold: what every turn takes beside its neighbours, and the memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuyard.core.service import Service
from gpuyard.policies.partition.interface import Place, Slice, Turn
from gpuyard.policies.partition.latency import LatencyModel, Running
from gpuyard.policies.partition.limits import CONTEXT_MB

NamedTurns = tuple[tuple[int | str, int], ...]
"""Services with their batches."""
GpuSlices = tuple[tuple[int, NamedTurns], ...]
"""The slices of a GPU, in percent, and what they hold."""


def held_by(slices: Sequence[Slice]) -> GpuSlices:
    """What the slices of a GPU hold."""
    return tuple((each.thousandths // 10, tuple((turn.service, turn.batch) for turn in each.turns)) for each in slices)


def cut(
    place: Place, layout: GpuSlices, services: Mapping[int | str, Service], latency: LatencyModel, stretch: float = 1.0
) -> tuple[Slice, ...]:
    """Slices with their turns back to back, or with periods that are so many times as long."""
    running = [[Running(services[name].model, batch, percent) for name, batch in held] for percent, held in layout]
    found = []
    for here, (percent, held) in enumerate(layout):
        beside = [each for k, others in enumerate(running) if k != here for each in others]
        takes_s = [latency.beside_ms(*each, beside) / 1000.0 for each in running[here]]
        turns = tuple(Turn(name, batch, s) for (name, batch), s in zip(held, takes_s, strict=True))
        memory = memory_mb([(percent, held)], services, latency)
        found.append(Slice(*place, percent * 10, memory / 1000.0, turns, sum(takes_s) * stretch))
    return tuple(found)


def memory_mb(
    layout: Sequence[tuple[int, NamedTurns]], services: Mapping[int | str, Service], latency: LatencyModel
) -> float:  # fmt: skip
    """What slices take of their GPU: all models that stay loaded, and a context for each slice that holds any."""
    models = latency.gpu.models
    return sum(
        CONTEXT_MB + sum(models[services[name].model].memory_mb for name, _ in held) for _, held in layout if held
    )
