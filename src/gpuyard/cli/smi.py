"""`gpuyard smi`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuyard.cli.output import Format, emit, say
from gpuyard.core.errors import InputError

if TYPE_CHECKING:
    from gpuyard.emulation.monitor import GpuReading, NodeReading

NOBODY = "No emulated GPU is in use. To start one: gpuyard emulate --gpus 2xA100 -- python train.py"
SHORTEST_S = 0.1
"""Looking more often would show hardly anything new and keep the machine busy."""

_COLUMNS = (
    *("node", "index", "key", "name", "uuid", "memory_used_bytes", "memory_total_bytes", "utilisation"),
    *("temperature_c", "power_w", "power_limit_w", "pids"),
)

_SHARER_COLUMNS = (
    *("group", "gpu", "pid", "level", "state", "queued", "jobs_done", "preemptions", "waited_ms", "gpu_ms"),
    *("memory_bytes", "command"),
)


def smi(
    node: Annotated[str | None, typer.Option(metavar="NAME", help="Only this emulated machine.")] = None,
    live: Annotated[bool, typer.Option("--live", help="Look again and again, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(metavar="SECONDS", help="How often --live looks.")] = 1.0,
    export: Annotated[
        str | None, typer.Option(metavar="[HOST:]PORT", help="Answer Prometheus there, until Ctrl-C.")
    ] = None,
    sharing: Annotated[
        bool, typer.Option("--sharing", help="Only who shares: who holds a GPU, queues, waits, preemptions.")
    ] = False,
    format: Annotated[Format, typer.Option(help="How to print the result.")] = Format.table,
) -> None:
    """Show the emulated GPUs of this machine: memory, utilisation, power, and who uses them; and who shares GPUs.

    Programs started with 'gpuyard share' are shown on real GPUs, too.
    """
    if sharing:
        _print_sharers(format)
    elif export is not None:
        _export(export, node)
    elif live:
        _go_on(node, every, format)
    else:
        from gpuyard.emulation.monitor import read_live

        nodes = read_live(node)
        _print(nodes, format)
        if format == Format.table and node is None:
            _print_sharers(format, only_if_any=True)


def _print_sharers(format: Format, *, only_if_any: bool = False) -> None:
    from gpuyard.sharing.monitor import read_groups

    rows = [asdict(reading) for reading in read_groups()]
    if rows or format != Format.table:
        columns = _SHARER_COLUMNS if format == Format.table else None
        emit(rows, format, columns=columns)
    elif not only_if_any:
        say("No program shares a GPU. To start one: gpuyard share --priority high -- python infer.py")


def _print(nodes: Sequence[NodeReading], format: Format) -> None:
    if format == Format.json:
        emit([asdict(node) for node in nodes], format)
    elif format == Format.csv:
        emit([_row(node, gpu) for node in nodes for gpu in node.gpus], format, columns=_COLUMNS)
    elif nodes:
        from gpuyard.cli.gauges import console, picture

        screen = console()
        screen.print(picture(nodes, screen.width))
    else:
        say(NOBODY)


def _row(node: NodeReading, gpu: GpuReading) -> dict[str, Any]:
    return {"node": node.node, **asdict(gpu), "pids": [process.pid for process in gpu.processes]}


def _go_on(node: str | None, every: float, format: Format) -> None:
    from rich.live import Live

    from gpuyard.cli.gauges import console, picture
    from gpuyard.emulation.monitor import read, read_live

    if every < SHORTEST_S:
        raise InputError(f"is less than {SHORTEST_S} s", field="every", value=every)
    screen = console()
    if format != Format.table or not screen.is_terminal:
        raise InputError("draws a table on a terminal", field="live", hint="Without --live it prints once, anywhere")
    read_live(node)  # refuses a wrong name; one that is right may end and come back
    with suppress(KeyboardInterrupt), Live(console=screen, auto_refresh=False) as shown:
        while True:
            nodes = read(node)
            shown.update(picture(nodes, screen.width) if nodes else NOBODY, refresh=True)
            time.sleep(every)


def _export(address: str, node: str | None) -> None:
    from gpuyard.emulation.exporter import is_local, serve

    with serve(address, node) as url, suppress(KeyboardInterrupt):
        say(f"Prometheus finds the emulated GPUs at {url} until Ctrl-C.")
        if not is_local(address):
            say("warning: whoever reaches this machine can read it there; it is neither encrypted nor protected.")
        while True:
            time.sleep(3600)
