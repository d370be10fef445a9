"""Which model each job trains: names checked, names of public traces translated, or models assigned by class."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd, lcm
from random import Random
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.errors import InputError, nearest
from gpuyard.profiles import GENERIC, Zoo, load_zoo
from gpuyard.traces.draws import check

# ruff: noqa: S311 - reproducible draws, no secrets

Assignment = Literal["overall", "random", "fair"]
Split = tuple[float, float, float]
DEFAULT_SPLIT: Split = (20, 70, 10)
"""Percent of image, language and speech jobs, as in Synergy's main experiment."""

MODEL_STREAM = 2
"""Models are drawn from seed + 2 and classes from the seed, so that more jobs do not change the first ones."""


def check_models(names: Sequence[str], rows: NDArray[np.int64], source: str, zoo: Zoo) -> None:
    """Refuse a model that the zoo does not have, naming the closest ones."""
    strange = {name for name in set(names) if zoo.key_of(name) is None}
    if not strange:
        return
    at = next(i for i, name in enumerate(names) if name in strange)
    raise InputError(
        "is not a known model", file=source, row=int(rows[at]), field="model", value=names[at],
        hint=nearest(names[at], zoo.names),
    )  # fmt: skip


def translate(names: Sequence[str], zoo: Zoo) -> tuple[list[str], list[str]]:
    """Return the zoo's model for each name of a public trace, and a note on those it has no counterpart for."""
    table = {name: zoo.stand_in(name) or GENERIC for name in sorted(set(names))}
    strangers = [name for name, model in table.items() if model == GENERIC]
    models = [table[name] for name in names]
    if not strangers:
        return models, []
    note = f"{models.count(GENERIC)} jobs of models without a profile are '{GENERIC}': {', '.join(strangers)}"
    return models, [note]


def assign(
    count: int,
    split: Split = DEFAULT_SPLIT,
    mode: Assignment = "overall",
    seed: int = 42,
    zoo: Zoo | None = None,
) -> list[str]:
    """Return a model for each of `count` jobs in order of arrival.

    overall: each job goes to the class that is furthest below its share of the jobs so far, models of a class in turn.
    random: class drawn by its share, model drawn evenly. fair: all models of the default zoo in turn.
    Synergy's fourth mode, by the share among *unfinished* jobs, depends on the schedule and is not offered.
    """
    check(mode, Assignment, "assignment")
    zoo = zoo or load_zoo()
    weights = _weights(split)
    classes = list(zoo.by_class.values())
    if mode == "fair":
        names = zoo.default_names
        return [names[i % len(names)] for i in range(count)]
    if mode == "random":
        drawn = Random(seed).choices(classes, weights=weights, k=count)
        models_rng = Random(seed + MODEL_STREAM)
        return [models_rng.choice(names) for names in drawn]
    chosen = _by_deficit(count, weights)
    models = np.empty(count, dtype=object)
    for index, names in enumerate(classes):
        mine = chosen == index
        models[mine] = np.array(names, dtype=object)[np.arange(int(mine.sum())) % len(names)]
    return list(models)


def _weights(split: Split) -> list[int]:
    """Return the shares as the smallest whole numbers in the same proportion, so that ties are exact."""
    if len(split) != 3 or not all(0 <= share < float("inf") for share in split) or sum(split) <= 0:
        raise InputError(
            "must be three shares, 0 or more, not all 0: image, language, speech", field="split", value=split
        )
    exact = [Fraction(str(share)) for share in split]
    scale = lcm(*(share.denominator for share in exact))
    whole = [int(share * scale) for share in exact]
    return [share // gcd(*whole) for share in whole]


def _by_deficit(count: int, weights: list[int]) -> NDArray[np.int64]:
    """Choose classes by Synergy's deficit rule; ties go to the class named first.

    A deficit is kept times the number of jobs, as a whole number: weight x jobs - total x jobs of the class. After each
    pick it is above -total and all sum to 0; after `total` jobs it is a multiple of total, hence 0: the picks repeat.
    """
    total = sum(weights)
    wanted = [k for k, weight in enumerate(weights) if weight]
    deficit = [0] * len(weights)
    picks = np.empty(min(count, total), dtype=np.int64)
    for job in range(len(picks)):
        pick = max(wanted, key=lambda k: (deficit[k], -k))
        picks[job] = pick
        deficit = [value + weight for value, weight in zip(deficit, weights, strict=True)]
        deficit[pick] -= total
    return np.resize(picks, count)
