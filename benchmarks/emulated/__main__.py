"""`python -m benchmarks.emulated [NAME…]`: measures the emulated GPU and writes its part of docs/fidelity.md."""

from __future__ import annotations

import sys
from collections.abc import Callable

from benchmarks import arbitration
from benchmarks.document import fill
from benchmarks.emulated import models, overhead, overlap, sharing, steps, unseen
from benchmarks.limits import Figure, failures, table

BENCHMARKS: dict[str, Callable[[], list[Figure]]] = {
    "steps": steps.run,
    "models": models.run,
    "unseen": unseen.run,
    "sharing": sharing.run,
    "arbitration": arbitration.run,
    "overlap": overlap.run,
    "overhead": overhead.run,
}


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all; returns 1 when a limit is exceeded."""
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    found: list[Figure] = []
    for name in names or BENCHMARKS:
        print(f"{name} …", file=sys.stderr, flush=True)
        measured = BENCHMARKS[name]()
        print(table(measured), flush=True)
        found += measured
    if not names:
        fill("fidelity.md", "emulation", table(found))
    lines = failures(found)
    for line in lines:
        print(line, file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
