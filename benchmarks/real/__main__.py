"""`python -m benchmarks.real [--speed X] [CASE…]`: runs jobs for real and simulated, for docs/fidelity.md.

Runs that are in runs/real already are not made again, so that it goes on where it was interrupted. All cases at
their own speeds are written into the page; named ones, or those at another speed, are only printed.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.document import draw, fill
from benchmarks.limits import table
from benchmarks.real import tables
from benchmarks.real.both_worlds import outcomes
from benchmarks.real.cases import CASES
from benchmarks.real.curves import curves
from benchmarks.running import report

FOLDER = Path("runs/real")


def main(words: list[str], folder: Path = FOLDER) -> int:
    """Run the named cases, or all; returns 1 when a limit is exceeded."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real")
    parser.add_argument("--speed", type=int, help="instead of each case's own")
    parser.add_argument("names", nargs="*", metavar="CASE")
    asked = parser.parse_args(words)
    names: list[str] = asked.names
    if unknown := set(names) - {case.name for case in CASES}:
        print(f"no case {min(unknown)!r}; there are: {', '.join(case.name for case in CASES)}", file=sys.stderr)
        return 2
    cases = [case for case in CASES if not names or case.name in names]
    if asked.speed is not None:
        cases, folder = [replace(case, speed=asked.speed) for case in cases], folder / f"speed-{asked.speed}"
    found = outcomes(cases, folder)
    checked = tables.checks(found)
    told = [tables.gaps(found), tables.gains(found), tables.causes(found), tables.costs(found)]
    print("\n\n".join([*told, table(checked)]), flush=True)
    if not names and asked.speed is None:
        picture = draw(curves(found), "real", "Completion times with real processes and simulated")
        limits = f"<details><summary>Checks</summary>\n\n{table(checked)}\n\n</details>"
        fill("fidelity.md", "real", "\n\n".join([*told[:2], picture, *told[2:], limits]))
    return report(checked)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
