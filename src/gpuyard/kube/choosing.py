"""Which GPU a pod gets: one that has the memory, and where a multiplex policy says that it is best."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyard.kube.books import OpenGpu
from gpuyard.kube.judging import PodPlaces
from gpuyard.kube.objects import GpuRequest

BEST_SCORE = 10
"""The largest score of the extender's protocol."""


def why_not(request: GpuRequest, gpus: Sequence[OpenGpu]) -> str | None:
    """Say why the GPUs of a node cannot take a request now; None if they can."""
    if not gpus:
        return "no GPUs of gpuyard"
    if not request.whole and any(each.free_gib >= request.memory_gib for each in gpus):
        return None  # most nodes of most calls: looked at first
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


def why_no_place(gpus: Sequence[OpenGpu], places: PodPlaces) -> str | None:
    """Say why a pod cannot come to a node now, for its memory or by the policy; None if it can."""
    why = why_not(places.pod.request, gpus)
    if (
        why is not None
        or places.pod.request.whole
        or any(places.score(each) is not None for each in _fit(gpus, places))
    ):
        return why
    return f"its memory would fit, but {places.rule.refuses_because}"


def choose(gpus: Sequence[OpenGpu], places: PodPlaces) -> tuple[int, ...]:
    """The numbers of the GPUs of one node that a pod is to have; none if it does not fit.

    Of GPUs that are equally good that with the least room is taken, so that room for large tasks is left; but the first
    where the policy means the first.
    """
    request, first = places.pod.request, places.rule.first_of_equals
    if why_not(request, gpus) is not None:
        return ()
    if request.whole:
        return tuple(each.gpu.index for each in gpus if each.empty)[: request.whole]
    scored = ((score, each) for each in _fit(gpus, places) if (score := places.score(each)) is not None)
    ranked = [(score, 0 if first else each.free_gib, each.gpu.index) for score, each in scored]
    return (min(ranked)[2],) if ranked else ()


def scores(nodes: Sequence[Sequence[OpenGpu]], places: PodPlaces) -> list[int]:
    """How good each node is for a pod beside the others: 10 for the best alone, down to 1; 0 where it cannot go."""
    found = [_node_score(gpus, places) for gpus in nodes]
    fit = [each for each in found if each is not None]
    best, worst = min(fit, default=0.0), max(fit, default=0.0)
    return [0 if each is None else _of_ten(each, best, worst) for each in found]


def _node_score(gpus: Sequence[OpenGpu], places: PodPlaces) -> float | None:
    if places.pod.request.whole:
        return None if why_not(places.pod.request, gpus) else 0.0
    found = [score for each in _fit(gpus, places) if (score := places.score(each)) is not None]
    return places.node_score(gpus, min(found)) if found else None


def _of_ten(score: float, best: float, worst: float) -> int:
    if score == best:
        return BEST_SCORE
    return min(BEST_SCORE - 1, 1 + int((BEST_SCORE - 1) * (worst - score) / (worst - best)))


def _fit(gpus: Sequence[OpenGpu], places: PodPlaces) -> list[OpenGpu]:
    """The GPUs that have the memory."""
    return [each for each in gpus if each.free_gib >= places.pod.request.memory_gib > 0]
