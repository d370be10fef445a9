"""`python -m benchmarks.emulated [NAME…]`: measures the emulated GPU and writes its part of docs/fidelity.md."""

from __future__ import annotations

import sys
from collections.abc import Callable

from benchmarks import arbitration
from benchmarks.document import fill
from benchmarks.emulated import demo, models, overhead, overlap, sharing, steps, unseen
from benchmarks.limits import Figure, table
from benchmarks.running import report, run_named

BENCHMARKS: dict[str, Callable[[], list[Figure]]] = {
    "steps": steps.run,
    "models": models.run,
    "unseen": unseen.run,
    "sharing": sharing.run,
    "arbitration": arbitration.run,
    "overlap": overlap.run,
    "overhead": overhead.run,
    "demo": demo.run,
}


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all; returns 1 when a limit is exceeded."""
    found = run_named(BENCHMARKS, names)
    if found is None:
        return 2
    if not names:
        fill("fidelity.md", "emulation", table(found))
    return report(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
