"""`python -m benchmarks.load [NAME…]`: measures streams of requests and the load generator against limits."""

from __future__ import annotations

import sys
from collections.abc import Callable

from benchmarks.limits import Figure
from benchmarks.load import arrivals, sending
from benchmarks.running import report, run_named

BENCHMARKS: dict[str, Callable[[], list[Figure]]] = {"arrivals": arrivals.run, "sending": sending.run}


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all; returns 1 when a limit is exceeded."""
    found = run_named(BENCHMARKS, names)
    return 2 if found is None else report(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
