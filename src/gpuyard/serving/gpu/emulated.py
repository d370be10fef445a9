"""Slices of a GPU that is not there: batches take what the profile says, in real time, and slow each other down.

A slice's timeline does not wait for this machine. A batch that waited when the one before it ended begins at that
very moment, even if the process learned of both a little later, as on a GPU with its work queued ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpuyard.policies.dispatch.rules import slowdown
from gpuyard.serving.frames import Ended, StartBatch
from gpuyard.serving.gpu.executor import Failed, SlicePlan


@dataclass(slots=True)
class _Running:
    """A batch on its way."""

    number: int
    begun_s: float
    work_s: float
    """What is left of it, in seconds alone on the GPU."""
    as_of_s: float
    alone_s: float
    raw_s: float
    own: float
    pressure: float
    slowed: float = 1.0

    @property
    def ends_s(self) -> float:
        return self.as_of_s + self.work_s * self.slowed

    def advance(self, now: float) -> None:
        if now > self.as_of_s:
            self.work_s = max(self.work_s - (now - self.as_of_s) / self.slowed, 0.0)
            self.as_of_s = now


class EmulatedGpu:
    """The timelines of one GPU's slices."""

    def __init__(self) -> None:
        self._turns: dict[tuple[int, int], tuple[SlicePlan, int]] = {}
        self._running: dict[tuple[int, int], _Running] = {}
        self._preparing: dict[int, float] = {}
        self._ended: list[Ended | Failed] = []

    def prepare(self, layout: int, slices: Sequence[SlicePlan], now: float) -> None:
        """Note the slices; they are ready when the slowest is."""
        for part in slices:
            for position, turn in enumerate(part.turns):
                self._turns[layout, turn] = (part, position)
        self._preparing[layout] = now + max([0.0, *(part.prepare_s for part in slices)])

    def prepared(self, now: float) -> list[int]:
        """Layouts that have become ready."""
        ready = [layout for layout, when in self._preparing.items() if when <= now]
        for layout in ready:
            del self._preparing[layout]
        return ready

    def retire(self, layout: int) -> None:
        """Forget a layout; what still runs on it goes on."""
        self._turns = {key: value for key, value in self._turns.items() if key[0] != layout}

    def run(self, batch: StartBatch, now: float) -> None:
        """Begin a batch."""
        part, position = self._turns[batch.layout, batch.turn]
        begun_s = now if batch.begins_s is None else batch.begins_s
        self._pass_to(begun_s)
        row = {name: table[position][batch.size] for name, table in part.tables.items()}
        running = _Running(batch.number, begun_s, row["alone_s"], begun_s, **row)
        self._running[batch.layout, part.number] = running
        self._press()

    def _pass_to(self, now: float) -> None:
        """Let time pass: batches end one after another, and whoever is left goes on without their pressure."""
        while self._running:
            key, first = min(self._running.items(), key=lambda each: each[1].ends_s)
            end_s = first.ends_s
            if end_s > now:
                break
            del self._running[key]
            self._ended.append(Ended(first.number, first.begun_s, end_s, []))
            for other in self._running.values():
                other.advance(end_s)
            self._press()
        for other in self._running.values():
            other.advance(now)

    def _press(self) -> None:
        """Set everybody's speed by who runs beside it."""
        for key, one in self._running.items():
            others = [other.pressure for beside, other in self._running.items() if beside != key]
            one.slowed = slowdown(one.alone_s, one.raw_s, one.own, max(others)) if others else 1.0

    def due_s(self) -> float | None:
        """The next end, or the next layout that is ready."""
        return min([*self._preparing.values(), *(one.ends_s for one in self._running.values())], default=None)

    def files(self) -> Sequence[Any]:
        """Nothing happens but by time."""
        return ()

    def finished(self, now: float) -> list[Ended | Failed]:
        """Batches that have ended by now."""
        self._pass_to(now)
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        """Nothing was started."""
