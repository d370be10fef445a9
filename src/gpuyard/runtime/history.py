"""What happened in a run, as it is written down: who held what, each attempt, and for what reason jobs waited."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from gpuyard.core.cluster import RESOURCES
from gpuyard.core.grants import Part
from gpuyard.runtime.records import Attempt, JobRecord
from gpuyard.runtime.store import StoreFullError

NEXT_ROUND = "round"
"""The reason to wait of a job that nobody has decided about, or that is about to start."""
RUNS = ""
"""It does not wait."""


class JobStore(Protocol):
    """Where jobs, and what happened to them, outlive their scheduler."""

    def records(self) -> dict[str, JobRecord]:
        """All jobs, in their order."""
        ...

    def together(self) -> AbstractContextManager[None]:
        """What is written inside is kept when the block ends; StoreFullError if that is not possible at present."""
        ...

    def save(self, records: Iterable[tuple[int, JobRecord]]) -> None:
        """Keep these jobs, each with its position."""
        ...

    def add(self, table: str, row: dict[str, Any]) -> None:
        """Append a row of `spans` or `attempts`."""
        ...

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of `spans` or `attempts`, in order."""
        ...


class History:
    """Writes down what happens to jobs; what changed is kept when `keep` is called."""

    def __init__(
        self, store: JobStore, name_gpu: Callable[[Part], Any], numbers: Mapping[str, int],
        iteration_s: Mapping[str, float],
    ) -> None:  # fmt: skip
        self._store, self._name_gpu, self._numbers, self._iteration_s = store, name_gpu, numbers, iteration_s
        self._changed: dict[str, JobRecord] = {}
        self._rows: list[tuple[str, dict[str, Any]]] = []
        self._full = False
        self.news = True
        """Whether anything has happened to any job since somebody last set this to False."""

    def changed(self, record: JobRecord) -> None:
        """Keep a job as it is now, together with all else that happens at this moment."""
        self._changed[record.name] = record
        self.news = True

    def waited(self, record: JobRecord, now: float, reason: str) -> None:
        """Count what a job has waited for its present reason, and from now on for another."""
        if record.reason:
            record.waits[record.reason] += max(now - record.reason_since_s, 0.0)
        record.reason, record.reason_since_s = reason, now

    def span(self, record: JobRecord, attempt: Attempt, now: float, how: str) -> None:
        """Up to now a job held the same GPUs and amounts."""
        lasted = now - attempt.span_s
        done = (attempt.step - attempt.span_step) * self._iteration_s[record.name]
        row: dict[str, Any] = {"job_id": record.job.job_id, "start_s": attempt.span_s, "end_s": now, "ended": how}
        row["gpu_ids"] = [self._name_gpu(part) for part in attempt.grant.parts]
        row |= {name: attempt.grant.total(name) for name in RESOURCES}
        if lasted > 0:  # amounts may change twice at one instant
            self._rows.append(("spans", row | {"speed": done / lasted}))
        attempt.steps_s += (attempt.step - attempt.span_step) * attempt.step_s
        attempt.span_s, attempt.span_step = now, attempt.step

    def ended(self, record: JobRecord, attempt: Attempt, now: float, how: str) -> None:
        """An attempt is over."""
        last = record.saved_steps if how != "finished" else attempt.step
        row = {
            "job_id": record.job.job_id,
            "attempt": attempt.number,
            "due_s": attempt.due_s,
            "asked_s": attempt.asked_s,
            "start_s": attempt.told_s,
            "working_s": attempt.working_s,
            "stop_asked_s": attempt.stop_asked_s,
            "end_s": now,
            "first_step": attempt.first_step,
            "last_step": last,
            "steps_s": attempt.steps_s - (attempt.step - last) * attempt.step_s,
            "saves": attempt.saves,
            "save_s": attempt.save_s,
            "load_s": attempt.load_s,
            "leave_s": attempt.leave_s,
            "ended": how,
        }
        self._rows.append(("attempts", row))

    def note(self, table: str, row: dict[str, Any]) -> None:
        """Something of a shared GPU: who was there for how long, or what was measured of them."""
        self._rows.append((table, row))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a table of what happened, also those that there was no room for."""
        return self._store.rows(table) + [row for kind, row in self._rows if kind == table]

    @property
    def kept(self) -> bool:
        """Whether all that happened is on disk."""
        return not self._changed and not self._rows

    def keep(self) -> bool:
        """Write all that happened since the last time; False, and it is still to be written, if there is no room."""
        if self.kept:
            return True
        try:
            with self._store.together():
                self._store.save((self._numbers[name], record) for name, record in self._changed.items())
                for table, row in self._rows:
                    self._store.add(table, row)
        except StoreFullError as error:
            if not self._full:
                print(f"gpuyard: {error}: nobody is started or stopped until that is mended", flush=True)
            self._full = True
            return False
        self._changed.clear()
        self._rows.clear()
        self._full = False
        return True

    def forget(self, record: JobRecord) -> None:
        """It never was."""
        self._changed.pop(record.name, None)
