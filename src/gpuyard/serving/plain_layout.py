"""A layout as plain lists, which Python reads faster than arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpuyard.policies.dispatch.layout import Layout


@dataclass(frozen=True)
class PlainLayout:
    """Services, slices and turns by number."""

    turns_of: list[list[int]]
    """Of each service, the fastest first."""
    slice_gpu: list[int] = field(default_factory=list)
    slice_first: list[int] = field(default_factory=list)
    turn_slice: list[int] = field(default_factory=list)
    turn_service: list[int] = field(default_factory=list)
    turn_batch: list[int] = field(default_factory=list)
    planned_s: list[list[float]] = field(default_factory=list)

    @classmethod
    def of(cls, layout: Layout, services: Sequence[int], count: int) -> PlainLayout:
        """Number services as the server does: `services` has the number of each of the layout's, out of `count`."""
        first, turns = layout.service_first.tolist(), layout.service_turns.tolist()
        turns_of: list[list[int]] = [[] for _ in range(count)]
        for position, service in enumerate(services):
            turns_of[service] = turns[first[position] : first[position + 1]]
        return cls(
            turns_of, layout.slice_gpu.tolist(), layout.slice_first.tolist(), layout.turn_slice.tolist(),
            [services[each] for each in layout.turn_service.tolist()],
            layout.turn_batch.tolist(), layout.planned_s.tolist(),
        )  # fmt: skip

    def able(self, turns: list[int], there: list[bool]) -> tuple[int, float, float]:
        """Of those turns that are there: places, requests a second, and seconds of one request on the fastest."""
        found = [turn for turn in turns if there[turn]]
        if not found:
            return 0, 0.0, 0.0
        capacity = sum(self.turn_batch[turn] / self.planned_s[turn][self.turn_batch[turn]] for turn in found)
        return sum(self.turn_batch[turn] for turn in found), capacity, min(self.planned_s[turn][1] for turn in found)
