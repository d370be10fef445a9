"""The world of gangs on Kubernetes: that of real jobs, with nodes that come and go, pods for processes, and strangers.

Everything it must not lose is in the statuses of TrainingJobs and in pods. Which GPUs are promised to gangs, the books
of the extender know, under the same lock under which it binds pods that share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Protocol

from gpuyard.client.session import RankName
from gpuyard.core.books import settle
from gpuyard.core.errors import InputError, LedgerError
from gpuyard.core.grants import Grant, Part
from gpuyard.kube.amounts import BesideGpus
from gpuyard.kube.books import GpuBooks
from gpuyard.kube.client.api import Api
from gpuyard.kube.jobs.amounts import on_nodes, without_resizes
from gpuyard.kube.jobs.gang_attempts import GangAttempts
from gpuyard.kube.jobs.gang_pods import GangPod, PodOfNode, exit_of, progress_of
from gpuyard.kube.jobs.gang_starts import GangStartTimes
from gpuyard.kube.jobs.gang_telling import GangTelling
from gpuyard.kube.jobs.job_statuses import JobStatuses
from gpuyard.kube.jobs.nodes import GangNode, KubeNode, cluster_of, gang_nodes
from gpuyard.kube.jobs.pod_fleet import GpuOfNode, PodFleet
from gpuyard.kube.jobs.status import words_of
from gpuyard.kube.resources.training_job import TrainingJob, job_id, job_of
from gpuyard.kube.resources.training_task import TaskState
from gpuyard.policies.decide import Decision
from gpuyard.policies.explain import explain
from gpuyard.policies.facts import Facts
from gpuyard.policies.snapshot import Snapshot
from gpuyard.profiles import Zoo
from gpuyard.runtime.attempts import Attempts
from gpuyard.runtime.clock import RunClock
from gpuyard.runtime.commands import KillRanks
from gpuyard.runtime.job_facts import StartTimes
from gpuyard.runtime.launching import JobStarts
from gpuyard.runtime.real_cluster import Promises, RealCluster, RunRules, ledger_of
from gpuyard.runtime.records import JobRecord, JobState
from gpuyard.runtime.reports import RankExit
from gpuyard.runtime.settling import Patience

NAMED = "{}/{}"


class SharedBooks(Protocol):
    """The books of the extender; whoever reads or writes them holds the lock."""

    lock: Any
    books: GpuBooks


class GangWorld(RealCluster):
    """Gangs of pods. One thread drives it; followers of the API server post what they hear."""

    attempts_kind: ClassVar[type[Attempts]] = GangAttempts
    refuses_wide_jobs = False

    def __init__(
        self, api: Api, shared: SharedBooks, nodes: Iterable[KubeNode], zoo: Zoo, clock: RunClock, rules: RunRules,
        patience: Patience, *, launching: JobStarts, leads: Callable[[], bool], say: Callable[[str], None],
        telling: GangTelling, policy: str,
    ) -> None:  # fmt: skip
        self._shared, self._say, self._leads = shared, say, leads
        self._nodes = {each.yard.name: each for each in nodes}
        self._all_pods: dict[str, PodOfNode] = {}
        self._tasks: dict[str, TaskState] = {}
        self._ranks: dict[tuple[str, str], RankName] = {}
        """By namespace and name, which process a pod is."""
        self._silent: dict[str, float] = {}
        """Since when a node is not ready."""
        self._lost: set[str] = set()
        """Nodes of which nothing was heard for too long, until they are ready again."""
        self._stale = True
        """Whether nodes, or what strangers have of them, may be others than the ledgers know."""
        self._named_alike: dict[str, tuple[TrainingJob, float]] = {}
        """Jobs that wait until the pods of one that had the same name are gone."""
        self._gangs: dict[str, GangNode] = {}
        self._unfit: dict[str, str] = {}
        """Jobs that no policy can be asked about, and why."""
        self._owners: dict[str, str] = {}
        """By job, the uid of its TrainingJob, also when that is gone."""
        self._parts: dict[str, tuple[tuple[KubeNode, BesideGpus], tuple[GangNode, ...]]] = {}
        """By node, what it was made of, and what it comes to: most stay as they are."""
        self.statuses = JobStatuses(api, leads, clock.now, say, telling, policy)
        self.fleet = PodFleet(
            api, self.statuses.things, lambda: self.records, self._place,
            lambda gone: self.post(lambda now: self._exit(gone, now)), leave_s=patience.leave_s,
            save_every_s=launching.save_every_s, leads=leads, unkept=self.statuses.unkept,
        )  # fmt: skip
        self.statuses.runs, self.statuses.places = self.fleet.all_run, self._places
        self.statuses.numbered = self._numbered
        self._gangs = self._present()
        cluster = cluster_of(self._gangs.values())
        if cluster is None:
            raise InputError("has no GPUs of gpuyard", field="cluster")
        super().__init__(cluster, self.statuses, zoo, clock, self.fleet, launching, rules, patience)
        self._next_s = math.floor(clock.now() / rules.round_s) * rules.round_s
        assert isinstance(self.attempts, GangAttempts)
        self.attempts.all_run = self.fleet.all_run

    # What followers tell

    def begin(
        self, things: Iterable[tuple[TrainingJob, float]], pods: Iterable[PodOfNode], tasks: Mapping[str, TaskState]
    ) -> None:
        """All that is there now, before anything is decided; of jobs also when they came."""
        now = self.clock.now()
        self._tasks.update(tasks)
        for pod in pods:
            self._note_pod(pod)
        for thing, arrival_s in things:
            self.hear_job(thing, arrival_s)
        self._renew(now)
        for pod in list(self._all_pods.values()):
            if pod.gang is not None and not pod.gang.ended and not self._is_ours(pod):
                self.fleet.tell(pod.node, KillRanks(pod.gang.rank.job, pod.gang.rank.attempt))
        self._tell_books()

    def _join(self, name: str, now: float) -> None:
        """Take up what runs on a node: pods of attempts that nobody knows are ended, and what is missing has ended."""
        here = [pod for pod in self.fleet.pods.values() if pod.node == self._gangs[name].node]
        for pod in here:
            if pod.ended:
                self._exit_of(pod, now)
        running = [progress_of(pod.rank, self._task(pod)) for pod in here if not pod.ended]
        self.attempts.joined(name, running, [], now)

    def hear_job(self, thing: TrainingJob, arrival_s: float) -> None:
        """A TrainingJob has come, or is another one now."""
        name, known = job_id(thing), self.statuses.things.get(job_id(thing))
        if known is not None and known.uid != thing.uid:
            self.forget_job(known)
        if name in self.records and self.records[name].cancelled and name not in self.statuses.things:
            self._named_alike[name] = thing, arrival_s
            return
        if name not in self.records:
            try:
                self._take(thing, arrival_s)
            except InputError as error:
                self.statuses.refuse(thing, str(error))
                return
        self.statuses.things[name] = thing
        if thing.spec.cancelled and not self.records[name].cancelled:
            self.cancel(name)

    def _take(self, thing: TrainingJob, arrival_s: float) -> None:
        record = self.statuses.restore(thing, lambda: JobRecord(job_of(thing, arrival_s), (thing.name,)))
        self._look_up(record)
        name, self._owners[record.name] = record.name, thing.uid
        self._numbers[name] = len(self._numbers)
        self.records[name] = record
        for rank, pod in list(self.fleet.pods.items()):
            if rank.job == name:
                record.attempts = max(record.attempts, rank.attempt)  # so that no pod has the name of another
                if pod.owner != thing.uid:
                    self._disown(pod)
        try:
            self._by_position(record)
            self._restore(record)
        except LedgerError as error:  # what it was promised or had, others have, or is gone
            self._say(f"TrainingJob {record.name} has no place any more: {error}")
            self._give_up_place(record)

    def _by_position(self, record: JobRecord) -> None:
        """Let a record that was just read have its GPUs where they are on their nodes now."""
        if record.target is not None:
            record.target = self._positioned(record.target)
        if record.attempt is not None:
            record.attempt.grant = self._positioned(record.attempt.grant)

    def _give_up_place(self, record: JobRecord) -> None:
        for ledger in (self.promised, self.attempts.held):
            if ledger.grant_of(record.name) is not None:
                ledger.release(record.name)
        record.target = record.attempt = None
        if not record.state.over:
            record.state = JobState.WAITING
        self._history.changed(record)

    def forget_job(self, thing: TrainingJob) -> None:
        """A TrainingJob is gone; its pods go with it, and it holds its place as long as they are there."""
        name = job_id(thing)
        self._named_alike.pop(name, None)
        if name in self.statuses.things and self.statuses.things[name].uid == thing.uid:
            self.statuses.forget(name)
            if name in self.records:
                self.cancel(name)
                self._forget_if_gone(self.records[name])

    def _forget_if_gone(self, record: JobRecord) -> None:
        if record.name in self.statuses.things or record.attempt is not None:
            return
        if self.promised.grant_of(record.name) is not None:
            self.promised.release(record.name)
        del self.records[record.name], self._numbers[record.name]
        self._owners.pop(record.name, None)
        self._unfit.pop(record.name, None)
        self.attempts.unsettled.pop(record.name, None)
        self._history.forget(record)
        waiting = self._named_alike.pop(record.name, None)
        if waiting is not None:
            self.hear_job(*waiting)

    def hear_pod(self, pod: PodOfNode, now: float, *, gone: bool) -> None:
        """A pod has come, changed or gone."""
        gang = pod.gang
        before = self._all_pods.pop(pod.uid, None)
        if not gone:
            self._note_pod(pod)
        if gang is None:
            if gone or before != pod:
                self._stale = self._history.news = True
            return
        if not self._is_known(gang):
            self._stale = True
            return
        if gone and self.fleet.pods.get(gang.rank, gang).uid == pod.uid:
            self._disown(gang)
        self._stale = True
        if gone or gang.ended:
            self._exit_of(gang, now)
        self._tell_progress(gang, now)

    def _note_pod(self, pod: PodOfNode) -> None:
        self._all_pods[pod.uid] = pod
        if pod.gang is not None and self._is_known(pod.gang):
            self.fleet.pods[pod.gang.rank] = pod.gang
            self._ranks[pod.gang.namespace, pod.gang.name] = pod.gang.rank

    def _disown(self, gang: GangPod) -> None:
        self.fleet.pods.pop(gang.rank, None)
        self._ranks.pop((gang.namespace, gang.name), None)

    def _is_known(self, gang: GangPod) -> bool:
        """Whether a pod is one of the job of its name, and not of an earlier one, or of somebody who says so."""
        return self._owners.get(gang.rank.job, gang.owner) == gang.owner

    def hear_task(self, namespace: str, name: str, state: TaskState | None, now: float) -> None:
        """A task is so far; None: it is gone."""
        key = NAMED.format(namespace, name)
        if state is None:
            self._tasks.pop(key, None)
            return
        self._tasks[key] = state
        rank = self._ranks.get((namespace, name))
        if rank is not None:
            self._tell_progress(self.fleet.pods[rank], now)

    def _task(self, pod: GangPod) -> TaskState | None:
        return self._tasks.get(NAMED.format(pod.namespace, pod.name))

    def _tell_progress(self, pod: GangPod, now: float) -> None:
        told = progress_of(pod.rank, self._task(pod))
        if told.working:
            self.attempts.progressed(told, now)

    def _exit_of(self, pod: GangPod, now: float) -> None:
        gone, own_fault = exit_of(pod, self._task(pod))
        self._exit(gone, now, blame=own_fault or pod.refused, stays=own_fault)

    def _exit(self, gone: RankExit, now: float, *, blame: bool = True, stays: bool = True) -> None:
        """A process has ended; where that is not its own doing its place is looked for anew, at the next round."""
        record = self.records.get(gone.last.name.job)
        if record is None:
            return
        attempt = record.attempt
        self.attempts.exited(gone, now, blame=blame)
        failed = attempt is not None and attempt.number == gone.last.name.attempt and attempt.failed
        if not stays and failed and record.target is not None:
            self._take_back(record)
        self._forget_if_gone(record)

    def hear_node(self, node: KubeNode) -> None:
        """A node has come or changed."""
        if self._nodes.get(node.yard.name) != node:
            self._nodes[node.yard.name] = node
            self._stale = self._history.news = True

    def forget_node(self, name: str) -> None:
        """A node is gone."""
        self._nodes.pop(name, None)
        self._parts.pop(name, None)
        self._stale = self._history.news = True

    # Nodes

    def _strangers(self) -> dict[str, BesideGpus]:
        """What of each node pods have that are no processes of a job here."""
        taken: dict[str, BesideGpus] = {}
        for pod in self._all_pods.values():
            if pod.node and not self._is_ours(pod):
                taken[pod.node] = taken.get(pod.node, BesideGpus()).plus(pod.beside)
        return taken

    def _is_ours(self, pod: PodOfNode) -> bool:
        record = self.records.get(pod.gang.rank.job) if pod.gang is not None else None
        attempt = record.attempt if record is not None else None
        if attempt is None or pod.gang is None:
            return False
        return attempt.number == pod.gang.rank.attempt and self._is_known(pod.gang)

    def _present(self) -> dict[str, GangNode]:
        """The nodes that there are, with what strangers leave of them."""
        taken = self._strangers()
        found: dict[str, GangNode] = {}
        for name, node in sorted(self._nodes.items()):
            now = node, taken.get(name, BesideGpus())
            if name not in self._parts or self._parts[name][0] != now:
                self._parts[name] = now, tuple(gang_nodes(*now))
            found |= {gang.name: gang for gang in self._parts[name][1]}
        return found

    def _renew(self, now: float) -> None:
        """Let ledgers know the nodes as they are; who holds something of a node that is gone has lost it."""
        if not self._stale and not self._silent:
            return
        self._stale, present = False, self._present()
        for name, gang in self._gangs.items():
            there = present.get(name)
            lost = there is None or there.gpus != gang.gpus or self._is_silent(gang, now)
            if lost and name in self.attempts.attached:
                self._lost.add(name)
                self.node_lost(name, now)
        for name, least in on_nodes(self._grants()).items():  # those who hold something keep it
            there, known = present.get(name), self._gangs[name]
            if there is None or there.gpus != known.gpus:  # nobody else comes there until they have gone
                there = replace(known, ready=False, closed=tuple(range(len(known.gpus))))
            present[name] = _at_least(there, least)
        self._gangs = present
        found = cluster_of(self._gangs.values())
        if found is not None and found != self.cluster:
            self.cluster = found
            self._give_again()
        for name, gang in self._gangs.items():
            if gang.ready:
                self._lost.discard(name)
            if gang.node in self._nodes and name not in self._lost | self.attempts.attached:
                self._join(name, now)

    def _grants(self) -> list[Grant]:
        """All that is promised or held, counted once where it is the same."""
        found = []
        for record in self.records.values():
            held = record.attempt.grant if record.attempt is not None else None
            found += [held] if held is not None else []
            if record.target is not None and (held is None or held.parts != record.target.parts):
                found.append(record.target)
        return found

    def _is_silent(self, gang: GangNode, now: float) -> bool:
        node = self._nodes.get(gang.node)
        if node is None or node.ready:
            self._silent.pop(gang.node, None)
            return node is None
        return now - self._silent.setdefault(gang.node, now) > self.attempts.patience.silent_s

    def _give_again(self) -> None:
        """New ledgers, of which everybody has what it had."""
        self.promised, self.attempts.held = ledger_of(self.cluster), ledger_of(self.cluster)
        for record in self.records.values():
            if record.target is not None and not record.state.over:
                self.promised.grant(record.job.job_id, record.target.parts)
            if record.attempt is not None:
                self.attempts.held.grant(record.name, record.attempt.grant.parts)
        settle(self.promised.books)

    def _place(self, part: Part) -> GpuOfNode:
        gang = self._gangs[part.node]
        return gang.node, gang.gpus[int(part.gpu or 0)]

    def _numbered(self, grant: Grant) -> Grant:
        """Positions change with the list of a node's GPUs, their numbers do not."""
        return replace(grant, parts=tuple(self._by_its_number(part) for part in grant.parts))

    def _by_its_number(self, part: Part) -> Part:
        if part.node not in self._gangs:
            return part
        node, number = self._place(part)
        return replace(part, node=node, gpu=number)

    def _positioned(self, grant: Grant) -> Grant:
        """The reverse; LedgerError if such a GPU is not there any more."""
        where = {(gang.node, gpu): (gang.name, at) for gang in self._gangs.values() for at, gpu in enumerate(gang.gpus)}
        parts = []
        for part in grant.parts:
            if (part.node, part.gpu) not in where:
                raise LedgerError(f"there is no GPU {part.gpu} on a node {part.node}")
            name, at = where[part.node, int(part.gpu or 0)]
            parts.append(replace(part, node=name, gpu=at))
        return replace(grant, parts=tuple(parts))

    def _places(self, grant: Grant | None) -> tuple[str, ...]:
        parts = grant.parts if grant is not None else ()
        return tuple(NAMED.format(*self._place(part)) for part in parts if part.node in self._gangs)

    def _name_gpu(self) -> Callable[[Part], Any]:
        """Nodes come and go: GPUs have no number but that on their node."""
        return lambda part: NAMED.format(*self._place(part))

    # Deciding

    def _over(self) -> bool:
        return not self._leads()

    def active(self) -> list[JobRecord]:
        """Those who are decided about: nobody while there is no node with GPUs."""
        return [each for each in super().active() if each.name not in self._unfit] if self._gangs else []

    def snapshot(self) -> Snapshot:
        """What is there now; a job whose facts cannot be true is given up, and the others are decided about."""
        try:
            return super().snapshot()
        except InputError:
            unfit = self._find_unfit()
            if not unfit:
                raise
        self._unfit |= unfit
        self._give_up_unfit()
        return super().snapshot()

    def _find_unfit(self) -> dict[str, str]:
        """Jobs that cannot be shown to a policy even if there were no others, and why; none if it is not for a job."""
        before, everybody = self._unfit, self.active()
        found: dict[str, str] = {}
        try:
            for alone in (None, *everybody):
                self._unfit = before | {each.name: "" for each in everybody if each is not alone}
                try:
                    super().snapshot()
                except InputError as error:
                    if alone is None:
                        return {}
                    found[alone.name] = str(error)
        finally:
            self._unfit = before
        return found

    def _give_up_unfit(self) -> None:
        """Let jobs end that nobody can decide about."""
        for record in [self.records[name] for name in self._unfit if not self.records[name].state.over]:
            record.note = self._unfit[record.name]
            self._take_back(record)
            if record.attempt is None:
                record.state = JobState.FAILED
                self._history.changed(record)
            elif not record.attempt.killed:
                record.attempt.failed = record.attempt.blamed = True
                self.attempts.kill(record, record.attempt)

    def _start_times(self) -> StartTimes:
        usual = super()._start_times()
        return GangStartTimes(usual.usual_s, usual.unseen_s, usual.most_s, self.fleet.all_run)

    def _add_nodes(self, facts: Facts) -> None:
        """Nodes with what strangers leave of them; GPUs that are shared or closed count as taken."""
        for name, gang in self._gangs.items():
            facts.add_node(name, gang.kind, up=name in self.attempts.attached)
        for name, at in sorted(self._taken() - self._targets()):
            if name in self.attempts.attached:
                facts.occupy(f"(stranger) {name}/{at}", [(name, at)])

    def _taken(self) -> set[tuple[str, int]]:
        """By node and position, GPUs that strangers are on, or that nobody can get."""
        found: set[tuple[str, int]] = set()
        with self._shared.lock:
            for name, gang in self._gangs.items():
                found |= {(name, at) for at in gang.closed}
                here = [pod for pod in self._shared.books.pods_on(gang.node) if not self._is_held_by_gang(pod.uid)]
                everywhere = any(not pod.devices for pod in here)
                used = {index for pod in here for index in pod.devices}
                found |= {(name, at) for at, index in enumerate(gang.gpus) if everywhere or index in used}
        return found

    def _is_held_by_gang(self, uid: str) -> bool:
        pod = self._all_pods.get(uid)
        return pod is not None and self._is_ours(pod)

    def _targets(self) -> set[tuple[str, int]]:
        """By node and position, GPUs that jobs are to have."""
        return _gpus(record.target for record in self.records.values() if record.target is not None)

    def apply(self, decision: Decision) -> None:
        """Promise what was decided, and begin to carry it out."""
        self.statuses.words = {str(each.job): words_of(each.lacks, each.helps) for each in explain(self.seen, decision)}
        super().apply(decision)

    def promise(self, promises: Promises) -> None:
        """Let gangs have what was decided, but for GPUs that somebody who shares has got since the snapshot."""
        before = {each.holder: self.promised.grant_of(each.holder) for each in promises.grants}
        had = {holder: grant for holder, grant in before.items() if grant is not None}
        fitting = without_resizes(tuple(promises.grants), had, self._free_without([*had, *promises.stopped]))
        with self._shared.lock:
            taken = self._taken()  # whoever has a GPU that is closed by now may keep it, and nobody else gets it
            late = {
                str(each.holder)
                for each in fitting
                if (taken & _gpus([each])) - _gpus([had[each.holder]] if each.holder in had else [])
            }
            kept = [each for each in zip(fitting, promises.speeds, strict=True) if str(each[0].holder) not in late]
            self._tell_books(grant for grant, _ in kept)
        stopped = [*promises.stopped, *(str(holder) for holder in had if str(holder) in late)]
        super().promise(Promises([grant for grant, _ in kept], [speed for _, speed in kept], stopped, promises.reasons))

    def _free_without(self, holders: Iterable[Any]) -> dict[str, BesideGpus]:
        """What of each node nobody has once these hold nothing."""
        gone = set(holders)
        others = on_nodes(grant for grant in self.promised.grants() if grant.holder not in gone)
        free = {}
        for name, gang in self._gangs.items():
            used = others.get(name, BesideGpus())
            free[name] = BesideGpus(gang.kind.cpus - used.cpus, gang.kind.memory_gb - used.memory_gb)
        return free

    def _tell_books(self, coming: Iterable[Grant] = ()) -> None:
        """Keep for gangs what they hold and are to have."""
        gpus = _gpus([*self._grants(), *coming])
        places = frozenset(self._place(Part(name, at)) for name, at in gpus if name in self._gangs)
        with self._shared.lock:
            self._shared.books.promise(places)

    def _settle(self) -> None:
        self._renew(self.clock.now())
        self._give_up_unfit()
        super()._settle()
        self._tell_books()
        if self._history.kept:  # nothing is done before what it follows from is
            self.fleet.advance()
        self.statuses.refresh(self.records.values())


def _gpus(grants: Iterable[Grant]) -> set[tuple[str, int]]:
    return {(part.node, int(part.gpu or 0)) for grant in grants for part in grant.parts}


def _at_least(gang: GangNode, least: BesideGpus) -> GangNode:
    """A node of which strangers may have taken what is promised to gangs: these keep it."""
    kind = gang.kind
    cpus, memory = max(kind.cpus, least.cpus), max(kind.memory_gb, least.memory_gb)
    return replace(gang, kind=replace(kind, cpus=cpus, memory_gb=memory))
