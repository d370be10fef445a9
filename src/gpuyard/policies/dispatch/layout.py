"""A deployment as the rules see it: numbers of services, slices and turns, and what batches of every size take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.service import Service
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.interface import Slice, Turn
from gpuyard.policies.partition.latency import Running


@dataclass(frozen=True, eq=False)
class Layout:
    """Arrays over services, slices and turns; those named x size have a column for each batch size from 0 up."""

    slo_s: Floats
    places: Ints  # services: of one batch of each of their turns
    capacity_per_s: Floats  # services: what their turns do if they need not share their slices
    least_s: Floats  # services: one request on the fastest turn
    service_first: Ints  # services + 1: where a service's turns begin in `service_turns`
    service_turns: Ints  # turns of each service, the fastest first
    slice_gpu: Ints  # numbered through all nodes
    slice_first: Ints  # slices + 1: where a slice's turns begin
    turn_slice: Ints
    turn_service: Ints
    turn_batch: Ints
    planned_s: Floats  # turn x size: beside the worst neighbours, with the plan's buffer
    alone_s: Floats  # turn x size: with nobody beside it, in truth
    raw_s: Floats  # turn x size: the part of it that neighbours slow down
    own: Floats  # turn x size: its own part of the interference factor
    pressure: Floats  # turn x size: what it adds to that of a neighbour


def layout_of(deployment: Deployment, buffer: float = 1.0, services: Sequence[Service] | None = None) -> Layout:
    """Number all slices and turns in the plan's order; batches take what is planned for with this buffer instead.

    Services are numbered as in the deployment, or as in `services`, which may have more of them.
    """
    slices, known = deployment.plan.slices, services or deployment.services
    numbers = {each.service_id: number for number, each in enumerate(known)}
    places = [(number, turn) for number, part in enumerate(slices) for turn in part.turns]
    turn_service = np.array([numbers[turn.service] for _, turn in places], dtype=np.int64)
    turn_batch = np.array([turn.batch for _, turn in places], dtype=np.int64)
    tables = np.zeros((5, len(places), int(turn_batch.max(initial=1)) + 1))
    on_gpu = _by_gpu(slices)
    for row, (number, turn) in enumerate(places):
        part = slices[number]
        others = [each for each in on_gpu[part.node, part.gpu] if each is not part]
        for size in range(1, turn.batch + 1):
            tables[:, row, size] = _takes(deployment, part, turn, size, others, buffer)
    planned_s, alone_s, raw_s, own, pressure = tables
    able = [np.flatnonzero(turn_service == number) for number in range(len(numbers))]
    turns = [each[np.argsort(planned_s[each, 1], kind="stable")] for each in able]
    full_s = planned_s[np.arange(len(places)), turn_batch]
    return Layout(
        slo_s=np.array([each.slo_ms / 1000.0 for each in known]),
        places=np.array([turn_batch[each].sum() for each in turns], dtype=np.int64),
        capacity_per_s=np.array([(turn_batch[each] / full_s[each]).sum() for each in turns]),
        least_s=np.array([planned_s[each, 1].min(initial=np.inf) for each in turns]),
        service_first=np.cumsum([0, *(len(each) for each in turns)]),
        service_turns=np.concatenate([np.empty(0, np.int64), *turns]),
        slice_gpu=np.array([deployment.gpu_number(each) for each in slices], dtype=np.int64),
        slice_first=np.cumsum([0, *(len(each.turns) for each in slices)]),
        turn_slice=np.array([number for number, _ in places], dtype=np.int64),
        turn_service=turn_service,
        turn_batch=turn_batch,
        planned_s=planned_s, alone_s=alone_s, raw_s=raw_s, own=own, pressure=pressure,
    )  # fmt: skip


def _by_gpu(slices: Sequence[Slice]) -> dict[tuple[str, int], list[Slice]]:
    found: dict[tuple[str, int], list[Slice]] = defaultdict(list)
    for part in slices:
        found[part.node, part.gpu].append(part)
    return found


def _takes(
    deployment: Deployment, part: Slice, turn: Turn, size: int, others: Sequence[Slice], buffer: float
) -> tuple[float, float, float, float, float]:
    """One batch: planned, alone, the part of it that is slowed down, and its parts of interference factors."""
    latency = deployment.latency[deployment.gpu_type(part)]
    model, percent = deployment.service[turn.service].model, part.thousandths // 10
    beside = [
        Running(deployment.service[each.service].model, each.batch, other.thousandths // 10)
        for other in others for each in other.turns
    ]  # fmt: skip
    raw_s = latency.raw_ms(model, size, percent) / 1000.0 * buffer
    gathering_s = latency.gathering_ms(model, size) / 1000.0 * buffer
    own, pressure = latency.parts(model, size, percent)
    return latency.beside_ms(model, size, percent, beside) / 1000.0, raw_s + gathering_s, raw_s, own, pressure
