"""`python -m benchmarks [NAME…]`: measures, prints, compares with committed limits, and writes docs/speed.md."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import (
    client_step,
    compiled,
    extender_calls,
    gate,
    golden_run,
    growth,
    million,
    overload,
    planning,
    real_rounds,
    serving_speed,
    sharing_speed,
    sharing_worlds,
    start,
    tables,
)
from benchmarks.document import draw, fill
from benchmarks.limits import Figure, table
from benchmarks.running import report, run_named
from benchmarks.scale_chart import chart, curve_table

RESULTS = Path(__file__).with_name("results.json")
TITLE = "A job among a million costs no more than one among ten thousand"


def run_million() -> list[Figure]:
    """Measure the scale benchmark, draw its curve and write its table."""
    points = million.points()
    fill("speed.md", "scale", f"{draw(chart(points), 'scale', TITLE)}\n\n{curve_table(points)}")
    return million.figures(points)


def run_overload() -> list[Figure]:
    """Measure every order under overload and write the table."""
    points = overload.points()
    fill("speed.md", "overload", curve_table(points))
    return overload.figures(points)


def run_planning() -> list[Figure]:
    """Measure plans of slices and write the table."""
    figures = planning.run()
    fill("speed.md", "planning", table(figures))
    return figures


BENCHMARKS: dict[str, Callable[[], list[Figure]]] = {
    "start": start.run,
    "client_step": client_step.run,
    "tables": tables.run,
    "golden_run": golden_run.run,
    "growth": growth.run,
    "planning": run_planning,
    "real_rounds": real_rounds.run,
    "serving": serving_speed.run,
    "gate": gate.run,
    "sharing_worlds": sharing_worlds.run,
    "sharing": sharing_speed.run,
    "compiled": compiled.run,
    "extender_calls": extender_calls.run,
    "million": run_million,
    "overload": run_overload,
}


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all; returns 1 when a limit is exceeded."""
    found = run_named(BENCHMARKS, names)
    if found is None:
        return 2
    if not names:
        record(found)
    return report(found)


def record(found: list[Figure], results: Path = RESULTS) -> None:
    """Keep what means the same on another machine."""
    portable = {each.name: float(f"{each.value:.3g}") for each in found if each.portable}
    results.write_text(json.dumps(portable, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    fill("speed.md", "figures", table(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
