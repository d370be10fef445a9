"""Times, factors, shares and counts in words, the same in every table, chart and sentence."""

from __future__ import annotations

CLOSE = 1.02
"""Values within two percent of each other are not worth a headline."""


def hours(seconds: float) -> str:
    """Say a time span in the unit that a person would choose."""
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def times(ratio: float) -> str:
    """Say a factor: 3.7x."""
    return f"{ratio:.2f}x" if ratio < 2 else f"{ratio:.1f}x" if ratio < 100 else f"{ratio:.0f}x"


def percent(share: float | None) -> str:
    """Say a share: 87%."""
    return "–" if share is None else f"{100 * share:.0f}%"


def count(number: int, noun: str) -> str:
    """Say a number of things: 1 job, 3,000 jobs."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
