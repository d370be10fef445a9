"""What it takes to get from one deployment to another: slices to be cut and models to be loaded."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.interface import Place, Slice


@dataclass(frozen=True)
class Move:
    """A slice that is cut anew, or a model that is loaded onto a slice where it was not.

    What is unloaded, another batch and another period take no time worth speaking of: they are no moves.
    """

    node: str
    gpu: int
    thousandths: int
    model: str | None = None
    """None: the slice itself."""

    def __str__(self) -> str:
        what = "cut a slice" if self.model is None else f"load {self.model} onto the slice"
        return f"{what} of {self.thousandths / 10:g} % on GPU {self.gpu} of {self.node}"


def moves(before: Deployment, after: Deployment) -> tuple[Move, ...]:
    """All moves from one deployment to the other; a slice counts as the one of its size that takes the fewest."""
    old, new = _by_gpu(before), _by_gpu(after)
    return tuple(move for place in sorted(new) for move in _on_gpu(old.get(place, []), new[place], place))


_Loaded = tuple[int, Counter[str]]
"""A slice that is in use: its thousandths and its models."""


def _loaded(of: Deployment, part: Slice) -> _Loaded:
    return part.thousandths, Counter(of.service[turn.service].model for turn in part.turns)


def _by_gpu(of: Deployment) -> dict[Place, list[_Loaded]]:
    found: dict[Place, list[_Loaded]] = defaultdict(list)
    for part in of.plan.slices:
        if part.turns:
            found[part.node, part.gpu].append(_loaded(of, part))
    return found


def _on_gpu(old: Sequence[_Loaded], new: Sequence[_Loaded], place: Place) -> tuple[Move, ...]:
    """The fewest moves over all ways to take new slices for old ones of the same size."""
    padded = [*old, *[None] * len(new)]
    ways = [_paired(chosen, new, place) for chosen in permutations(padded, len(new))]
    return min(ways, key=len)


def _paired(old: Sequence[_Loaded | None], new: Sequence[_Loaded], place: Place) -> tuple[Move, ...]:
    found: list[Move] = []
    for was, (thousandths, models) in zip(old, new, strict=True):
        there = was[1] if was is not None and was[0] == thousandths else None
        found += [Move(*place, thousandths)] if there is None else []
        found += [Move(*place, thousandths, model) for model in (models - (there or Counter())).elements()]
    return tuple(found)


def with_fewest_moves(before: Deployment, after: Deployment, among: Sequence[Place]) -> Deployment:
    """The same plan with its GPUs exchanged among these, each for its type, so that the fewest moves lead to it."""
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    old, new = _by_gpu(before), _by_gpu(after)
    target: dict[Place, Place] = {}
    for places in _by_type(after, among):
        used = [place for place in places if place in new]
        if not used:
            continue
        cost = np.array([[len(_on_gpu(old.get(there, []), new[here], there)) for there in places] for here in used])
        # Of equally good GPUs the one that a slice is on already.
        cost = cost + 1e-3 * np.array([[here != there for there in places] for here in used])
        rows, columns = linear_sum_assignment(cost)
        target |= {used[row]: places[column] for row, column in zip(rows, columns, strict=True)}
    slices = [_at(part, target[part.node, part.gpu]) for part in after.plan.slices if (part.node, part.gpu) in target]
    slices.sort(key=after.gpu_number)
    return replace(after, plan=replace(after.plan, slices=tuple(slices)))


def _at(part: Slice, place: Place) -> Slice:
    return replace(part, node=place[0], gpu=place[1])


def _by_type(of: Deployment, places: Sequence[Place]) -> list[list[Place]]:
    kinds = {name: of.cluster.kinds[of.cluster.node_kind[n]].gpu_type for n, name in enumerate(of.cluster.node_names)}
    return [[place for place in places if kinds[place[0]] == gpu_type] for gpu_type in of.cluster.gpu_types]
