"""`python -m benchmarks.paper [STUDY…]`: runs the studies, fills docs/fidelity.md, fails when a shape is lost."""

from __future__ import annotations

import sys

from benchmarks.document import fill
from benchmarks.limits import failures, table
from benchmarks.paper import (
    differences,
    multiplex,
    optimum,
    over_load,
    packers,
    partition,
    sensitivity,
    serving,
    testbed,
)
from benchmarks.paper.cases import run_cases
from benchmarks.paper.section import Study

STUDIES: list[Study] = [
    over_load.STUDY,
    sensitivity.RATIO,
    sensitivity.SPLIT,
    packers.STUDY,
    optimum.STUDY,
    differences.STUDY,
    *([testbed.STUDY] if testbed.AVAILABLE else []),
    *([partition.STUDY] if partition.AVAILABLE else []),
    *([serving.STUDY] if serving.AVAILABLE else []),
    *([multiplex.STUDY] if multiplex.AVAILABLE else []),
]


def main(names: list[str]) -> int:
    """Run the named studies, or all; returns 1 when a check fails."""
    known = [study.name for study in STUDIES]
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no study {unknown[0]!r}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    return run([study for study in STUDIES if not names or study.name in names])


def run(studies: list[Study], page: str = "fidelity.md") -> int:
    """Simulate what the studies need, write their parts of the page and check them."""
    results = run_cases(case for study in studies for case in study.cases)
    lost = []
    for study in studies:
        checked = study.checks(results)
        lost += failures(checked)
        told = f"<details><summary>Checks</summary>\n\n{table(checked)}\n\n</details>"
        fill(page, study.name, f"{study.write(results)}\n\n{told}")
        print(f"\n## {study.name}\n\n{table(checked)}", flush=True)
    for line in lost:
        print(line, file=sys.stderr)
    print(f"bench-paper: {'FAILED' if lost else 'every shape holds'}", file=sys.stderr)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
