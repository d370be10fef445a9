"""`python -m benchmarks.job_profiles`: a few points of three jobs, computed to a matrix, against all of it measured.

It takes ten minutes, as every point is trained for real; the jobs sleep for most of it. Writes docs/profiling.md.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.document import fill, rows
from benchmarks.limits import Figure, table
from benchmarks.measure import OtherLoad
from benchmarks.running import report
from gpuyard.profiling.job import JobProfile, cpu_points
from gpuyard.profiling.optimistic import Measurement
from gpuyard.profiling.point import PointRunner

EXAMPLES = ("light", "heavy", "text")
FOLDER = Path(__file__).resolve().parents[1] / "examples" / "profiling"
MOST_CPUS = 8
CALM, TRIES = 0.1, 5


@dataclass(frozen=True)
class Comparison:
    """A computed matrix beside a measured one: cpus, cached percent, computed and measured seconds of a step."""

    example: str
    measured_points: int
    points: list[tuple[int, float, float, float]]
    again: int
    """Points measured again, as other programs were in the way."""
    busy_cpus: float

    @property
    def errors(self) -> list[float]:
        """How far each computed point is off, as a part of what was measured."""
        return [abs(computed / measured - 1) for _, _, computed, measured in self.points]

    def figures(self) -> list[Figure]:
        """With the limits that must hold."""
        name, errors = f"profile of {self.example}", self.errors
        return [
            Figure(f"{name}: points of the matrix", len(errors)),
            Figure(f"{name}: part of them measured", self.measured_points / len(errors), most=0.2),
            Figure(f"{name}: error, mean", 100 * fmean(errors), "%", most=5),
            Figure(f"{name}: error, worst", 100 * max(errors), "%", most=15),
        ]

    def row(self) -> list[str]:
        """As a line of the page's table."""
        worst = self.points[max(range(len(self.points)), key=self.errors.__getitem__)]
        steps = f"{1e3 * min(p[3] for p in self.points):.1f} to {1e3 * max(p[3] for p in self.points):.1f} ms"
        where = f"{worst[0]} CPU{'s' * (worst[0] > 1)}, {worst[1]:.3g} % cached"
        mean, most = 100 * fmean(self.errors), 100 * max(self.errors)
        head = [self.example, f"{len(self.points)}", f"{self.measured_points}", steps]
        return [*head, f"{mean:.1f} %", f"{most:.1f} %", where, f"{self.again}", f"{self.busy_cpus:.1f}"]


@dataclass
class Undisturbed:
    """Measures a point again when its repeats are far apart: other programs were in the way. The calmest one counts."""

    runner: PointRunner
    again: int = 0

    def __call__(self, cpus: int, **how: Any) -> Measurement:
        tries: list[Measurement] = []
        while len(tries) < TRIES and (not tries or tries[-1].spread > CALM):
            tries.append(self.runner(cpus, **how))
        self.again += len(tries) - 1
        return min(tries, key=lambda found: found.spread)


def compare(example: str) -> Comparison:
    """Profile an example, then measure every point of its matrix."""
    load, command = OtherLoad(), (sys.executable, str(FOLDER / f"{example}.py"))
    profile = JobProfile(example, cpu_points(MOST_CPUS))
    runner, points = Undisturbed(PointRunner(command)), []
    profile.measure(runner, lambda *_: None)
    for row in profile.rows():
        measured = runner(row["cpus"], memory_gb=row["memory_gb"])
        beside = f"computed {row['step_ms']:.2f} ms, measured {1e3 * measured.typical_s:.2f} ms"
        print(f"{row['cpus']} CPUs, {row['cached_pct']:.4g} %: {beside}", file=sys.stderr, flush=True)
        points.append((row["cpus"], row["cached_pct"], row["step_ms"] / 1e3, measured.typical_s))
    return Comparison(example, 1 + len(profile.by_cpus), points, runner.again, load.cpus())


def main() -> int:
    """Compare all three, print and write the table; returns 1 when a limit is exceeded."""
    found = []
    for example in EXAMPLES:
        print(f"{example} …", file=sys.stderr, flush=True)
        found.append(compare(example))
        print(table(found[-1].figures()), flush=True)
    heads = ["example", "points", "measured", "a step takes", "mean error", "worst", "there", "again", "CPUs of others"]
    fill("profiling.md", "grid", rows(heads, [each.row() for each in found]))
    return report([figure for each in found for figure in each.figures()])


if __name__ == "__main__":
    sys.exit(main())
