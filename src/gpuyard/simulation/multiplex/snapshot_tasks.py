"""The tasks of a snapshot that may share GPUs, with what they say for themselves as models of their own."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from gpuyard.core.errors import InputError
from gpuyard.core.grants import GrantState
from gpuyard.policies.facts import NOBODY, Facts
from gpuyard.policies.multiplex.interference import Usage
from gpuyard.policies.shared_snapshots import shares
from gpuyard.policies.sharing_facts import TaskUse
from gpuyard.profiles import ModelProfile, Zoo
from gpuyard.profiles.parts import MemoryProfile, SharingProfile


def is_task(facts: Facts, name: Hashable) -> bool:
    """Whether a multiplex policy decides about a job."""
    return facts.jobs[name].job.tenant != NOBODY and shares(facts, name)


def tasks_of(facts: Facts) -> Facts:
    """The same world with none but the tasks that may share a GPU."""
    jobs = {name: fact for name, fact in facts.jobs.items() if is_task(facts, name)}
    for name, fact in jobs.items():
        if fact.holds is not None and fact.holds.state == GrantState.RELEASING:
            raise InputError(
                f"is what job {name} holds: no multiplex policy was at work there", field="state", value="releasing",
                hint="Simulate it without --multiplex",
            )  # fmt: skip
    return replace(facts, jobs=jobs, order=tuple(name for name in facts.order if name in jobs))


def with_stated_models(facts: Facts, zoo: Zoo) -> tuple[Facts, Zoo]:
    """Let each task that says how it uses a GPU be of a model that does so, unless its profile knows better."""
    made: dict[str, ModelProfile] = {}
    jobs = dict(facts.jobs)
    for name, use in facts.sharing.tasks.items():
        fact = jobs[name]
        profile = zoo.profile(fact.job.model)
        if profile.sharing is None or profile.memory is None:
            label = _label(use)
            made[label] = _stated(profile, label, use)
            jobs[name] = replace(fact, job=replace(fact.job, model=label))
    return replace(facts, jobs=jobs), replace(zoo, profiles={**zoo.profiles, **made})


def stated_usages(facts: Facts) -> dict[str, Usage]:
    """By such a model, how it uses a GPU, under the name by which tasks know it."""
    return {
        _label(use): use.usage for name, use in facts.sharing.tasks.items() if facts.jobs[name].job.model == _label(use)
    }


def _label(use: TaskUse) -> str:
    model, compute, bandwidth, _ = use.usage
    return f"{model} (compute {compute:g}, bandwidth {bandwidth:g}, {use.gpu_memory_gb:.6g} GB)"


def _stated(profile: ModelProfile, label: str, use: TaskUse) -> ModelProfile:
    return replace(
        profile, name=label, title=label, aliases=(), stands_for=(), slowdown=(),
        sharing=SharingProfile(use.usage.compute, use.usage.bandwidth),
        memory=MemoryProfile({profile.batch: round(use.gpu_memory_gb * 1e9)}),
    )  # fmt: skip
