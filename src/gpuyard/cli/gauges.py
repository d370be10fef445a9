"""Emulated GPUs as a person likes to see them: a row and two bars for each, and below who uses them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from gpuyard.emulation.monitor import GpuReading, NodeReading
from gpuyard.sharing.monitor import SharerReading

WIDE = 104
"""Columns from which on there is room for bars."""

BAR = 12
_GIB = 2**30


def console() -> Console:
    """Return the terminal; into a pipe nothing is cut."""
    return Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 10_000)


def picture(nodes: Sequence[NodeReading], width: int) -> Group:
    """Draw all nodes, one below the other."""
    bar = BAR if width >= WIDE else 0
    parts: list[RenderableType] = []
    for node in nodes:
        parts += [Text(""), _heading(node), _gpus(node, bar), Text("")]
        parts.append(_processes(node) if any(gpu.processes for gpu in node.gpus) else Text("No process uses them."))
    return Group(*parts[1:])


def everything(nodes: Sequence[NodeReading], sharers: Sequence[SharerReading], width: int) -> Group:
    """Draw all nodes, and below who shares GPUs."""
    parts: list[RenderableType] = [picture(nodes, width)] if nodes else []
    parts += [Text("")] if nodes and sharers else []
    return Group(*parts, *([sharing_table(sharers)] if sharers else []))


def sharing_table(sharers: Sequence[SharerReading]) -> Table:
    """Draw who shares: who holds a GPU and who waits for it."""
    names = (">PID", ">level", "state", ">queued", ">jobs", ">preempted", ">waited", ">GPU time", ">memory", "command")
    table = _table("group", "GPU", *names)
    for each in sharers:
        table.add_row(
            each.group,
            each.gpu,
            str(each.pid),
            "–" if each.level < 0 else str(each.level),
            each.state,
            str(each.queued),
            str(each.jobs_done),
            str(each.preemptions),
            f"{each.waited_ms:,.0f} ms",
            f"{each.gpu_ms:,.0f} ms",
            f"{each.memory_bytes / _GIB:.1f} GiB",
            each.command,
        )
    return table


def _heading(node: NodeReading) -> Text:
    policy = node.sharing.partition(":")[0]
    speed = f", {node.speed:g} times as fast as real time" if node.speed != 1 else ""
    return Text.assemble("Node ", (node.node, "bold"), f", sharing {policy}{speed}")


def _table(*columns: str) -> Table:
    """A table without lines; a heading that starts with `>` belongs to numbers, which end below it."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name in columns:
        table.add_column(name.lstrip(">"), justify="right" if name.startswith(">") else "left", no_wrap=True)
    return table


def _gpus(node: NodeReading, bar: int) -> Table:
    table = _table(">GPU", "name", "memory", "utilisation", ">power", ">temp")
    for gpu in node.gpus:
        used, total = gpu.memory_used_bytes / _GIB, gpu.memory_total_bytes / _GIB
        table.add_row(
            str(gpu.index),
            gpu.name,
            _bar(_memory_part(gpu), bar) + Text(f"{used:5.1f} / {total:.1f} GiB"),
            _bar(gpu.utilisation, bar) + Text(f"{gpu.utilisation:4.0%}"),
            f"{gpu.power_w:.0f} / {gpu.power_limit_w:.0f} W",
            f"{gpu.temperature_c:.0f} °C",
        )
    return table


def _memory_part(gpu: GpuReading) -> float:
    return gpu.memory_used_bytes / gpu.memory_total_bytes if gpu.memory_total_bytes else 0.0


def _bar(part: float, width: int) -> Text:
    full = round(part * width)
    colour = "green" if part < 0.6 else "yellow" if part < 0.9 else "red"
    return Text.assemble(("█" * full, colour), ("░" * (width - full), "dim"), " " if width else "")


def _processes(node: NodeReading) -> Table:
    table = _table(">GPU", ">PID", ">memory", ">utilisation", "command")
    for gpu in node.gpus:
        for process in gpu.processes:
            memory = f"{process.memory_bytes / _GIB:.1f} GiB"
            share = f"{process.utilisation:.0%}"
            table.add_row(str(gpu.index), str(process.pid), memory, share, process.command or "–")
    return table
