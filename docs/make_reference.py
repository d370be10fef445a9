"""Writes docs/reference.md from the code: `python docs/make_reference.py`. A test fails when the page is out of date.

Names, types and defaults come from the code. What it cannot say by itself, the meaning of a column, stands here; a name
without a meaning, or a meaning without a name, is an error.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import gpuyard
from gpuyard.cli import COMMANDS, load_command
from gpuyard.core.cluster import Cluster
from gpuyard.emulation.report import combine
from gpuyard.policies.allocate.placement import PLACEMENTS
from gpuyard.policies.registry import ALIASES, ALLOCATIONS, ORDERS
from gpuyard.results import JOBS_SCHEMA, TIMELINE_SCHEMA, summarise
from gpuyard.results.folders import RUN_FILES
from gpuyard.simulation.options import Options
from gpuyard.simulation.setting import DEFAULT_JOBS, DEFAULT_LOAD, DEFAULT_WINDOW, Setting

PAGE = Path(__file__).with_name("reference.md")

GENERATED = {"load": DEFAULT_LOAD, "jobs": DEFAULT_JOBS, "window": ":".join(map(str, DEFAULT_WINDOW))}
"""Defaults of settings where the workload is made, not read."""

OPTIONS = {
    "faithful": "as the original program does it",
    "placement": "`first-fit`, `consolidating` or `best-fit`; none: best-fit, first-fit when faithful",
    "round_s": "seconds between two decisions",
    "window": "first and last job (exclusive) whose times count; none: all",
    "static": "all jobs are there at the start",
    "seed": "of failures that are drawn",
    "restart_s": "seconds lost when a job starts again after a preemption or failure",
    "migration_s": "seconds lost when a job moves",
    "checkpoint_every_s": "seconds between two checkpoints",
    "checkpoint_s": "seconds that a checkpoint takes",
    "failures": "`Failure(node, at_s, down_s)` values",
    "failures_per_node_year": "mean number of failures, drawn",
    "repair_s": "mean seconds until a failed node is back, where failures are drawn",
    "quotas": "most GPUs that a tenant may hold, by name",
    "opt_time_limit_s": "seconds that the solver may take for one decision",
    "timeline": "record who held which GPU when",
    "skip": "jump over rounds in which no decision can change; off only to prove that it changes nothing",
}

FILES = {
    "run.json": "inputs, version, seed, options; under `timing` and `machine` what differs between two equal runs",
    "jobs.parquet": "one row a job, in order of arrival",
    "timeline.parquet": "one row for each span in which a job held the same GPUs and amounts",
    "summary.json": "the figures below",
}

JOBS = {
    "job_id": "text where the workload's ids are",
    "model": "name of its profile",
    "gpus": "GPUs it needs; below 1 a slice",
    "arrival_s": "when it arrived",
    "finish_s": "when it ended; null: it did not",
    "start_s": "when it first got GPUs; null: never",
    "iterations": "its work",
    "tenant": "who pays",
    "priority": "higher goes first",
    "measured": "whether it is in the window",
    "held_s": "seconds it held GPUs",
    "cpus_wanted": "CPUs the whole job can use",
    "memory_wanted_gb": "memory the whole job can use",
    "preemptions": "how often it lost its GPUs to another job",
    "moves": "how often it changed its GPUs",
    "restarts": "how often it started again after a failure",
    "wait_round_s": "seconds it waited for the next decision",
    "wait_gpus_s": "… because all GPUs it may use were taken by jobs ahead of it",
    "wait_fragments_s": "… because free GPUs were too few or too scattered",
    "wait_resources_s": "… for CPU, memory or storage",
    "wait_quota_s": "… because its tenant held all it may",
    "wait_nodes_s": "… because nodes were down",
}

TIMELINE = {
    "job_id": "whose span it is",
    "start_s": "from",
    "end_s": "to",
    "gpu_ids": "numbers of its GPUs; they run through the nodes from 0",
    "cpus": "CPUs the whole job held",
    "memory_gb": "memory it held",
    "storage_mbps": "storage bandwidth it held",
    "speed": "relative to 1.0, the reference share",
    "ended": "`finished`, `preempted`, `moved`, `resized`, `failed`, or `running` at the end of the run",
}

FIGURES = {
    "policy": "as on the command line",
    "load": "jobs an hour",
    "jobs": "how many jobs are measured",
    "unfinished": "how many of them did not finish",
    "mean_jct_h": "mean hours from arrival to end, over the measured jobs that finished",
    "p50_jct_h": "half of them took no longer",
    "p99_jct_h": "99 % took no longer",
    "p999_jct_h": "99.9 % took no longer",
    "mean_wait_h": "mean hours without GPUs",
    "makespan_h": "when the last job ended, in hours",
    "gpu_use": "part of all GPU time that was held",
    "cpu_use": "part of all CPU time that was held by jobs that could use it; null without a timeline",
    "memory_use": "the same for memory",
    "cpu_allocated": "part of all CPU time that was held, used or not",
    "memory_allocated": "the same for memory",
    "preemptions": "over all jobs",
    "moves": "over all jobs",
    "cpu_seconds": "what the simulation itself cost",
    "run": "the folder; not in `summary.json`",
}


EMULATION = {
    "gpu": "kind of the first GPU",
    "gpus": "the machine, as asked for",
    "wall_seconds": "what the command took here",
    "emulated_seconds": "what it took by its clock; of several processes the longest",
    "device_seconds": "work that GPUs did, over all processes",
    "waited_seconds": "what the host waited for GPUs, over all processes",
    "peak_memory_bytes": "most that tensors held on one GPU, of any process",
    "peak_reserved_bytes": "most that was kept for them",
    "steps": "steps of optimizers, of the process with most",
    "kernels": "operations that were launched",
    "duration_model": "where most of the device seconds come from",
    "duration_models": "device seconds by where they come from",
    "expected_error": "of a step's duration; null: unknown",
    "processes": "the same for each process that used a GPU; its notices, and where it decided by a made-up value",
}


def reference() -> str:
    """Return the page."""
    parts = [
        "# Reference\n\nGenerated by `python docs/make_reference.py`; edit that, or the code, instead.\n",
        "## Commands\n\nResults go to stdout, progress and notes to stderr. Exit codes: 0 done, 1 failed, 2 wrong "
        "input, 130 interrupted.\n"
        "Times take a unit: `90`, `90s`, `5m`, `1.5h`, `2d`. `GPUYARD_DEBUG=1` shows the traceback of an error.\n",
        *_commands(),
        "## Policies\n",
        _policies(),
        "## Settings of a sweep\n\nWhat may stand under `axes` and `fixed` in a [sweep file](sweeps.md). Times are in "
        "seconds or have a unit.\nThe defaults of `load`, `jobs` and `window` are those of the made workload.\n",
        _settings(),
        "## The run folder\n",
        _table(("file", "content"), FILES, RUN_FILES),
        "`jobs.parquet`:\n",
        _table(("column", "meaning"), JOBS, JOBS_SCHEMA, {name: str(kind) for name, kind in JOBS_SCHEMA.items()}),
        "`timeline.parquet`:\n",
        _table(
            ("column", "meaning"),
            TIMELINE,
            TIMELINE_SCHEMA,
            {name: str(kind) for name, kind in TIMELINE_SCHEMA.items()},
        ),
        "## Figures of a run\n\nIn `summary.json`, in `Run.summary`, and printed by `simulate --format json`.\n",
        _table(("figure", "meaning"), FIGURES, _figures()),
        "## Report of an emulation\n\nWritten by `gpuyard emulate --report FILE.json`.\n",
        _table(("field", "meaning"), EMULATION, combine(Path("nowhere"), "A100", ["A100"], 0.0)),
        "## Options\n\nFields of `gpuyard.Options`, with their defaults. Times are in seconds.\n",
        _table(
            ("field", "meaning"),
            OPTIONS,
            [field.name for field in fields(Options)],
            {field.name: str(getattr(Options(), field.name)) for field in fields(Options)},
            "default",
        ),
        "## Python\n\nEverything in `gpuyard.__all__`.\n",
        *(_public(name) for name in gpuyard.__all__),
    ]
    return "\n".join(parts).rstrip("\n") + "\n"


def _commands() -> Iterable[str]:
    for name in COMMANDS:
        command = load_command(name)
        inner = getattr(command, "commands", None) or {}
        for title, each in {f"{name} {sub}": one for sub, one in inner.items()}.items() or [(name, command)]:
            yield _command(title, each)


def _command(title: str, command: Any) -> str:
    context = command.context_class(command, info_name=f"gpuyard {title}")
    context.terminal_width = context.max_content_width = 1000
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    many = {one: "..." if one.nargs < 0 and not one.metavar.endswith("…") else "" for one in arguments}
    usage = "".join(f" {one.metavar}{many[one]}" for one in arguments)
    rows = [(one.metavar, one.help) for one in arguments]
    rows += [one.get_help_record(context) for one in command.params if one not in arguments]
    table = "\n".join(f"| `{_cell(names)}` | {_cell(meaning)} |" for names, meaning in rows)
    return (
        f"### `gpuyard {title}`\n\n{inspect.cleandoc(command.help)}\n\n"
        f"Usage: `gpuyard {title} [OPTIONS]{usage}`\n\n| | meaning |\n|---|---|\n{table}\n"
    )


def _policies() -> str:
    orders = "\n".join(f"| `{name}` | {_first_line(ORDERS[name])} |" for name in ORDERS)
    allocations = "\n".join(f"| `{name}` | {_first_line(ALLOCATIONS[name])} |" for name in ALLOCATIONS)
    aliases = "; ".join(f"`{name}` is another name for `{meant}`" for name, meant in ALIASES.items())
    return (
        "`ORDER+ALLOCATE`; either part may be `path/to/file.py:Name` or a name that an installed package offers as an "
        "entry point of `gpuyard.orders` or `gpuyard.allocations` ([writing-a-policy.md](writing-a-policy.md)).\n\n"
        f"| order | first comes |\n|---|---|\n{orders}\n\n| allocation | |\n|---|---|\n{allocations}\n\n"
        f"{aliases}. Placements: {', '.join(f'`{name}`' for name in PLACEMENTS)}.\n"
    )


def _settings() -> str:
    rows = []
    for name, field in Setting.model_fields.items():
        default = GENERATED.get(name, field.get_default(call_default_factory=True))
        rows.append(f"| `{name}` | {'' if default is None else f'`{_value(default)}`'} |")
    return "| setting | default |\n|---|---|\n" + "\n".join(rows) + "\n"


def _table(
    head: tuple[str, str], meanings: Mapping[str, str], names: Iterable[str],
    middle: Mapping[str, str] | None = None, middle_name: str = "type",
) -> str:  # fmt: skip
    unknown = set(names) ^ set(meanings)
    if unknown:
        raise SystemExit(f"make_reference.py and the code disagree about {', '.join(sorted(unknown))}")
    if middle is None:
        rows = [f"| `{name}` | {meanings[name]} |" for name in names]
        return f"| {head[0]} | {head[1]} |\n|---|---|\n" + "\n".join(rows) + "\n"
    rows = [f"| `{name}` | `{middle[name]}` | {meanings[name]} |" for name in names]
    return f"| {head[0]} | {middle_name} | {head[1]} |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def _figures() -> list[str]:
    import polars as pl

    jobs, timeline = pl.DataFrame(schema=JOBS_SCHEMA), pl.DataFrame(schema=TIMELINE_SCHEMA)
    return list(summarise(jobs, timeline, Cluster.parse("1x1"), policy="fifo+tune"))


def _public(name: str) -> str:
    value = getattr(gpuyard, name)
    if isinstance(value, str):
        return f"### `{name}`\n\nThe version, as text.\n"
    text = inspect.cleandoc(value.__doc__ or "")
    if not inspect.isclass(value):
        return f"### `{name}{_signature(value)}`\n\n{text}\n"
    if issubclass(value, Exception):
        return f"### `{name}`\n\n{text}\n"
    lines = [f"### `{name}`\n\n{text}\n"]
    if is_dataclass(value):
        lines.append("Fields: " + ", ".join(f"`{field.name}`" for field in fields(value)) + ".\n")
    members = [_member(member, found) for member, found in vars(value).items() if not member.startswith("_")]
    listed = [line for line in members if line]
    return "\n".join([*lines, "\n".join(listed) + "\n"] if listed else lines)


def _member(name: str, found: Any) -> str:
    plain = getattr(found, "fget", None) or getattr(found, "func", None)
    if plain is not None:
        return f"- `{name}`: {_first_line(plain)}"
    function = found.__func__ if isinstance(found, classmethod) else found
    return f"- `{name}{_signature(function)}`: {_first_line(function)}" if inspect.isfunction(function) else ""


def _signature(function: Any) -> str:
    signature = inspect.signature(function)
    shown = [one for one in signature.parameters.values() if one.name not in ("self", "cls")]
    defaults = [one.replace(annotation=inspect.Parameter.empty) for one in shown]
    text = str(signature.replace(parameters=defaults, return_annotation=inspect.Signature.empty))
    return re.sub(r"Options\(.*\)\)$", "Options())", text)


def _first_line(value: Any) -> str:
    return inspect.cleandoc(value.__doc__ or "").splitlines()[0]


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def _value(value: Any) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, tuple):
        return ",".join(_value(one) for one in value) or "()"
    return str(value)


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
    print(PAGE)
