"""Small worlds for decisions, written as short stories: these nodes, this one runs there, that one waits.

The models below have round numbers, so that every expected value can be worked out by hand. One iteration takes one
second at speed 1.0, and 1.0 is the speed with a GPU's share of a usual node: 3 CPUs, 62.5 GB, 62.5 MB/s.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gpuyard.core.cluster import NodeKind
from gpuyard.core.grants import GrantState
from gpuyard.core.workload import Job
from gpuyard.policies.decide import Decision, decide
from gpuyard.policies.facts import Facts
from gpuyard.policies.named_plan import named_plan
from gpuyard.policies.policy import Policy
from gpuyard.policies.resolve import resolve
from gpuyard.policies.snapshot import Snapshot
from gpuyard.profiles import ModelProfile, Zoo

HOUR = 3600.0


def _model(
    name: str, cpus: list[float], memory: list[float], speeds: list[list[float]], storage: float = 0.0,
    penalty: float = 0.5, **gpu_speed: float,
) -> ModelProfile:  # fmt: skip
    return ModelProfile(
        name=name, title=name, iteration_s=1.0, cpu_grid=np.array(cpus), memory_grid=np.array(memory),
        throughput=np.array(speeds), storage_mbps=storage, spread_penalty=penalty, gpu_speed=gpu_speed, source="test",
    )  # fmt: skip


MODELS = (
    # Full speed with 1 CPU and 10 GB, half speed when spread over nodes; every GPU type is as good as any other.
    _model("steady", [1.0], [10.0], [[1.0]], A100=1.0, T4=1.0),
    # Like steady, and not slowed down by a network.
    _model("nimble", [1.0], [10.0], [[1.0]], penalty=1.0, A100=1.0, T4=1.0),
    # 1.0 with 3 CPUs, 2.0 with 6.
    _model("hungry", [3.0, 6.0], [10.0], [[1.0], [2.0]], A100=1.0, T4=1.0),
    # 1.0 with 3 CPUs, 1.75 with 6: three quarters as much for the same CPUs.
    _model("picky", [3.0, 6.0], [10.0], [[1.0], [1.75]], A100=1.0, T4=1.0),
    # 1.0 with 3 CPUs, 2.5 with 8: more than hungry in all, and less for each CPU.
    _model("lavish", [3.0, 8.0], [10.0], [[1.0], [2.5]], A100=1.0, T4=1.0),
    # 1.0 with 3 CPUs, 1.75 with 5, 2.0 with 7: the first two more CPUs gain three times as much as the next.
    _model("sated", [3.0, 5.0, 7.0], [10.0], [[1.0], [1.75], [2.0]], A100=1.0, T4=1.0),
    # 1.0 with 3 CPUs, and never more.
    _model("even", [3.0], [10.0], [[1.0]], A100=1.0, T4=1.0),
    # 1.0 with 62.5 GB, 2.0 with 125 GB, on a single CPU.
    _model("forgetful", [1.0], [62.5, 125.0], [[1.0, 2.0]], A100=1.0, T4=1.0),
    # 1.0 with 62.5 MB/s, 2.0 with 125 MB/s.
    _model("reader", [1.0, 2.0], [10.0], [[1.0], [2.0]], storage=125.0, A100=1.0, T4=1.0),
    # Twice as fast on an A100 if it has 2 CPUs, half as fast on a T4.
    _model("modern", [1.0], [10.0], [[1.0]], A100=2.0, T4=0.5),
)


@cache
def story_zoo() -> Zoo:
    """The models of these stories."""
    return Zoo({model.name: model for model in MODELS}, (), {})


class Node(NamedTuple):
    """A node with a name."""

    name: str
    kind: NodeKind
    up: bool = True
    changed: bool = True


def node(
    name: str, gpus: int = 4, *, cpus: float | None = None, memory: float | None = None, storage: float | None = None,
    gpu_type: str = "V100", up: bool = True, changed: bool = True,
) -> Node:  # fmt: skip
    """A node that has 3 CPUs, 62.5 GB and 62.5 MB/s for each GPU, unless something else is said of the whole node."""
    kind = NodeKind(
        gpus=gpus, cpus=3.0 * gpus if cpus is None else cpus, memory_gb=62.5 * gpus if memory is None else memory,
        storage_mbps=62.5 * gpus if storage is None else storage, gpu_type=gpu_type,
    )  # fmt: skip
    return Node(name, kind, up, changed)


class Known(NamedTuple):
    """A job, how far it is, and what it holds."""

    job: Job
    progress: dict[str, Any]
    gpus: tuple[tuple[str, int], ...]
    amounts: dict[str, float]
    state: GrantState = GrantState.HELD


def waits(
    job_id: str, gpus: float = 1, model: str = "steady", *, at: float = 0.0, seconds: float = HOUR, tenant: str = "t",
    priority: int = 0, types: str = "", cpus: float = float("nan"), memory: float = float("nan"), **progress: Any,
) -> Known:  # fmt: skip
    """A job that holds nothing; `seconds` is its whole work at speed 1.0, `progress` are fields of JobFact."""
    job = Job(
        job_id, at, gpus, model, iterations=seconds, tenant=tenant, priority=priority, gpu_types=types, cpus=cpus,
        memory_gb=memory,
    )  # fmt: skip
    return Known(job, progress, (), {})


def runs(job_id: str, on: str, model: str = "steady", *, share: float = 1, **rest: Any) -> Known:
    """A job that holds GPUs, written 'a0 a1 b0': GPUs 0 and 1 of node a and GPU 0 of node b.

    `share` is its part of a single GPU. Beside them it holds `cpus`, `memory_gb` and `storage_mbps`, for a whole GPU
    usually 1 CPU and 10 GB.
    """
    gpus = tuple((place[:-1], int(place[-1])) for place in on.split())
    amounts = {name: rest.pop(name, usual * len(gpus)) for name, usual in USUAL.items()}
    known = waits(job_id, share if share < 1 else len(gpus), model, **rest)
    return known._replace(gpus=gpus, amounts=amounts)


def leaves(job_id: str, on: str, **rest: Any) -> Known:
    """A job that still holds GPUs and is on its way out."""
    return runs(job_id, on, **rest)._replace(state=GrantState.RELEASING)


USUAL = {"cpus": 1.0, "memory_gb": 10.0, "storage_mbps": 0.0}


def scene(*parts: Node | Known, now: float = 0.0, **settings: Any) -> Snapshot:
    """The snapshot of a story, at the earliest when all have arrived; `settings` are fields of Facts."""
    facts = Facts(max([now, *(part.job.arrival_s for part in parts if isinstance(part, Known))]), **settings)
    for part in parts:
        if isinstance(part, Node):
            facts.add_node(*part[:2], up=part.up, changed=part.changed)
    for part in parts:
        if isinstance(part, Known):
            facts.add_job(part.job, **part.progress)
            if part.gpus:
                facts.hold(part.job.job_id, part.gpus, state=part.state, **part.amounts)
    return Snapshot.of(facts, story_zoo())


def policy_of(policy: str | Policy, **options: Any) -> Policy:
    """A policy by name, or itself."""
    return resolve(policy, **options) if isinstance(policy, str) else policy


class Told(NamedTuple):
    """A decision by names: who gets which GPUs now, who must stop, and who waits for what."""

    gets: dict[str, str]
    """For everybody who starts or changes, its GPUs as in `runs`."""
    stops: set[str]
    waits: dict[str, str]
    amounts: dict[str, tuple[float, float, float]]
    """CPUs, memory GB and storage MB/s of everybody who starts or changes."""
    decision: Decision


def told(policy: str | Policy, snapshot: Snapshot, **options: Any) -> Told:
    """What a policy decides on a snapshot."""
    decision = decide(policy_of(policy, **options), snapshot)
    plan = named_plan(snapshot, decision)
    entries = [*plan["start"], *plan["change"]]
    return Told(
        {one["job"]: " ".join(f"{gpu['node']}{gpu['gpu']}" for gpu in one["gpus"]) for one in entries},
        {one["job"] for one in plan["stop"]},
        {one["job"]: one["reason"] for one in plan["wait"]},
        {one["job"]: (one["cpus"], one["memory_gb"], one["storage_mbps"]) for one in entries},
        decision,
    )


def in_order(snapshot: Snapshot, decision: Decision) -> list[str]:
    """Ids in the order of a decision."""
    return [str(snapshot.job_id_of(int(number))) for number in decision.order]


def keys_of(snapshot: Snapshot, decision: Decision) -> dict[str, float]:
    """The key of each job."""
    return dict(zip(snapshot.job_id.tolist(), decision.keys.key.tolist(), strict=True))
