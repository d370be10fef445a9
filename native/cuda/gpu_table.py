"""Writes the GPU kinds that gpuyard knows as a table in C: python native/cuda/gpu_table.py renews gpu_kinds.h.

The table is kept with the sources, as libraries are also compiled where gpuyard cannot be imported; a test compares.
"""

from __future__ import annotations

import json
from pathlib import Path

from gpuyard.core.gpus import SMALL_COPY, folded
from gpuyard.profiles.gpus import gpu_kinds

TABLE = Path(__file__).with_name("gpu_kinds.h")

NUMBERS = {
    "memory_bytes": "memory_bytes",
    "multiprocessors": "multiprocessors",
    "bandwidth": "bandwidth",
    "pageable_copy": "pageable_copy",
    "pinned_copy": "pinned_copy",
    "copy_latency_s": "copy_latency_s",
    "small_copy_latency_s": "small_copy_latency_s",
    "launch_latency_s": "launch_latency_s",
    "kernel_floor_s": "kernel_floor_s",
    "link_bandwidth": "link_bandwidth",
    "link_latency_s": "link_latency_s",
    "idle_watts": "idle_power_w",
    "max_watts": "max_power_w",
    "core_mhz": "max_clock_mhz",
    "memory_mhz": "max_memory_clock_mhz",
}
"""For each field of struct gpu_kind that of a GpuKind."""


def c_header() -> str:
    """Return the table, and the names by which each kind is found."""
    lines = ["/* Written by gpu_table.py from gpuyard's GPU kinds: SMALL_COPY, the kinds, and all of their names. */"]
    lines += [f"#define SMALL_COPY {SMALL_COPY}", "", "static const struct gpu_kind KINDS[] = {"]
    for kind in gpu_kinds():
        major, minor = kind.compute_capability
        lines += ["    {", f"        .key = {json.dumps(kind.key)},", f"        .name = {json.dumps(kind.name)},"]
        lines += [f"        .compute_major = {major},", f"        .compute_minor = {minor},"]
        lines += [f"        .{ours} = {getattr(kind, theirs)!r}," for ours, theirs in NUMBERS.items()]
        lines.append("    },")
    lines += ["};", "", "static const struct {", "    const char *name;", "    unsigned int kind;", "} NAMES[] = {"]
    names = {folded(name): row for row, kind in enumerate(gpu_kinds()) for name in (kind.key, kind.name, *kind.aliases)}
    lines += [f"    {{{json.dumps(name)}, {row}}}," for name, row in names.items()]
    return "\n".join([*lines, "};", ""])


if __name__ == "__main__":
    TABLE.write_text(c_header(), encoding="utf-8")
