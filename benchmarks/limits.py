"""What a benchmark hands back: figures, some of them with a limit that must hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One measured number. `most` and `least` are limits; a figure without either is only told."""

    name: str
    value: float
    unit: str = ""
    most: float | None = None
    least: float | None = None
    portable: bool = True
    """Whether it means the same on another machine: ratios do, seconds do not."""

    @property
    def holds(self) -> bool:
        return (self.most is None or self.value <= self.most) and (self.least is None or self.value >= self.least)

    @property
    def limit(self) -> str:
        """The limit as text; empty without one."""
        parts = [f"≤ {short(self.most)}"] if self.most is not None else []
        parts += [f"≥ {short(self.least)}"] if self.least is not None else []
        return " and ".join(parts)

    @property
    def text(self) -> str:
        return f"{short(self.value)} {self.unit}".strip()

    @property
    def verdict(self) -> str:
        return "" if not self.limit else "ok" if self.holds else "FAILED"


def short(value: float) -> str:
    """Write a number with three digits that mean something."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def failures(figures: list[Figure]) -> list[str]:
    """One clear line for each limit that does not hold."""
    return [f"FAILED {each.name}: {each.text}, limit {each.limit}" for each in figures if not each.holds]


def table(figures: list[Figure]) -> str:
    """Write figures as a Markdown table."""
    rows = ["| figure | value | limit | |", "|---|---|---|---|"]
    rows += [f"| {each.name} | {each.text} | {each.limit} | {each.verdict} |" for each in figures]
    return "\n".join(rows)
