"""Which GPU a pod gets: one that has the memory, and where it does the least harm to all who are on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

from gpuyard.kube.books import OpenGpu
from gpuyard.kube.objects import GpuPod, GpuRequest
from gpuyard.policies.multiplex.interference import InterferenceModel, Usage

BEST_SCORE = 10
"""The largest score of the extender's protocol."""
MOST_MIXES = 65536


class Harm(Protocol):
    """A policy of placement: how much slower all become, together, if a task comes to those who are on a GPU."""

    def __call__(self, task: Usage, residents: tuple[Usage, ...], gpu_kind: str) -> float:
        """Return the expected loss, from 0 on: 0.5 is half as long again for one of them."""
        ...


def interference_harm(model: InterferenceModel) -> Harm:
    """Harm as a model of interference expects it; each mix is worked out once."""

    @lru_cache(maxsize=MOST_MIXES)
    def total(mix: tuple[Usage, ...], gpu_kind: str) -> float:
        return model.total(mix, gpu_kind).mean

    def harm(task: Usage, residents: tuple[Usage, ...], gpu_kind: str) -> float:
        if not residents:
            return 0.0
        return max(0.0, total(tuple(sorted((*residents, task))), gpu_kind) - total(tuple(sorted(residents)), gpu_kind))

    return harm


def why_not(request: GpuRequest, gpus: Sequence[OpenGpu]) -> str | None:
    """Say why the GPUs of a node cannot take a request now; None if they can."""
    if not gpus:
        return "no GPUs of gpuyard"
    never = cannot_ever(request, gpus)
    if never is not None:
        return never
    if request.whole:
        free = sum(each.empty for each in gpus)
        return None if free >= request.whole else f"{free} of {len(gpus)} GPUs are free, {request.whole} are asked for"
    most = max(each.free_gib for each in gpus)
    return None if most >= request.memory_gib else f"no GPU has {request.memory_gib} GiB free, at most {most}"


def cannot_ever(request: GpuRequest, gpus: Sequence[OpenGpu]) -> str | None:
    """Say why the GPUs of a node could not take a request even if nobody else were there; None if they could."""
    if request.whole and request.memory_gib:
        return "asks for whole GPUs and for memory of a shared one"
    if request.whole > len(gpus):
        return f"has {len(gpus)} GPUs, {request.whole} are asked for"
    largest = max((each.gpu.memory_gib for each in gpus), default=0)
    if request.memory_gib > largest:
        return f"asks for {request.memory_gib} GiB of one GPU, the largest has {largest}"
    return None


def choose(pod: GpuPod, gpus: Sequence[OpenGpu], harm: Harm) -> tuple[int, ...]:
    """The numbers of the GPUs of one node that a pod is to have; none if it does not fit.

    Of GPUs where the harm is the same, that with the least room is taken, so that room for large tasks is left.
    """
    if why_not(pod.request, gpus) is not None:
        return ()
    if pod.request.whole:
        return tuple(each.gpu.index for each in gpus if each.empty)[: pod.request.whole]
    best = min(_fitting(pod, gpus), key=lambda each: (_harm(pod, each, harm), each.free_gib, each.gpu.index))
    return (best.gpu.index,)


def score(pod: GpuPod, gpus: Sequence[OpenGpu], harm: Harm) -> int:
    """How good a node is for a pod, 0 to 10: 10 where nobody suffers, 0 where it does not fit."""
    if pod.request.whole or not pod.request.memory_gib:
        return 0 if why_not(pod.request, gpus) else BEST_SCORE
    harms = [_harm(pod, each, harm) for each in _fitting(pod, gpus)]
    return max(1, round(BEST_SCORE / (1.0 + min(harms)))) if harms else 0


def once_each(harm: Harm) -> Harm:
    """The same for one task and GPUs of one book, where equal company is one object: each is asked about once."""
    known: dict[tuple[int, str], float] = {}

    def found(task: Usage, residents: tuple[Usage, ...], gpu_kind: str) -> float:
        key = (id(residents), gpu_kind)
        if key not in known:
            known[key] = harm(task, residents, gpu_kind)
        return known[key]

    return found


def _fitting(pod: GpuPod, gpus: Iterable[OpenGpu]) -> list[OpenGpu]:
    return [each for each in gpus if each.free_gib >= pod.request.memory_gib]


def _harm(pod: GpuPod, where: OpenGpu, harm: Harm) -> float:
    return harm(pod.usage, where.residents, where.gpu.kind)
