"""What a policy sees: the world at one instant, as a value.

A snapshot never changes. Policies read columns over the jobs that have arrived and are not finished; the arrays behind
them are the business of the shipped policies and of the world that the snapshot is of (`tables.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.books import DEMANDS
from gpuyard.core.cluster import Cluster
from gpuyard.policies.facts import Facts
from gpuyard.policies.instant import Instant, facts_of, instant_of, job_id_of
from gpuyard.policies.tables import FOREVER_S, Moment, Tables
from gpuyard.profiles import Zoo, load_zoo

NO_QUOTAS: Mapping[str, float] = MappingProxyType({})


class Snapshot:
    """The world at one instant. Columns are arrays over the active jobs: arrived, and not finished."""

    now: float
    cluster: Cluster
    move_cost_s: float
    """Seconds that a job loses when it moves."""
    start_cost_s: float
    """Seconds that a job loses when it starts again."""
    quotas: Mapping[str, float]
    """GPUs that a tenant may hold; tenants that are not named may hold any number."""
    _instant: Instant
    _zoo: Zoo
    _moment: Moment
    _expected_speed: Floats

    def __init__(
        self,
        now: float,
        instant: Instant,
        zoo: Zoo,
        *,
        quotas: Mapping[str, float] | None = None,
        move_cost_s: float = 0.0,
        start_cost_s: float = 0.0,
        expected_speed: Floats | None = None,
    ) -> None:
        moment = instant.moment
        self.__dict__.update(  # in one step, past __setattr__: worlds make thousands of snapshots a second
            now=float(now),  # for whole numbers kernels would be compiled once more
            cluster=instant.cluster,
            move_cost_s=float(move_cost_s),
            start_cost_s=float(start_cost_s),
            quotas=MappingProxyType(dict(quotas)) if quotas else NO_QUOTAS,
            _instant=instant,
            _zoo=zoo,
            _moment=moment,
            _expected_speed=moment.tables.jobs.best_speed if expected_speed is None else expected_speed,
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a snapshot never changes: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a snapshot never changes: {name} cannot be deleted")

    def expecting(self, speed: Floats) -> Snapshot:
        """The same snapshot, with times left counted at other speeds: those that an allocation will give."""
        if speed is self._expected_speed:
            return self
        other = object.__new__(Snapshot)
        other.__dict__.update(self.__dict__, _expected_speed=speed)
        return other

    @property
    def _tables(self) -> Tables:
        return self._moment.tables

    @property
    def _active(self) -> Ints:
        return self._moment.active

    @property
    def active(self) -> Ints:
        """The active jobs' numbers, by which plans speak of them."""
        numbers = self._active.copy()  # of a view, a policy could reach the world's own array
        numbers.flags.writeable = False
        return numbers

    @property
    def job_id(self) -> NDArray[Any]:
        """Each job's id."""
        return np.asarray(self._instant.ids)[self._active]

    @property
    def model(self) -> NDArray[Any]:
        """Each job's model, by name."""
        return np.array(self._instant.workload.models)[self._instant.workload.model[self._active]]

    @property
    def tenant(self) -> NDArray[Any]:
        """Each job's tenant, by name."""
        return np.array(self._instant.workload.tenants)[self._instant.workload.tenant[self._active]]

    @property
    def arrival_s(self) -> Floats:
        """When each job arrived."""
        return self._tables.jobs.arrival[self._active]

    @property
    def gpus(self) -> Floats:
        """GPUs each job needs; below 1 for a slice."""
        return self._tables.jobs.size[self._active]

    @property
    def running(self) -> NDArray[np.bool_]:
        """Which jobs hold GPUs now."""
        return self._tables.books.slot[self._active] >= 0

    @property
    def priority(self) -> Ints:
        """Each job's priority, higher first."""
        return self._tables.jobs.priority[self._active]

    @property
    def iterations(self) -> Floats:
        """Each job's whole work."""
        return self._tables.jobs.iterations[self._active]

    @property
    def remaining_iterations(self) -> Floats:
        """Work left."""
        active, progress = self._active, self._tables.progress
        span = np.maximum(self.now - progress.since[active], 0.0)
        if progress.credit_s[0] > 0:
            span = np.rint(span / progress.credit_s[0])
        done = progress.done[active] + progress.rate[active] * span
        return np.maximum(self._tables.jobs.iterations[active] - done, 0.0)

    @property
    def seconds_per_iteration(self) -> Floats:
        """At the speed that each job may expect of the policy's allocation."""
        return self._tables.jobs.iteration_s[self._active] / self._expected_speed[self._active]

    @property
    def remaining_s(self) -> Floats:
        """Time left if each job ran from now on at the speed that it may expect."""
        return np.minimum(self.remaining_iterations * self.seconds_per_iteration, FOREVER_S)

    @property
    def pace(self) -> Floats:
        """Speed as a part of the expected one: what `remaining_s` falls by in a second; 1 of a job that waits."""
        pace = self._tables.progress.speed[self._active] / self._expected_speed[self._active]
        pace[~np.isfinite(self.held_since_s)] = 1.0  # whatever a world takes for its speed
        return pace

    @property
    def attained_s(self) -> Floats:
        """Time each job has held its GPUs."""
        active, progress = self._active, self._tables.progress
        return progress.held_s[active] + np.maximum(self.now - progress.held_since[active], 0.0)

    @property
    def held_since_s(self) -> Floats:
        """When each running job got its GPUs; infinite while it waits."""
        return self._tables.progress.held_since[self._active]

    @property
    def works_from_s(self) -> Floats:
        """When each running job began, or will begin, to work with what it has; starting up comes before."""
        return self._tables.progress.since[self._active]

    @property
    def waiting_s(self) -> Floats:
        """How long each job has been waiting since it arrived or last held GPUs; 0 while it runs."""
        waited = self.now - self._tables.progress.last_held[self._active]
        return np.where(self.running, 0.0, np.maximum(waited, 0.0))

    @property
    def last_wait_s(self) -> Floats:
        """How long each job has been waiting or, if it runs, had waited for the GPUs that it has."""
        progress, active = self._tables.progress, self._active
        until = np.where(self.running, progress.held_since[active], self.now)
        return np.maximum(until - progress.last_held[active], 0.0)

    @property
    def longest_past_wait_s(self) -> Floats:
        """The longest of each job's waits that have ended with GPUs."""
        return self._tables.progress.longest_wait[self._active]

    @property
    def demand(self) -> Floats:
        """What each whole job would like: jobs by (CPUs, memory GB, storage MB/s)."""
        return self._tables.jobs.demand[self._active]

    @property
    def totals(self) -> Floats:
        """CPUs, memory GB, storage MB/s of the whole cluster."""
        totals: Floats = self._tables.books.capacity[:, :DEMANDS].sum(axis=0)
        return totals

    def job_id_of(self, number: int) -> Any:
        """The id of the job of this number."""
        return job_id_of(self._instant, number)

    @property
    def facts(self) -> Facts:
        """The plain facts behind this snapshot: what `save` writes."""
        return facts_of(
            self._instant, self.now, quotas=dict(self.quotas), move_cost_s=self.move_cost_s,
            start_cost_s=self.start_cost_s,
        )  # fmt: skip

    @classmethod
    def of(cls, facts: Facts, zoo: Zoo | None = None) -> Snapshot:
        """Make the snapshot of these facts; raises InputError or LedgerError where they contradict each other."""
        zoo = zoo or load_zoo()
        return cls(
            facts.now_s, instant_of(facts, zoo), zoo,
            quotas=facts.quotas, move_cost_s=facts.move_cost_s, start_cost_s=facts.start_cost_s,
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        from gpuyard.policies.snapshot_files import as_text

        return isinstance(other, Snapshot) and as_text(self.facts) == as_text(other.facts)

    __hash__ = None  # type: ignore[assignment]  # as any value that holds mappings

    def save(self, path: str | Path) -> None:
        """Write the snapshot to a JSON file, from which `load` makes it again, anywhere."""
        from gpuyard.policies.snapshot_files import write_facts

        write_facts(self.facts, path)

    @classmethod
    def load(cls, path: str | Path, *, profiles: Sequence[str | Path] = ()) -> Snapshot:
        """Read a snapshot that `save` wrote, or that another world did; `profiles` are further profile files."""
        from gpuyard.policies.snapshot_files import errors_of, read_facts

        facts, zoo = read_facts(path), load_zoo(profiles)
        with errors_of(path):
            return cls.of(facts, zoo)

    def __reduce__(self) -> tuple[Any, ...]:
        return Snapshot.of, (self.facts, self._zoo)


def expected_speed_of(snapshot: Snapshot) -> Floats:
    """For each job of the tables the speed that it may expect; to be read, never written."""
    return snapshot._expected_speed


def moment_of(snapshot: Snapshot) -> Moment:
    """The arrays behind a snapshot, for the shipped policies and for worlds; to be read, never written."""
    return snapshot._moment
