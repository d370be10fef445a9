"""The batch size of a task that shares its GPU: gpuyard's node daemon may wish for another one while it trains.

    batch = SharedBatch(64)
    for step in range(steps):
        train(next_samples(batch.size))
        if batch.step():
            scale_learning_rate(batch.learning_rate_factor)

A step boundary costs about a microsecond: a thread of its own speaks with the daemon, over a socket of this machine.
Without a daemon nothing is ever wished, and nothing is measured.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

SOCKET, TASK = "GPUYARD_TASK_SOCKET", "GPUYARD_TASK"
BEAT_S = 0.5
ANSWER_S = 5.0
ENOUGH_STEPS = 5
"""Fewer steps make no sample."""
MOST_STEPS = 1000
"""More steps than these are not kept for one sample."""
MOST_BYTES = 65536


@dataclass(frozen=True)
class BatchWish:
    """What the daemon wishes: a later one replaces an earlier one; `round` and `generation` say which one it is."""

    round: str
    generation: int
    batch: int
    learning_rate_factor: float = 1.0


class _Tally:
    """The times of steps that were done with one wish, which a sample is made of."""

    def __init__(self, wish: BatchWish | None) -> None:
        self.wish = wish
        self.seconds: list[float] = []
        self.noise_scale: float | None = None

    def sample(self) -> dict[str, Any] | None:
        """What was measured since the last sample; None if it is too little."""
        taken = self.seconds[:]
        if self.wish is None or len(taken) < ENOUGH_STEPS:
            return None
        del self.seconds[: len(taken)]  # what the training thread adds meanwhile stays for the next one
        mean = sum(taken) / len(taken)
        variance = sum((each - mean) ** 2 for each in taken) / (len(taken) - 1)
        return {
            "steps": len(taken),
            "step_s": mean,
            "error_s": sqrt(variance / len(taken)),
            "noise_scale": self.noise_scale,
        }


class SharedBatch:
    """A task's batch size: its own, until the daemon of its node wishes for another one."""

    def __init__(
        self,
        own: int,
        *,
        smallest: int | None = None,
        largest: int | None = None,
        fixed_gb: float = 0.0,
        sample_gb: float = 0.0,
        learning_rate: str = "sqrt",
        beat_s: float = BEAT_S,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """The sizes that the task allows, from half to twice its own; and, where they are known, what they take.

        `fixed_gb` is GPU memory beside what grows with the batch, `sample_gb` for each sample. `learning_rate` is the
        rule by which it follows: sqrt, linear, adascale or none. How things are is told every `beat_s`.
        """
        self.size = own
        self.learning_rate_factor = 1.0
        self._smallest = max(1, own // 2) if smallest is None else smallest
        self._largest = 2 * own if largest is None else largest
        if not 1 <= self._smallest <= own <= self._largest:
            raise ValueError("batch sizes must be 1 ≤ smallest ≤ own ≤ largest")
        self._terms = {
            "task": environment.get(TASK, ""),
            "own": own,
            "smallest": self._smallest,
            "largest": self._largest,
            "fixed_gb": fixed_gb,
            "sample_gb": sample_gb,
            "rule": learning_rate,
        }
        self._wish: BatchWish | None = None
        self._tally = _Tally(None)
        self._too_large: BatchWish | None = None
        self._last: float | None = None
        self._beat_s, self._over = beat_s, threading.Event()
        self._path = environment.get(SOCKET, "")
        if self._path and self._terms["task"]:
            threading.Thread(target=self._go_on, name="gpuyard batch", daemon=True).start()

    def step(self, noise_scale: float | None = None) -> bool:
        """Say that a step is done; True if the next one is to have another size.

        `noise_scale` is that of the task's gradients, in samples, where it is measured.
        """
        wish, tally = self._wish, self._tally
        if wish is None:
            return False
        now = time.perf_counter()
        if wish is tally.wish:
            if self._last is not None and len(tally.seconds) < MOST_STEPS:
                tally.seconds.append(now - self._last)
            tally.noise_scale = noise_scale
            self._last = now
            return False
        changed = wish.batch != self.size
        self.size, self.learning_rate_factor = wish.batch, wish.learning_rate_factor
        self._tally = _Tally(wish)
        self._last = None if changed else now  # the first step of a new size is slower than those that follow
        return changed

    def out_of_memory(self) -> None:
        """Say that the present size does not fit: the daemon will not wish for as much again."""
        self._too_large = self._tally.wish

    def close(self) -> None:
        """Speak with the daemon no longer; the size stays as it is."""
        self._over.set()

    def _go_on(self) -> None:
        while not self._over.is_set():
            try:
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                    connection.settimeout(ANSWER_S)
                    connection.connect(self._path)
                    self._speak(connection)
            except (OSError, ValueError, KeyError, TypeError):
                self._over.wait(self._beat_s)  # the daemon is not there, or is being replaced: training goes on

    def _speak(self, connection: socket.socket) -> None:
        """Tell each beat how things are, and hear what is wished."""
        with connection.makefile("rwb") as lines:
            while not self._over.is_set():
                lines.write(json.dumps(self._state()).encode() + b"\n")
                lines.flush()
                answer = lines.readline(MOST_BYTES)
                if not answer:
                    raise ConnectionError
                self._hear(json.loads(answer))
                self._over.wait(self._beat_s)

    def _state(self) -> dict[str, Any]:
        tally, too_large = self._tally, self._too_large
        self._too_large = None
        told = self._terms | {"sample": tally.sample(), "out_of_memory": None}
        if too_large is not None:
            told["out_of_memory"] = [too_large.round, too_large.generation]
        return told | {"applied": None if tally.wish is None else [tally.wish.round, tally.wish.generation]}

    def _hear(self, answer: dict[str, Any]) -> None:
        if answer.get("wish") is None:
            return
        wish, present = BatchWish(**answer["wish"]), self._wish
        known = present is not None and (present.round, present.generation) == (wish.round, wish.generation)
        if not known and self._smallest <= wish.batch <= self._largest:
            self._wish = wish
