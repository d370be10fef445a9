"""What an extender counts, as one table: its names, meanings and labels. Pages, dashboards and tests go by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuyard.kube.books import OpenGpu
from gpuyard.kube.extender.cluster_state import WaitCause
from gpuyard.kube.resources.shared_gpu import PHASES, SharedGpu
from gpuyard.policies.multiplex.interference import InterferenceModel

PREFIX = "gpuyard_kube_"
SLOWDOWNS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)


class FigureValue(NamedTuple):
    """One value of a figure."""

    labels: tuple[str, ...]
    value: float


@dataclass(frozen=True)
class ClusterFacts:
    """All that the figures go by, at one moment."""

    gpus: Sequence[OpenGpu] = ()
    disputed: int = 0
    waiting: Sequence[WaitCause] = ()
    shared: Sequence[SharedGpu] = ()
    known: InterferenceModel = field(default_factory=InterferenceModel)
    learnt: int = 0
    events_lost: int = 0


@dataclass(frozen=True)
class ClusterFigure:
    """One figure of the cluster, by one label at most."""

    name: str
    meaning: str
    samples: Callable[[ClusterFacts], Iterator[FigureValue]]
    labels: tuple[str, ...] = ()
    counts: bool = False
    """Whether it only grows."""


def _one(value: Callable[[ClusterFacts], float]) -> Callable[[ClusterFacts], Iterator[FigureValue]]:
    def samples(facts: ClusterFacts) -> Iterator[FigureValue]:
        yield FigureValue((), value(facts))

    return samples


def _waiting(facts: ClusterFacts) -> Iterator[FigureValue]:
    found = Counter(facts.waiting)
    yield from (FigureValue((cause.value,), found[cause]) for cause in WaitCause)


def _phases(facts: ClusterFacts) -> Iterator[FigureValue]:
    found = Counter(gpu.status.phase for gpu in facts.shared)
    yield from (FigureValue((phase,), found[phase]) for phase in PHASES)


def measured_slowdowns(facts: ClusterFacts) -> list[float]:
    """Of each task of which its node knows, by how much longer its steps take than alone."""
    tasks = (task for gpu in facts.shared for task in gpu.status.tasks)
    return [task.slowdown for task in tasks if task.slowdown is not None]


def expected_slowdowns(facts: ClusterFacts) -> list[float]:
    """The same as it is expected of all who share a GPU."""
    shared = (gpu for gpu in facts.gpus if len(gpu.residents) > 1)
    return [mean for gpu in shared for mean in facts.known.means([each.usage for each in gpu.residents], gpu.gpu.kind)]


def _spread(slowdowns: Callable[[ClusterFacts], list[float]]) -> Callable[[ClusterFacts], Iterator[FigureValue]]:
    """How many tasks are slowed down by at most so much: a few numbers, however many GPUs there are."""

    def samples(facts: ClusterFacts) -> Iterator[FigureValue]:
        found = slowdowns(facts)
        for most in (*SLOWDOWNS, float("inf")):
            yield FigureValue((f"{most:g}" if most < float("inf") else "+Inf",), sum(each <= most for each in found))

    return samples


def _mean(slowdowns: Callable[[ClusterFacts], list[float]]) -> Callable[[ClusterFacts], Iterator[FigureValue]]:
    def samples(facts: ClusterFacts) -> Iterator[FigureValue]:
        found = slowdowns(facts)
        if found:
            yield FigureValue((), sum(found) / len(found))

    return samples


FIGURES = (
    ClusterFigure("gpus", "GPUs of all nodes", _one(lambda facts: len(facts.gpus))),
    ClusterFigure(
        "gpu_memory_gibibytes", "Their memory", _one(lambda facts: sum(each.gpu.memory_gib for each in facts.gpus))
    ),
    ClusterFigure(
        "gpu_memory_free_gibibytes",
        "Memory that a pod could get",
        _one(lambda facts: sum(each.free_gib for each in facts.gpus)),
    ),
    ClusterFigure(
        "gpus_shared", "GPUs with more than one pod", _one(lambda facts: sum(len(e.residents) > 1 for e in facts.gpus))
    ),
    ClusterFigure(
        "gpus_out_of_order", "GPUs that nobody gets", _one(lambda facts: sum(not e.gpu.healthy for e in facts.gpus))
    ),
    ClusterFigure("disputed_pods", "Pods that do not fit where they are", _one(lambda facts: facts.disputed)),
    ClusterFigure(
        "waiting_pods", "Pods for which no node had room, by what they lack", _waiting, ("lacks",)
    ),
    ClusterFigure("gpus_by_phase", "GPUs by what their tuners are doing, as nodes say", _phases, ("phase",)),
    ClusterFigure(
        "tasks_measured_slowdown",
        "Tasks whose steps take at most so much longer than alone, as nodes measured",
        _spread(measured_slowdowns),
        ("most",),
    ),
    ClusterFigure(
        "tasks_expected_slowdown",
        "Tasks on shared GPUs of which at most so much is expected",
        _spread(expected_slowdowns),
        ("most",),
    ),
    ClusterFigure(
        "measured_slowdown_mean", "By how much longer steps take than alone, on average", _mean(measured_slowdowns)
    ),
    ClusterFigure(
        "expected_slowdown_mean", "The same as expected, of who shares a GPU", _mean(expected_slowdowns)
    ),
    ClusterFigure("learnt_mixes", "Mixes of which something was learnt", _one(lambda facts: facts.learnt)),
    ClusterFigure(
        "events_lost", "Events that nobody was told", _one(lambda facts: facts.events_lost), counts=True
    ),
)  # fmt: skip
