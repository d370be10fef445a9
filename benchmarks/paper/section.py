"""What every study of the paper hands over: its runs, then from their results a text with figures, and checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.limits import Figure
from benchmarks.paper.cases import Case, Results


@dataclass(frozen=True)
class Study:
    """One claim of the paper."""

    name: str
    cases: Sequence[Case]
    write: Callable[[Results], str]
    """Draws the figures and returns the Markdown."""
    checks: Callable[[Results], list[Figure]]


def gain(results: Results, base: Case, better: Case) -> float:
    """By which factor the mean completion time is lower."""
    return results[base].mean / results[better].mean
