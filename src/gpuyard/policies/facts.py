"""The plain facts that a snapshot is made of: any world can collect them, any snapshot can be taken apart into them.

facts = Facts(now_s=0.0)
facts.add_node("node0", NodeKind(gpus=4))
facts.add_job(Job(7, 0.0, 2, "resnet50", iterations=1000), done_iterations=10.0)
facts.hold(7, [("node0", 0), ("node0", 1)], cpus=6.0, memory_gb=125.0)
snapshot = Snapshot.of(facts)
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from types import MappingProxyType
from typing import Any

from gpuyard.core.arguments import check_kind, check_number
from gpuyard.core.cluster import RESOURCES, Cluster, NodeKind
from gpuyard.core.errors import InputError, nearest
from gpuyard.core.grants import WHOLE, GrantState, Part
from gpuyard.core.units import LARGEST
from gpuyard.core.workload import Job, Workload
from gpuyard.policies.sharing_facts import NOTHING_KNOWN, SharingFacts
from gpuyard.profiles.gpus import gpu_kind

NOBODY = "(nobody)"
"""The tenant of strangers: what they hold is on no quota."""


@dataclass(frozen=True)
class NodeFact:
    """One node."""

    name: str
    kind: NodeKind
    up: bool = True
    changed: bool = True
    """Somebody came or went since the last decision, or nobody knows."""
    taken: Mapping[str, float] = field(default_factory=dict)
    """By the names of RESOURCES, what those without GPUs hold of it: nobody decides about them."""

    @property
    def left(self) -> NodeKind:
        """What of it is there for jobs."""
        return replace(self.kind, **{name: getattr(self.kind, name) - amount for name, amount in self.taken.items()})


@dataclass(frozen=True)
class Holding:
    """What a running job holds: parts of GPUs, by node and number there, and amounts beside each of them."""

    gpus: tuple[tuple[str, int], ...]
    per_gpu: tuple[float, ...]
    """In the order of RESOURCES."""
    thousandths: tuple[int, ...]
    """Of each GPU; less than its job asks for where several run together."""
    gpu_memory_gb: tuple[float, ...]
    """Of each GPU; 0 where nobody says."""
    state: GrantState = GrantState.HELD
    """What is releasing cannot be had yet, and its holder is not asked about: it is on its way out. What is reserved
    may be what others are releasing."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """What it takes, GPU by GPU, as a ledger has it."""
        beside = dict(zip(RESOURCES, self.per_gpu, strict=True))
        each = zip(self.gpus, self.thousandths, self.gpu_memory_gb, strict=True)
        return tuple(Part(node, gpu, part, memory, beside) for (node, gpu), part, memory in each)


@dataclass(frozen=True)
class JobFact:
    """One job that has arrived and is not finished, and how far it is."""

    job: Job
    done_iterations: float = 0.0
    attained_s: float = 0.0
    """Seconds for which it has held GPUs."""
    waiting_since_s: float | None = None
    """When it last held GPUs; its arrival if it never did."""
    longest_wait_s: float = 0.0
    speed: float | None = None
    """Relative speed now; what its profile promises where nobody has measured."""
    held_since_s: float | None = None
    """When it got the GPUs that it holds."""
    works_from_s: float | None = None
    """When it began, or will begin, to work with what it holds, after starting up; long ago if that is not known."""
    holds: Holding | None = None


_KNOWN = tuple(each.name for each in fields(JobFact) if each.name not in ("job", "holds"))


@dataclass
class Facts:
    """What is known of a world at one instant."""

    now_s: float
    nodes: dict[str, NodeFact] = field(default_factory=dict)
    jobs: dict[Hashable, JobFact] = field(default_factory=dict)
    quotas: dict[str, float] = field(default_factory=dict)
    move_cost_s: float = 0.0
    start_cost_s: float = 0.0
    recorded_on: str | None = None
    order: tuple[Hashable, ...] = ()
    """Ids in the order of the last decision, which decides between equals in some policies; none: by arrival."""
    sharing: SharingFacts = NOTHING_KNOWN

    def add_node(
        self, name: str, kind: NodeKind, *, up: bool = True, changed: bool = True,
        taken: Mapping[str, float] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        """A node with this name is part of the cluster; of its GPUs the name of their kind is enough."""
        check_kind(name, "name", "the name of a node", str)
        check_kind(kind, "kind", "a NodeKind", NodeKind)
        if name in self.nodes:
            raise InputError("stands twice", field="nodes", value=name, hint="Give each node a name of its own")
        known = kind if kind.gpu.memory_bytes else kind.with_gpu(gpu_kind(kind.gpu_type))
        for resource, amount in taken.items():
            if resource not in RESOURCES:
                raise InputError(f"is not one of {', '.join(RESOURCES)}", field="taken", value=resource)
            check_number(amount, f"taken, {resource} of node {name}", least=0, most=getattr(known, resource))
        self.nodes[name] = NodeFact(name, known, up, changed, dict(taken))

    def add_job(self, job: Job, **known: Any) -> None:
        """A job has arrived and is not finished; `known` are fields of JobFact.

        Where nobody knows its work, it counts as the longest of all.
        """
        check_kind(job, "job", "a Job", Job)
        for name in known:
            if name not in _KNOWN:
                raise InputError("is not known of a job", field="jobs", value=name, hint=nearest(name, _KNOWN))
        if job.job_id in self.jobs:
            raise InputError("stands twice", field="jobs", value=job.job_id, hint="Give each job an id of its own")
        self.jobs[job.job_id] = JobFact(job.counted(), **known)

    def occupy(
        self,
        holder: Hashable,
        gpus: Sequence[tuple[str, int]],
        *,
        share: float | Sequence[float] = 1.0,
        gpu_memory_gb: float | Sequence[float] = 0.0,
        **amounts: float,
    ) -> None:
        """Somebody whom no policy decides about holds these GPUs, or a share of each, and amounts beside them."""
        stranger = Job(holder, max(self.now_s, 0.0), len(gpus), "generic", iterations=1.0, tenant=NOBODY)  # type: ignore[arg-type]
        self.add_job(stranger)
        self.hold(holder, gpus, share=share, gpu_memory_gb=gpu_memory_gb, state=GrantState.RELEASING, **amounts)

    def hold(
        self,
        job_id: Hashable,
        gpus: Sequence[tuple[str, int]],
        *,
        share: float | Sequence[float] | None = None,
        gpu_memory_gb: float | Sequence[float] = 0.0,
        state: GrantState = GrantState.HELD,
        **amounts: float,
    ) -> None:
        """A job holds these GPUs, and these amounts (of the whole job, by the names of RESOURCES) beside them.

        Share and GPU memory are one number for every GPU, or one for each. Without a share it has what its size says;
        with a share of 0 it competes for all of it with the others there.
        """
        if job_id not in self.jobs:
            raise InputError("holds GPUs and is not among the jobs", field="jobs", value=job_id)
        places = _places(gpus)
        strange = [name for name in amounts if name not in RESOURCES]
        if strange:
            raise InputError(f"is not one of {', '.join(RESOURCES)}", field="holds", value=strange[0])
        for name, amount in amounts.items():
            check_number(amount, f"holds, {name}", least=0)
        per_gpu = tuple(amounts.get(name, 0.0) / len(places) for name in RESOURCES)
        usual = own_thousandths(self.jobs[job_id].job)
        shares = _of_each(places, usual / WHOLE if share is None else share, "share", least=0.0, most=1.0)
        memory = _of_each(places, gpu_memory_gb, "gpu_memory_gb", least=0.0)
        holds = Holding(places, per_gpu, tuple(round(each * WHOLE) for each in shares), memory, state)
        self.jobs[job_id] = replace(self.jobs[job_id], holds=holds)


def own_thousandths(job: Job) -> int:
    """The thousandths of each of its GPUs that a job asks for."""
    return round(job.gpus * WHOLE) if job.gpus < 1 else WHOLE


def _of_each(
    places: tuple[tuple[str, int], ...], given: Any, name: str, least: float, most: float = LARGEST
) -> tuple[float, ...]:
    """One number for each GPU; InputError if there are more or fewer, or one beyond its limits."""
    values = tuple(given) if isinstance(given, (list, tuple)) else (given,) * len(places)
    for value in values:
        check_number(value, f"holds, {name}", least=least, most=most)
    if len(values) != len(places):
        raise InputError(
            f"must be one number, or one for each of {len(places)} GPUs", field=f"holds, {name}", value=given
        )
    return values


def _places(gpus: Any) -> tuple[tuple[str, int], ...]:
    """GPUs as a job holds them; InputError unless these are pairs of a node and a number."""
    if not isinstance(gpus, (list, tuple)) or not gpus or not all(_is_place(each) for each in gpus):
        raise InputError("must be pairs of a node's name and the number of a GPU there", field="holds", value=gpus)
    return tuple((node, int(gpu)) for node, gpu in gpus)


def _is_place(each: Any) -> bool:
    return (
        isinstance(each, (list, tuple))
        and len(each) == 2
        and isinstance(each[0], str)
        and isinstance(each[1], Integral)
    )


def opening_facts(cluster: Cluster, workload: Workload, *, now_s: float | None = None) -> Facts:
    """Facts in which every job has arrived, the last one just now, and none runs yet: a world to try a policy on."""
    facts = Facts(float(workload.arrival_s.max(initial=0.0)) if now_s is None else now_s)
    for number, name in enumerate(cluster.node_names):
        facts.add_node(name, cluster.kinds[cluster.node_kind[number]])
    for number in range(len(workload)):
        facts.add_job(workload.job(number))
    return facts


def from_its_beginning(facts: Facts) -> Facts:
    """The same in a time that begins with its oldest job."""
    since_s = min([facts.now_s, *(each.job.arrival_s for each in facts.jobs.values())])
    jobs = {name: earlier(each, since_s) for name, each in facts.jobs.items()}
    return replace(facts, now_s=facts.now_s - since_s, jobs=jobs)


def earlier(fact: JobFact, by_s: float) -> JobFact:
    """A job of a time that begins later by so much."""

    def moved(at: float | None) -> float | None:
        return None if at is None else at - by_s

    return replace(
        fact, job=replace(fact.job, arrival_s=fact.job.arrival_s - by_s), waiting_since_s=moved(fact.waiting_since_s),
        held_since_s=moved(fact.held_since_s), works_from_s=moved(fact.works_from_s),
    )  # fmt: skip
