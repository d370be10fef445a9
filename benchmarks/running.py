"""Runs benchmarks by name and says which limits do not hold."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from benchmarks.limits import Figure, failures, table

Benchmarks = Mapping[str, Callable[[], list[Figure]]]


def run_named(benchmarks: Benchmarks, names: list[str]) -> list[Figure] | None:
    """Run the named benchmarks, or all, and print their figures; None if there is none of a name."""
    unknown = [name for name in names if name not in benchmarks]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are: {', '.join(benchmarks)}", file=sys.stderr)
        return None
    found: list[Figure] = []
    for name in names or benchmarks:
        print(f"{name} …", file=sys.stderr, flush=True)
        measured = benchmarks[name]()
        print(table(measured), flush=True)
        found += measured
    return found


def report(found: list[Figure]) -> int:
    """Say which limits are exceeded; returns 1 if any is."""
    lines = failures(found)
    for line in lines:
        print(line, file=sys.stderr)
    limits = sum(bool(each.limit) for each in found)
    print(f"benchmarks: {limits - len(lines)} of {limits} limits hold", file=sys.stderr)
    return 1 if lines else 0
