"""The batch size of a task that shares its GPU: gpuyard's node daemon may wish for another one while it trains.

    batch = SharedBatch(64)
    for step in range(steps):
        train(next_samples(batch.size))
        if batch.step():
            scale_learning_rate(batch.learning_rate_factor)

A step boundary costs less than a microsecond: a thread of its own speaks with the daemon, over a socket of this
machine. Without a daemon nothing is ever wished, and nothing is measured; nor in one of several processes that train
one model together, as these would hear of a wish at different steps.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

from gpuyard.client.process_group import is_one_of_several, rank_of
from gpuyard.client.step_times import BoundaryTimes

SOCKET, TASK = "GPUYARD_TASK_SOCKET", "GPUYARD_TASK"
BEAT_S = 0.5
ANSWER_S = 5.0
ENOUGH_STEPS = 5
"""Fewer steps make no sample."""
MOST_BYTES = 65536


@dataclass(frozen=True)
class BatchWish:
    """What the daemon wishes: a later one replaces an earlier one; `round` and `generation` say which one it is."""

    round: str
    generation: int
    batch: int
    learning_rate_factor: float = 1.0


class _Tally:
    """What was measured of the steps that were done with one wish."""

    def __init__(self, wish: BatchWish | None, times: BoundaryTimes, *, begun: bool) -> None:
        self.wish, self.times, self.begun = wish, times, begun
        """`begun`: a step has been done with it, or the next one will be."""
        self.noise_scale: float | None = None

    def sample(self) -> dict[str, Any] | None:
        """What was measured since the last sample; None if it is too little."""
        taken = self.times.take(ENOUGH_STEPS)
        if not taken:
            return None
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
        wait: Callable[[], object] | None = None,
        beat_s: float = BEAT_S,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """The sizes that the task allows, from half to twice its own; and, where they are known, what they take.

        `fixed_gb` is GPU memory beside what grows with the batch, `sample_gb` for each sample. `learning_rate` is the
        rule by which it follows: sqrt, linear, adascale or none. `wait` waits for the GPU, such as
        `torch.cuda.synchronize`: a loop that never does so itself is measured wrongly without. It is called once in ten
        steps, while somebody asks. How things are is told every `beat_s`.
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
        self._wait = wait
        self._wish: BatchWish | None = None
        self._tally = _Tally(None, BoundaryTimes(), begun=True)
        self._own = self._fitted = own, 1.0
        """Size and factor of the learning rate: the task's own, and the last ones that it trained with before these."""
        self._too_large: BatchWish | None = None
        """A wish that did not fit, until the daemon has heard of it."""
        self._refused: BatchWish | None = None
        self._apart = False
        """Whether this is one of several processes, which follow no wish."""
        self._most = own
        """The largest size that there was so far."""
        self._beat_s, self._over = beat_s, threading.Event()
        self._path = environment.get(SOCKET, "")
        self.may_change = bool(self._path and self._terms["task"])
        """Whether there is anybody who could wish for another size."""
        if self.may_change and is_one_of_several(environment):
            self._take_no_part()
        if self.may_change:
            threading.Thread(target=self._go_on, name="gpuyard batch", daemon=True).start()

    @property
    def own(self) -> int:
        """The task's own size."""
        return self._own[0]

    @property
    def asked(self) -> bool:
        """Whether anybody wants to know how this task trains."""
        return self._wish is not None

    def step(self, noise_scale: float | None = None, *, samples: int | None = None) -> bool:
        """Say that a step is done; True if batches are to have another size from now on.

        `noise_scale` is that of the task's gradients, in samples, where it is measured. `samples` is how many the step
        had, where that may be another number than `size`: batches that were fetched before the size changed, or the
        last of an epoch. Such steps are not measured, and a size, with its learning rate, counts as taken with the
        first step that had it.
        """
        wish, tally = self._wish, self._tally
        if wish is None or wish is self._refused or self._apart:
            return False
        if wish is not tally.wish:
            if self.may_change and is_one_of_several({}):  # since this was made
                before = self.size
                self._take_no_part()
                return self.size != before
            return self._follow(wish, samples)
        tally.noise_scale = noise_scale
        if samples is not None and samples != self.size:
            tally.times.begin()
        elif tally.begun:
            tally.times.step()
        else:
            tally.begun, self.learning_rate_factor = True, wish.learning_rate_factor
            tally.times.begin()
        return False

    def pause(self) -> None:
        """Say that something else than a step follows, such as a validation: it is no part of the next step's time."""
        self._tally.times.pause()

    def out_of_memory(self, samples: int | None = None) -> bool:
        """Say that a step did not fit; True if there is a smaller size to go on with, which is `size` now.

        The daemon will not wish for as much again. False where nobody asked for that size: it is the task's own.
        """
        wish = self._tally.wish
        if samples is not None and samples > self.size:
            return samples <= self._most  # fetched before with a larger size; larger ones are the task's own affair
        smaller = [each for each in (self._fitted, self._own) if each[0] < self.size]
        if wish is None or not smaller:
            return False
        self._refused = self._too_large = wish
        self._tally = _Tally(None, BoundaryTimes(), begun=True)
        self.size, self.learning_rate_factor = max(smaller)
        return True

    def _follow(self, wish: BatchWish, samples: int | None) -> bool:
        """A wish is seen for the first time, at the end of a step with another one."""
        changed = wish.batch != self.size
        if changed and self._tally.begun:
            self._fitted = self.size, self.learning_rate_factor
        self.size, begun = wish.batch, samples is None or samples == wish.batch
        self._most = max(self._most, wish.batch)
        if begun:
            self.learning_rate_factor = wish.learning_rate_factor
        self._tally = _Tally(wish, BoundaryTimes(self._wait), begun=begun)
        if begun and not changed:
            self._tally.times.begin()  # the first step of a new size is slower than those that follow
        return changed

    def _take_no_part(self) -> None:
        """Processes that train one model together must have one size at every step: they keep their own."""
        self._apart, self.may_change = True, False
        self._over.set()
        self.size, self.learning_rate_factor = self._own
        if rank_of() == 0:
            print(f"gpuyard: batches stay at {self.size}: several processes train together", file=sys.stderr)

    def close(self) -> None:
        """Speak with the daemon no longer; the size stays as it is."""
        self._over.set()

    def _go_on(self) -> None:
        while not self._over.is_set():
            try:
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                    connection.settimeout(ANSWER_S)
                    connection.connect(self._path)
                    try:
                        self._speak(connection)
                    finally:  # processes that were forked meanwhile, such as a loader's workers, have it open, too
                        connection.shutdown(socket.SHUT_RDWR)
            except (OSError, ValueError, KeyError, TypeError):
                self._over.wait(self._beat_s)  # the daemon is not there, or is being replaced: training goes on

    def _speak(self, connection: socket.socket) -> None:
        """Tell each beat how things are, and hear what is wished."""
        with connection.makefile("rwb") as lines:
            while not self._over.is_set():
                told = self._too_large
                lines.write(json.dumps(self._state()).encode() + b"\n")
                lines.flush()
                answer = lines.readline(MOST_BYTES)
                if not answer:
                    raise ConnectionError
                self._hear(json.loads(answer))
                if self._too_large is told:
                    self._too_large = None
                self._over.wait(self._beat_s)

    def _state(self) -> dict[str, Any]:
        tally, too_large = self._tally, self._too_large
        followed = tally.wish if tally.begun else None
        return self._terms | {
            "sample": tally.sample() if followed is not None else None,
            "out_of_memory": None if too_large is None else [too_large.round, too_large.generation],
            "applied": None if followed is None else [followed.round, followed.generation],
        }

    def _hear(self, answer: dict[str, Any]) -> None:
        if answer.get("wish") is None:
            return
        wish, present = BatchWish(**answer["wish"]), self._wish
        known = present is not None and (present.round, present.generation) == (wish.round, wish.generation)
        if not known and self._smallest <= wish.batch <= self._largest:
            self._wish = wish
