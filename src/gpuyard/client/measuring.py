"""Steps of a script that is being profiled: timed in windows, written to a file, ended when there are enough."""

from __future__ import annotations

import atexit
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

T = TypeVar("T")
RECORD, WINDOWS, SYNTHETIC_BATCH = "GPUYARD_MEASURE", "GPUYARD_MEASURE_WINDOWS", "GPUYARD_SYNTHETIC"
WINDOW_STEPS = "GPUYARD_MEASURE_STEPS"


class MeasuringEnded(SystemExit):
    """Enough steps were measured."""


def sampled_steps(whole: int) -> int:
    """Steps of the part of an epoch that is enough for a measurement: all of it, unless this process is measured."""
    return min(whole, int(os.environ.get(WINDOW_STEPS, whole)))


def length_of(loader: Any) -> int | None:
    """How many batches a loader has; None for a stream, such as PyTorch's loader of a data set without a length."""
    try:
        return len(loader)
    except TypeError:
        return None


def of_loader(wrapped: Any, name: str) -> Any:
    """What a loader has that whoever wraps it has not: a script may go on asking for its `dataset` or its `sampler`."""
    if name.startswith("_"):
        raise AttributeError(f"{type(wrapped).__name__} has no {name}")
    return getattr(wrapped._loader, name)


class MeasuredSteps(Generic[T]):
    """A loader whose first window of steps is a warm-up and whose next ones are timed. A window is at most an epoch."""

    def __init__(
        self,
        loader: Iterable[T],
        environment: Mapping[str, str] = os.environ,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._loader, self._now = loader, now
        self._synthetic = bool(environment.get(SYNTHETIC_BATCH))
        self._windows = int(environment[WINDOWS])
        self._epoch = length_of(loader)
        most = int(environment[WINDOW_STEPS])
        self._window = most if self._synthetic or self._epoch is None else max(1, min(most, self._epoch))
        self._steps, self._marks = 0, list[float]()
        self._away_s, self._left_at = 0.0, now()
        self._record = Path(environment[RECORD])
        self._process = os.getpid() if environment.get("RANK", "0") == "0" else None
        self._write()  # so that whoever waits can tell a script without steps from one without this
        atexit.register(self._write)

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return of_loader(self, name)

    def __iter__(self) -> Iterator[T]:
        self._away_s += self._now() - self._left_at  # what a script does between epochs, such as a validation
        for batch in self._batches():
            yield batch
            self._steps += 1
            if self._steps % self._window == 0:
                self._mark()
        self._left_at = self._now()

    def _mark(self) -> None:
        self._marks.append(self._now() - self._away_s)
        self._write()
        if len(self._marks) > self._windows:
            raise MeasuringEnded(0)

    def _batches(self) -> Iterator[T]:
        if not self._synthetic:
            yield from self._loader
            return
        for first in self._loader:
            while True:
                yield first

    def _write(self) -> None:
        """Tell what has been measured, whole or not at all; of several processes only the first one tells."""
        if os.getpid() != self._process:
            return
        times = [(after - before) / self._window for before, after in zip(self._marks, self._marks[1:], strict=False)]
        traffic: dict[str, Any] = getattr(self._loader, "traffic", {}) if self._epoch is not None else {}
        record = {"steps": self._steps, "window_steps": self._window, "epoch_steps": self._epoch or self._window}
        part = self._record.with_suffix(".part")
        part.write_text(json.dumps({**record, "step_s": times, "traffic": traffic}))
        part.replace(self._record)
