"""A workload as TrainingJobs of a cluster: submits each when it arrives, follows them, and cancels them.

Who runs where is decided by the gpuyard of the cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gpuyard.core.errors import InputError
from gpuyard.core.workload import Job, Workload
from gpuyard.kube.amounts import BesideGpus, made_s
from gpuyard.kube.client.api import Api, ApiError
from gpuyard.kube.jobs.job_statuses import kept_record
from gpuyard.kube.jobs.nodes import GangNode, cluster_of, gang_nodes, read_kube_node
from gpuyard.kube.json_objects import JsonObject
from gpuyard.kube.resources.training_job import TRAINING_JOBS, TrainingJob, job_id
from gpuyard.kube.runs.run_outcome import Rows, happened
from gpuyard.kube.runs.run_state import RUN_LABEL, KubeRunState
from gpuyard.kube.views.gangs import listed, newest_steps
from gpuyard.policies.jobs import build_jobs
from gpuyard.profiles import Zoo
from gpuyard.runtime.new_jobs import words
from gpuyard.runtime.records import JobRecord, JobState
from gpuyard.runtime.run_folder import Happened
from gpuyard.runtime.run_view import JobView, RunView, run_view

LOOK_S = 2.0
UNDECIDED_S = 30.0
"""A job of which nobody has said anything for so long makes one ask whether anybody decides."""
CONFLICT = 409
_OVER = {"Succeeded": JobState.FINISHED, "Failed": JobState.FAILED, "Cancelled": JobState.CANCELLED}


@dataclass(frozen=True)
class WantedGang:
    """One job of the workload."""

    job: Job
    thing: JsonObject
    """What creates its TrainingJob."""

    @property
    def name(self) -> str:
        """Of the TrainingJob."""
        return str(self.thing["metadata"]["name"])


@dataclass(frozen=True)
class SeenGang:
    """A TrainingJob as it was when somebody last looked."""

    thing: TrainingJob
    made_s: float | None
    step: int
    """The newest that any of its processes has told."""


class KubeRun:
    """One run. `step` looks and does what is due; it never waits."""

    def __init__(
        self, api: Api, wanted: Sequence[WantedGang], state: KubeRunState, say: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._api, self._wanted, self.state, self._say, self._clock = api, wanted, state, say, clock
        self._seen: dict[str, SeenGang] = {}
        """By name; those that somebody has removed stay as they were."""
        self._ended: dict[str, tuple[JobState, str]] = {}
        """Jobs whose TrainingJobs could not be created, or are gone, and why."""
        self._rows: Rows = {}
        """Statuses forget the oldest."""
        self._nodes: dict[str, GangNode] = {}
        self._failing = self._wondered = False
        self.cancelled = False

    # What it does

    def check(self, zoo: Zoo) -> None:
        """InputError unless all can be submitted: names that others have are refused before anything is created."""
        own = {each.name for each in self._wanted}
        taken = [
            name
            for item in listed(self._api, TRAINING_JOBS.folder(self.state.namespace))
            if (name := item["metadata"]["name"]) in own
            and (item["metadata"].get("labels") or {}).get(RUN_LABEL) != self.state.run
        ]
        if taken:
            rule = "is there already" if len(taken) == 1 else "are there already"
            hint = f"'kubectl delete trainingjobs -n {self.state.namespace} NAME' removes one that is over"
            raise InputError(rule, field="TrainingJobs", value=", ".join(sorted(taken)[:5]), hint=hint)
        self._look_at_nodes()
        cluster = cluster_of(self._nodes.values())
        if cluster is None:
            raise InputError("has no GPUs of gpuyard", field="cluster")
        workload = Workload.from_jobs([each.job.counted() for each in self._wanted], source="jobs")
        build_jobs(workload, cluster, zoo, refuse=False)  # as its controller looks them up

    def step(self) -> None:
        """Look how all is, and submit or cancel what is to be; what the API server does not answer is for next time."""
        try:
            self._look()
            self._submit() if not self.cancelled else self._cancel()
        except ApiError as error:
            if not error.passes:
                raise
            if not self._failing:
                self._say(f"the cluster cannot be asked, and is asked again: {error}")
            self._failing = True
        else:
            self._failing = False

    def cancel(self) -> None:
        """Let all jobs save and leave, from the next step on; none is submitted any more."""
        self.cancelled = True

    @property
    def over(self) -> bool:
        """Whether nothing will happen any more."""
        return all(record.state.over for record in self.records())

    def _look(self) -> None:
        items = listed(self._api, TRAINING_JOBS.folder(self.state.namespace), labelSelector=self.state.label)
        steps = newest_steps(self._api, self.state.namespace)
        there = {}
        for item in items:
            thing = TRAINING_JOBS.read(item)
            there[thing.name] = SeenGang(thing, made_s(item["metadata"]), steps.get(job_id(thing), 0))
            self._keep_rows(thing)
        for name in self._seen.keys() - there.keys() - self._ended.keys():
            if self._seen[name].thing.status.phase not in _OVER:
                self._ended[name] = JobState.CANCELLED, "its TrainingJob was removed"
        self._seen = {**self._seen, **there}
        places = {place.rpartition("/")[0] for each in there.values() for place in each.thing.status.places}
        if places - {gang.node for gang in self._nodes.values()}:
            self._look_at_nodes()
        self._wonder()

    def _look_at_nodes(self) -> None:
        found = (read_kube_node(item) for item in listed(self._api, "/api/v1/nodes"))
        self._nodes |= {gang.name: gang for node in found for gang in gang_nodes(node, BesideGpus())}

    def _wonder(self) -> None:
        """Say once that nobody seems to decide."""
        silent = [each for each in self._seen.values() if not each.thing.status.reason]
        late = self._seen and len(silent) == len(self._seen) and self._clock() - self.state.began_s > UNDECIDED_S
        if late and not self._wondered:
            self._wondered = True
            self._say("nobody has decided about these jobs: the extender schedules gangs with --jobs POLICY")

    def _submit(self) -> None:
        now = self._clock() - self.state.began_s
        for each in self._wanted:
            if each.job.arrival_s <= now and each.name not in self._seen and each.name not in self._ended:
                try:
                    self._api.post(TRAINING_JOBS.folder(self.state.namespace), each.thing)
                except ApiError as error:
                    if error.passes:
                        raise
                    if error.status != CONFLICT or not self._is_own(each.name):
                        self._ended[each.name] = JobState.FAILED, f"it could not be submitted: {error}"

    def _is_own(self, name: str) -> bool:
        """Whether an earlier request has created it, whose answer was lost."""
        found = TRAINING_JOBS.read(self._api.get(TRAINING_JOBS.path(name, self.state.namespace)))
        return found.labels.get(RUN_LABEL) == self.state.run

    def _cancel(self) -> None:
        for each in self._wanted:
            if each.name not in self._seen:
                self._ended.setdefault(each.name, (JobState.CANCELLED, "it was not submitted any more"))
                continue
            thing = self._seen[each.name].thing
            if not thing.spec.cancelled and thing.status.phase not in _OVER and each.name not in self._ended:
                change = {"metadata": {"uid": thing.uid}, "spec": {"cancelled": True}}
                self._api.patch(TRAINING_JOBS.path(each.name, self.state.namespace), change)

    def _keep_rows(self, thing: TrainingJob) -> None:
        for table, rows in (("spans", thing.status.spans), ("attempts", thing.status.attempts)):
            self._rows |= {(table, thing.name, row["start_s"]): dict(row) for row in rows}

    # What it knows

    def records(self) -> list[JobRecord]:
        """All jobs of the workload as they are."""
        return [self._record(each) for each in self._wanted]

    def _record(self, wanted: WantedGang) -> JobRecord:
        seen = self._seen.get(wanted.name)
        record = JobRecord(wanted.job, words(wanted.job))
        if seen is not None:
            record = _restored(seen.thing, record)
        if wanted.name in self._ended and not record.state.over:
            state, note = self._ended[wanted.name]
            record = replace(record, state=state, note=note)
        return record

    def view(self) -> RunView:
        """The run as people watch it."""
        pairs = zip(self._wanted, self.records(), strict=True)
        jobs = [self._job_view(wanted, record) for wanted, record in pairs if not record.state.over]
        gpus = sum(len(gang.gpus) for gang in self._nodes.values())
        return run_view(jobs, len(self._wanted), max(gpus, 1), self._clock() - self.state.began_s)

    def _job_view(self, wanted: WantedGang, record: JobRecord) -> JobView:
        seen = self._seen.get(wanted.name)
        done = max(record.done_steps, seen.step) if seen is not None else 0
        left_s = None
        if record.total_steps >= 0 and record.step_s > 0:
            left_s = max(record.total_steps - done, 0) * record.step_s
        status = seen.thing.status if seen is not None else None
        places = ", ".join(status.places) if status is not None else ""
        reason = "" if status is None or status.phase == "Running" else status.reason or ""
        return JobView(
            record.name, record.state, record.job.gpus, places, done, record.total_steps, left_s, record.note or reason
        )

    @property
    def policy(self) -> str:
        """By which orders and allocations it was decided."""
        found = {each.thing.status.policy for each in self._seen.values()} - {""}
        return ", ".join(sorted(found)) or "nobody"

    def happened(self) -> Happened:
        """What a run folder is made of."""
        made = {name: seen.made_s for name, seen in self._seen.items() if seen.made_s is not None}
        jobs = {each.name: record for each, record in zip(self._wanted, self.records(), strict=True)}
        return happened(jobs, made, self._rows, self._nodes.values(), cut_short=self.cancelled)


def _restored(thing: TrainingJob, record: JobRecord) -> JobRecord:
    """A job as its status says, also where that has no record that this version understands."""
    status = thing.status
    state = _OVER.get(status.phase, JobState.RUNNING if status.places else JobState.WAITING)
    kept = kept_record(status)
    if kept is not None:
        return replace(kept, job=record.job, command=record.command)
    note = status.message or "" if state is JobState.FAILED else ""
    return replace(record, state=state, note=note, attempts=status.attempt or 0, done_steps=status.step or 0)
