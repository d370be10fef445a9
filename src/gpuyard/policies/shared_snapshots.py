"""A snapshot as multiplex policies see it, and what they decide about it, in names."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from gpuyard.core.reasons import WAIT_REASONS
from gpuyard.core.workload import Job
from gpuyard.policies.decide_shared import SharedDecision, SharedSnapshot
from gpuyard.policies.facts import NOBODY, Facts, JobFact
from gpuyard.policies.multiplex.from_profiles import batches_of, task_of, usage_of
from gpuyard.policies.multiplex.interference import Usage
from gpuyard.policies.multiplex.shared_gpus import GpuFact, SharedGpus, TaskFact
from gpuyard.policies.sharing_facts import TaskUse
from gpuyard.policies.snapshot import Snapshot, moment_of
from gpuyard.profiles import Zoo

WHOLE_GPUS = "it asks for {:g} GPUs of its own; a multiplex policy decides about tasks that share one"


def shared_snapshot(facts: Facts, zoo: Zoo) -> SharedSnapshot:
    """What these facts say of GPUs and of the tasks on them.

    Who runs on GPUs of its own, is on the way out or a stranger stays where it is: nobody comes there.
    """
    snapshot = Snapshot.of(facts, zoo)
    gpus = tuple(
        GpuFact(name, number, node.kind.gpu_type, node.kind.gpu_memory_gb, node.up)
        for name, node in facts.nodes.items() for number in range(node.kind.gpus)
    )  # fmt: skip
    numbers = {snapshot.job_id_of(int(number)): int(number) for number in moment_of(snapshot).active}
    tasks = tuple(
        _task(snapshot, number, facts.jobs[name], facts, zoo) for name, number in numbers.items() if shares(facts, name)
    )
    staying = who_stays(facts, gpus, tasks)
    known = SharedGpus(gpus, (*(task for task, _ in staying), *tasks), facts.sharing.known, facts.quotas)
    jobs: Any = {name: fact.job for name, fact in facts.jobs.items()} | {task.name: job for task, job in staying}
    return SharedSnapshot(snapshot, known, jobs, {name: node.left for name, node in facts.nodes.items()})


def shares(facts: Facts, name: Hashable) -> bool:
    """Whether a job is a task that may share a GPU: of one GPU, and where tasks say so for themselves, it does."""
    return facts.jobs[name].job.gpus == 1 and (not facts.sharing.policy or name in facts.sharing.tasks)


def stated_task(job: Job, use: TaskUse) -> TaskFact:
    """A task that says for itself how it uses a GPU; it says nothing of how fast it is on which type."""
    types = tuple(job.gpu_types.split("|")) if job.gpu_types else ()
    return TaskFact(job.job_id, use.usage, use.gpu_memory_gb, None, types, tenant=job.tenant)


def _task(snapshot: Snapshot, number: int, fact: JobFact, facts: Facts, zoo: Zoo) -> TaskFact:
    job, use = fact.job, facts.sharing.tasks.get(fact.job.job_id)
    place = fact.holds.gpus[0] if fact.holds else None
    if use is not None:
        return stated_task(job, use).at(place)
    profile = zoo.profile(job.model)
    batches = batches_of(profile, min(node.kind.gpu_memory_gb for node in facts.nodes.values() if node.kind.gpus))
    jobs = moment_of(snapshot).tables.jobs
    return task_of(job, number, jobs, snapshot.cluster.gpu_types, usage_of(profile), batches).at(place)


def who_stays(facts: Facts, gpus: tuple[GpuFact, ...], tasks: tuple[TaskFact, ...]) -> list[tuple[TaskFact, Job]]:
    """Those about whom nobody decides, one for each of their GPUs, with all of its memory that others have not."""
    left = {gpu.place: gpu.memory_gb for gpu in gpus}
    for task in tasks:
        if task.place is not None:
            left[task.place] = max(left[task.place] - task.gpu_memory_gb, 0.0)
    decided = {task.name for task in tasks}
    staying = []
    for name, fact in facts.jobs.items():
        for node, gpu in fact.holds.gpus if fact.holds is not None and name not in decided else ():
            use = Usage(fact.job.model, 0.0, 0.0)
            task = TaskFact(f"{name} on {node}:{gpu}", use, left[node, gpu], (node, gpu), tenant=NOBODY)
            staying.append((task, fact.job))
            left[node, gpu] = 0.0
    return staying


def named_shared_plan(facts: Facts, decision: SharedDecision) -> dict[str, list[dict[str, Any]]]:
    """Who starts where with what, who moves, who stops and who waits for what; who stays is not named."""
    told: dict[str, list[dict[str, Any]]] = {"start": [], "change": [], "stop": [], "wait": []}
    helps = {reason.name: reason.helps for reason in WAIT_REASONS}
    plan = decision.plan
    for name, fact in facts.jobs.items():
        place, held = plan.places.get(name), fact.holds.gpus if fact.holds else ()  # type: ignore[call-overload]
        if place is not None and (place.node, place.gpu) not in held:
            gpu = {"node": place.node, "gpu": place.gpu, "gpu_memory_gb": place.gpu_memory_gb}
            entry = {"job": name, "gpus": [gpu]} | decision.beside(name)  # type: ignore[arg-type]
            told["change" if held else "start"].append(entry)
        elif name in plan.waits:
            told["stop"] += [{"job": name}] if held else []
            reason = plan.waits[name]  # type: ignore[index]
            lacks = plan.lacks.get(name, "")  # type: ignore[call-overload]
            told["wait"].append({"job": name, "reason": reason, "lacks": lacks, "helps": helps[reason]})
        elif place is None and not held:
            told["wait"].append(
                {"job": name, "reason": "gpus", "lacks": WHOLE_GPUS.format(fact.job.gpus), "helps": helps["gpus"]}
            )
    return told
