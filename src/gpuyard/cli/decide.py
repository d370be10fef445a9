"""gpuyard decide: what a policy would do with a world that a snapshot shows."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuyard.cli.output import Format, emit, say

if TYPE_CHECKING:
    from gpuyard.policies.policy import Policy


def decide(
    snapshot: Annotated[Path, typer.Argument(metavar="SNAPSHOT", help="A snapshot file.")],
    policy: Annotated[str, typer.Option(metavar="NAME", help="ORDER+ALLOCATE.")] = "fifo+tune",
    placement: Annotated[str | None, typer.Option(metavar="NAME", help="Which node takes a job. [best-fit]")] = None,
    starvation: Annotated[
        str, typer.Option(metavar="none|TIME", help="Let a job that has waited this long go first.")
    ] = "none",
    profiles: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Further profiles of models; repeat for several.")
    ] = None,
    multiplex: Annotated[
        str, typer.Option(metavar="NAME", help="Tasks of one GPU share GPUs by this policy. [none]")
    ] = "none",
    format: Annotated[Format, typer.Option(help="How to print the plan.")] = Format.table,
) -> None:
    """Print what a policy would do with the world that a snapshot shows.

    A snapshot is saved by `Snapshot.save` in any world, or written by hand (docs/formats.md).
    """
    from gpuyard.core.units import seconds
    from gpuyard.policies.decide import decide as ask
    from gpuyard.policies.named_plan import named_plan
    from gpuyard.policies.resolve import resolve
    from gpuyard.policies.snapshot import Snapshot

    limit = None if starvation == "none" else seconds(starvation, "starvation")
    chosen = resolve(policy, placement=placement, starvation_s=limit)
    if multiplex == "none":
        seen = Snapshot.load(snapshot, profiles=tuple(profiles or ()))
        plan = named_plan(seen, ask(chosen, seen))
    else:
        plan = _shared_plan(snapshot, chosen, multiplex, tuple(profiles or ()))
    if format == Format.json:
        json.dump(plan, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    emit(_rows(plan), format)
    if format == Format.table:
        _say_why(plan["wait"])
        if not any(plan.values()):
            say("nothing to do: everybody keeps what it has")


def _shared_plan(
    path: Path, policy: Policy, multiplex: str, profiles: tuple[str, ...]
) -> dict[str, list[dict[str, Any]]]:
    from gpuyard.policies.decide_shared import SharedDecider
    from gpuyard.policies.registry import MULTIPLEXERS
    from gpuyard.policies.shared_snapshots import named_shared_plan, shared_snapshot
    from gpuyard.policies.snapshot_files import errors_of, read_facts
    from gpuyard.profiles import load_zoo

    facts, zoo = read_facts(path), load_zoo(profiles)
    decider = SharedDecider(policy, MULTIPLEXERS.find(multiplex), zoo)
    with errors_of(path):
        seen = shared_snapshot(facts, zoo)
    return named_shared_plan(facts, decider(seen))


def _say_why(waiting: list[dict[str, Any]]) -> None:
    """For each reason to wait, under the table: what those jobs lack and what would help."""
    for reason, lacks, helps in dict.fromkeys((entry["reason"], entry["lacks"], entry["helps"]) for entry in waiting):
        free = f" ({waiting[0]['free_gpus']:g} stay free)" if "free_gpus" in waiting[0] else ""
        say(f"{reason}: {lacks}{free}.")
        say(f"  What would help: {helps}")


def _rows(plan: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """One line for each job that starts, changes, stops or waits."""
    rows = []
    for what, entries in plan.items():
        for entry in entries:
            gpus = " ".join(f"{gpu['node']}:{gpu['gpu']}" for gpu in entry.get("gpus", ()))
            amounts = {name: entry.get(name) for name in ("cpus", "memory_gb", "storage_mbps")}
            rows.append(
                {"job": entry["job"], "action": what, "gpus": gpus} | amounts | {"reason": entry.get("reason", "")}
            )
    return rows
