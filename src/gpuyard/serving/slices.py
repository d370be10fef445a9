"""What GPU processes have to know of a deployment, and what stays when another takes over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuyard.policies.dispatch.layout import Layout
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.interface import Slice

TABLES = ("alone_s", "raw_s", "own", "pressure")


def slice_plans(deployment: Deployment, layout: Layout, prepare_s: Mapping[int, float]) -> dict[int, list[Any]]:
    """By GPU, what its process has to know of its slices; `prepare_s` has those that take time to get ready."""
    found: dict[int, list[Any]] = {}
    for number, part in enumerate(deployment.plan.slices):
        if not part.turns:
            continue
        first, last = (int(each) for each in layout.slice_first[number : number + 2])
        plan = {
            "number": number,
            "percent": part.thousandths // 10,
            "models": [str(turn.service) for turn in part.turns],
            "turns": list(range(first, last)),
            "tables": {name: getattr(layout, name)[first:last].tolist() for name in TABLES},
            "prepare_s": prepare_s.get(number, 0.0),
        }
        found.setdefault(deployment.gpu_number(part), []).append(plan)
    return found


def kept_slices(before: Deployment | None, after: Deployment) -> list[tuple[int, int]]:
    """Slices, by old and new number, that stay as they are but for their batches."""
    present: dict[object, list[int]] = {}
    for number, part in enumerate(before.plan.slices if before is not None else ()):
        present.setdefault(_identity(part), []).append(number)
    found = []
    for number, part in enumerate(after.plan.slices):
        alike = present.get(_identity(part))
        if alike:
            found.append((alike.pop(0), number))
    return found


def _identity(part: Slice) -> tuple[object, ...]:
    return part.node, part.gpu, part.thousandths, tuple(turn.service for turn in part.turns)
