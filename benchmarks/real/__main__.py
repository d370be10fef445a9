"""`python -m benchmarks.real [CASE…]`: runs jobs for real and simulated, and writes its part of docs/fidelity.md.

Runs that are in runs/real already are not made again, so that it goes on where it was interrupted.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.document import draw, fill
from benchmarks.limits import table
from benchmarks.real import tables
from benchmarks.real.both_worlds import outcomes
from benchmarks.real.cases import CASES
from benchmarks.real.curves import curves
from benchmarks.running import report

FOLDER = Path("runs/real")


def main(names: list[str], folder: Path = FOLDER) -> int:
    """Run the named cases, or all; returns 1 when a limit is exceeded."""
    if unknown := set(names) - {case.name for case in CASES}:
        print(f"no case {min(unknown)!r}; there are: {', '.join(case.name for case in CASES)}", file=sys.stderr)
        return 2
    found = outcomes([case for case in CASES if not names or case.name in names], folder)
    checked = tables.checks(found)
    told = [tables.gaps(found), tables.gains(found), tables.causes(found), tables.costs(found)]
    print("\n\n".join([*told, table(checked)]), flush=True)
    if not names:
        picture = draw(curves(found), "real", "Completion times with real processes and simulated")
        limits = f"<details><summary>Checks</summary>\n\n{table(checked)}\n\n</details>"
        fill("fidelity.md", "real", "\n\n".join([*told[:2], picture, *told[2:], limits]))
    return report(checked)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
