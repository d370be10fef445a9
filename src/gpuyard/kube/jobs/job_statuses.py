"""Jobs in the statuses of their TrainingJobs: what must not be lost, and what people read. There is nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from gpuyard.core.errors import GpuyardError
from gpuyard.core.grants import Grant
from gpuyard.kube.client.api import Api, ApiError
from gpuyard.kube.jobs.gang_telling import GangTelling
from gpuyard.kube.jobs.status import conditions_of, known_steps, phase_of, reason_of
from gpuyard.kube.json_objects import JsonObject
from gpuyard.kube.resources.records import change_to, write_record
from gpuyard.kube.resources.training_job import TRAINING_JOBS, GangStatus, TrainingJob, job_id
from gpuyard.runtime.records import JobRecord
from gpuyard.runtime.store import StoreFullError, record_as_json, record_from_json

MOST_ROWS = 64
"""Of spans, and of attempts: the newest are kept."""
CONFLICT, INVALID = 409, 422


class JobStatuses:
    """A store of jobs (`JobStore`): one TrainingJob for each."""

    def __init__(
        self, api: Api, leads: Callable[[], bool], now: Callable[[], float], say: Callable[[str], None],
        telling: GangTelling, policy: str,
    ) -> None:  # fmt: skip
        self._api, self._leads, self._now, self._say = api, leads, now, say
        self._telling, self._policy = telling, policy
        self.things: dict[str, TrainingJob] = {}
        """By `namespace/name`, as the API server last showed them."""
        self.words: dict[str, str] = {}
        """Why jobs wait, as the last decision says."""
        self.runs: Callable[[JobRecord], bool] = lambda _record: False
        self.places: Callable[[Grant | None], tuple[str, ...]] = lambda _grant: ()
        self.numbered: Callable[[Grant], Grant] = lambda grant: grant
        """Makes of positions of GPUs their numbers on nodes of Kubernetes, which stay what they are."""
        self._rows: dict[str, dict[str, list[JsonObject]]] = {}
        self._written: dict[str, GangStatus] = {}
        self.unkept: set[str] = set()
        """Jobs whose statuses the API server refuses: nothing is done for them until it takes one."""
        self._fresh: dict[str, JobRecord] = {}
        self._begun: list[tuple[str, JsonObject]] = []

    def restore(self, thing: TrainingJob, fresh: Callable[[], JobRecord]) -> JobRecord:
        """The record of a job as its status has it; a fresh one if it has none that can be understood.

        Its job is the one that was first heard of: what runs is not changed by a change of its spec.
        """
        status, name = thing.status, job_id(thing)
        record = kept_record(status)
        if record is None or record.name != name:
            record = fresh()
            record.attempts = status.attempt or 0  # so that no pod has the name of an earlier one
            if status.record:
                self._say(f"TrainingJob {name} begins anew: its status cannot be understood")
        self._rows[name] = {"spans": list(status.spans), "attempts": list(status.attempts)}
        self._written[name] = status
        return record

    def records(self) -> dict[str, JobRecord]:
        """None: they are added one by one, as they are heard of."""
        return {}

    @contextmanager
    def together(self) -> Iterator[None]:
        """All that is saved inside is written at its end; what could not be is told, and will be saved again."""
        self._fresh.clear()
        self._begun.clear()
        yield  # what is appended inside is in the status of its job, which is saved inside, too
        for record in sorted(self._fresh.values(), key=lambda each: each.target is not None):  # who leaves goes first
            self._write(record)
        for table, row in self._begun:
            self._keep_row(table, row)
        self._begun.clear()

    def save(self, records: Iterable[tuple[int, JobRecord]]) -> None:
        """Keep these jobs."""
        self._fresh.update((record.name, record) for _, record in records)

    def add(self, table: str, row: dict[str, Any]) -> None:
        """Append a row; it is written with its job."""
        self._begun.append((table, row))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of all jobs."""
        return [row for kept in self._rows.values() for row in kept[table]]

    def forget(self, name: str) -> None:
        """A job is gone."""
        for kept in (self._rows, self._written, self.words, self.things):
            kept.pop(name, None)
        self.unkept.discard(name)

    def _keep_row(self, table: str, row: JsonObject) -> None:
        kept = self._rows.get(str(row["job_id"]))
        if kept is not None:
            kept[table] = [*kept[table], row][-MOST_ROWS:]

    def _told(self, record: JobRecord) -> tuple[str, str, str]:
        """Its phase, why, and why in words."""
        phase = phase_of(record, runs=self.runs(record))
        return phase, *reason_of(record, phase, self.words.get(record.name, ""))

    def _progress(self, record: JobRecord) -> GangStatus:
        before, name = self._written.get(record.name, GangStatus()), record.name
        phase, reason, message = self._told(record)
        rows = {table: list(kept) for table, kept in self._rows.get(name, {"spans": [], "attempts": []}).items()}
        for table, row in self._begun:
            if row["job_id"] == name:
                rows[table] = [*rows[table], row][-MOST_ROWS:]
        kept = record_as_json(self._by_number(record))
        return GangStatus(
            phase, reason, message, self.places(record.target or (record.attempt.grant if record.attempt else None)),
            record.attempts, record.done_steps, record.saved_steps, known_steps(record.total_steps),
            conditions_of(before.conditions, phase, reason, message, self._now()),
            json.dumps(kept, sort_keys=True), tuple(rows["spans"]), tuple(rows["attempts"]),
            self._policy,
        )  # fmt: skip

    def _by_number(self, record: JobRecord) -> JobRecord:
        target = record.target and self.numbered(record.target)
        attempt = record.attempt and replace(record.attempt, grant=self.numbered(record.attempt.grant))
        return replace(record, target=target, attempt=attempt)

    def refresh(self, records: Iterable[JobRecord]) -> None:
        """Write what people read of jobs of whom nothing else has changed; what cannot be written is tried again."""
        for record in records:
            before = self._written.get(record.name)
            refused = record.name in self.unkept
            if before is None or refused or self._told(record) != (before.phase, before.reason, before.message):
                with suppress(StoreFullError):
                    self._write(record)

    def _write(self, record: JobRecord) -> None:
        thing = self.things.get(record.name)
        if thing is None:
            return
        if not self._leads():
            raise StoreFullError("another replica leads now")
        wanted = self._progress(record)
        if wanted == self._written.get(record.name):
            return
        change = {"metadata": {"uid": thing.uid}, "status": change_to(wanted)}
        try:
            self._api.patch(TRAINING_JOBS.status_path(thing.name, thing.namespace), change)
        except ApiError as error:
            if error.not_found or error.status == CONFLICT:
                return  # it is gone, or another one, and the list of jobs will say so
            if error.status == INVALID:
                if record.name not in self.unkept:
                    self._say(f"the status of TrainingJob {record.name} is refused: {error}")
                self.unkept.add(record.name)
                return
            raise StoreFullError(f"TrainingJob {record.name} cannot be written: {error}") from None
        before, self._written[record.name] = self._written.get(record.name, GangStatus()), wanted
        self.unkept.discard(record.name)
        self._telling.changed(thing, before, wanted)

    def refuse(self, thing: TrainingJob, why: str) -> None:
        """Say of a job that it can never run."""
        found = conditions_of(thing.status.conditions, "Failed", "Invalid", why, self._now())
        wanted = GangStatus("Failed", "Invalid", why, conditions=found)
        written = write_record(wanted)
        told = {name: written[name] for name in ("phase", "reason", "message", "conditions")}
        if thing.status.phase != "Failed" or thing.status.message != why:
            try:
                self._api.patch(TRAINING_JOBS.status_path(thing.name, thing.namespace), {"status": told})
            except ApiError as error:
                self._say(f"TrainingJob {thing.namespace}/{thing.name}: {why}, which cannot be written: {error}")
            self._telling.changed(thing, thing.status, wanted)


def kept_record(status: GangStatus) -> JobRecord | None:
    """The record of a job as its status has it; None where there is none, or none that can be understood."""
    try:
        return record_from_json(json.loads(status.record)) if status.record else None
    except (TypeError, KeyError, ValueError, AttributeError, GpuyardError):
        return None
