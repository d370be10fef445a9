"""Applications as the rules see them: stages by number, what each waits for, and how often a request asks it.

A request of an application goes through its stages; each is asked when all before it have answered, and the request
ends in time if the last one does. Whether it can still be in time is judged by the end of the whole, less what the
stages behind would take at least (`rest_s`): what an early stage leaves of its part of the SLO, later ones may use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpuyard.core.application import Application
from gpuyard.core.arrays import Ints


@dataclass(frozen=True)
class StageOrder:
    """One application: its stages, each after all that it waits for."""

    slo_s: float
    services: tuple[int, ...]
    """Of each stage, by number."""
    per_request: tuple[float, ...]
    before: tuple[int, ...]
    """How many stages each waits for."""
    behind: tuple[tuple[int, ...], ...]
    """Which stages wait for it."""

    def rest_s(self, least_s: Sequence[float]) -> list[float]:
        """What the stages behind each take at least; `least_s` has one request of each service.

        One that is not asked for every request may take nothing.
        """
        least = [
            least_s[service] if n >= 1 else 0.0 for service, n in zip(self.services, self.per_request, strict=True)
        ]
        rest = [0.0] * len(least)
        for stage in reversed(range(len(least))):
            rest[stage] = max((least[each] + rest[each] for each in self.behind[stage]), default=0.0)
        return rest


def stage_order(of: Application, numbers: Mapping[int | str, int]) -> StageOrder:
    """An application's stages, with the numbers of their services."""
    place = {stage.name: number for number, stage in enumerate(of.stages)}
    behind: list[list[int]] = [[] for _ in of.stages]
    for stage in of.stages:
        for other in dict.fromkeys(stage.after):
            behind[place[other]].append(place[stage.name])
    return StageOrder(
        of.slo_ms / 1000.0,
        tuple(numbers[of.service_id(stage.name)] for stage in of.stages),
        tuple(stage.per_request for stage in of.stages),
        tuple(len(set(stage.after)) for stage in of.stages),
        tuple(map(tuple, behind)),
    )


def times_asked(first: int, count: int, per_request: float) -> Ints:
    """How often each of `count` requests from number `first` on asks a stage.

    Whole numbers: where it is asked 2.5 times on the mean, requests ask it twice and three times in turn.
    """
    asked: Ints = np.floor(np.arange(first, first + count + 1) * per_request).astype(np.int64)
    return asked[1:] - asked[:-1]
