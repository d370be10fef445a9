"""What the scheduler's questions cost the extender on a large cluster, in CPU time, from the first pod on.

1,000 nodes with 8 GPUs hold 6,000 pods of ten models; then 200 pods come one after the other and are asked about,
filter and prioritize together, and placed in the books, so that mixes are seen for the first time all along. The
baseline, in the same run, is what no call can do without: a look at the free memory of every GPU.
"""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import Any

import numpy as np

from benchmarks.limits import Figure
from benchmarks.measure import cpu_seconds
from gpuyard.kube import names
from gpuyard.kube.books import books_of
from gpuyard.kube.choosing import choose
from gpuyard.kube.client.access import ApiAccess
from gpuyard.kube.client.api import Api
from gpuyard.kube.extender.answers import Extender
from gpuyard.kube.extender.cluster_state import ClusterState
from gpuyard.kube.judging import PodJudge, sharing_rule
from gpuyard.kube.objects import GpuPod, GpuRequest, YardGpu, YardNode, read_pod
from gpuyard.policies.multiplex.interference import InterferenceModel, Observation, Usage

GPUS, MEMORY_GIB, SIZES_GIB = 8, 31, (4, 8, 12)
MODELS = tuple(Usage(f"model{number}", 0.1 + 0.08 * number, 0.05 + 0.06 * number) for number in range(10))
FLOORS = 20


def run(nodes: int = 1000, pods: int = 6000, asked: int = 200, mixes: int = 200) -> list[Figure]:
    """Measure calls by a model that has learnt nothing, and by one that has learnt of some mixes."""
    measured = {"nothing learnt": InterferenceModel(), f"{mixes} mixes learnt": learnt(mixes)}
    figures = []
    for known, model in measured.items():
        calls_s, floor_s = measure(model, nodes, pods, asked)
        high_s = sorted(calls_s)[int(len(calls_s) * 0.99) - 1]
        name = f"extender, filter and prioritize of {nodes * GPUS} GPUs, {known}"
        figures += [
            Figure(f"{name}: median", 1e3 * median(calls_s), "CPU ms", most=50, portable=False),
            Figure(f"{name}: 99th percentile", 1e3 * high_s, "CPU ms", most=50, portable=False),
            Figure(f"{name}: 99th percentile over a look at each GPU", high_s / floor_s, "x"),
        ]
    return figures


def measure(model: InterferenceModel, nodes: int, pods: int, asked: int) -> tuple[list[float], float]:
    """CPU seconds of each call in turn, and of the least that one could take."""
    draw = np.random.default_rng(7)
    state = ClusterState(print)
    state.books = books_of(_nodes(nodes), _pods(draw, nodes, pods))
    judge = PodJudge(sharing_rule("interference"), model)
    extender = Extender(Api(ApiAccess("127.0.0.1", 1)), state, judge)  # nothing is bound through it
    where, calls_s = [f"n{number}" for number in range(nodes)], []
    floor_s = min(cpu_seconds(partial(_look, state, where)) for _ in range(FLOORS))
    for number in range(asked):
        args = {"Pod": _asked(draw, number), "NodeNames": where}
        calls_s.append(cpu_seconds(partial(_ask, extender, args)))
        _place(state, extender, judge, args, number)
    return calls_s, floor_s


def _ask(extender: Extender, args: dict[str, Any]) -> None:
    extender.filter(args)
    extender.prioritize(args)


def _look(state: ClusterState, where: list[str]) -> list[int]:
    return [max(gpu.free_gib for gpu in state.books.open_gpus(name)) for name in where]


def _place(state: ClusterState, extender: Extender, judge: PodJudge, args: dict[str, Any], number: int) -> None:
    """The pod gets a GPU of the first of the best nodes."""
    pod = read_pod(args["Pod"])
    best = max(extender.prioritize(args), key=lambda each: int(each["Score"]))["Host"]
    state.books.reserve(pod, best, choose(state.books.open_gpus(best), judge.places(pod)), 10**9 + number)


def learnt(mixes: int) -> InterferenceModel:
    """A model that was told of so many mixes of two and three tasks."""
    draw = np.random.default_rng(11)
    seen = []
    for _ in range(mixes):
        mix = tuple(sorted(MODELS[each] for each in draw.integers(len(MODELS), size=draw.integers(2, 4))))
        seen.append(Observation(mix, (0,), draw.uniform(0.1, 0.8), 0.02, "V100"))
    return InterferenceModel().learn(*seen)


def _nodes(nodes: int) -> list[YardNode]:
    gpus = tuple(YardGpu(index, "V100", MEMORY_GIB) for index in range(GPUS))
    return [YardNode(f"n{number}", gpus) for number in range(nodes)]


def _pods(draw: np.random.Generator, nodes: int, pods: int) -> list[GpuPod]:
    """Pods on GPUs drawn by lot, where their memory fits."""
    free = np.full((nodes, GPUS), MEMORY_GIB)
    found: list[GpuPod] = []
    while len(found) < pods:
        node, gpu, size = int(draw.integers(nodes)), int(draw.integers(GPUS)), int(draw.choice(SIZES_GIB))
        if free[node, gpu] < size:
            continue
        free[node, gpu] -= size
        number, usage = len(found), MODELS[draw.integers(len(MODELS))]
        found.append(GpuPod(f"u{number}", "lab", f"p{number}", GpuRequest(size), usage, (), f"n{node}", (gpu,), number))
    return found


def _asked(draw: np.random.Generator, number: int) -> dict[str, Any]:
    usage = MODELS[draw.integers(len(MODELS))]
    said = {names.MODEL: usage.model, names.COMPUTE: str(usage.compute), names.BANDWIDTH: str(usage.bandwidth)}
    limits = {names.MEMORY: str(draw.choice(SIZES_GIB))}
    return {
        "metadata": {"name": f"new{number}", "namespace": "lab", "uid": f"new{number}", "annotations": said},
        "spec": {"containers": [{"resources": {"limits": limits}}]},
        "status": {},
    }
