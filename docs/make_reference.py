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
from gpuyard.core.reasons import WAIT_REASONS
from gpuyard.core.service import Service
from gpuyard.emulation.report import combine
from gpuyard.policies.registry import ALLOCATIONS, LAUNCHINGS, ORDERS, PLACEMENTS
from gpuyard.results import TABLES, summarise, summarise_programs, summarise_serving, summarise_sharing
from gpuyard.results.folders import RUN_FILES
from gpuyard.results.sharing import SharerFacts
from gpuyard.simulation.options import DEFAULT_JOBS, DEFAULT_LOAD, DEFAULT_WINDOW, Options, option_fields

PAGE = Path(__file__).with_name("reference.md")

GENERATED = {"load": DEFAULT_LOAD, "jobs": DEFAULT_JOBS, "window": ":".join(map(str, DEFAULT_WINDOW))}
"""Defaults of settings where the workload is made, not read."""

FILES = {
    "run.json": "the world, the tables that there are, inputs, version, seed, options; under `timing` and `machine` "
    "what differs between two equal runs",
    **{table.file: table.row for table in TABLES.values()},
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
    "cpu_demand": "CPUs the whole job can use",
    "memory_demand_gb": "memory the whole job can use",
    "preemptions": "how often it lost its GPUs to another job",
    "moves": "how often it changed its GPUs",
    "restarts": "how often it started again after a failure",
    **{
        reason.column: f"seconds it waited {reason.because.format(gpus='all GPUs that it may use')}"
        for reason in WAIT_REASONS
    },
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

ATTEMPTS = {
    "job_id": "whose attempt it is",
    "attempt": "its number, from 1",
    "asked_s": "when it was decided that the job should run there",
    "start_s": "when its processes were started: all that it needed was free",
    "working_s": "when its first step began; null: none did",
    "stop_asked_s": "when it was told to save and leave; null: it was not",
    "end_s": "when the last of its processes was gone",
    "first_step": "steps behind the job when it began",
    "last_step": "steps behind the job, and kept, when it ended",
    "saves": "checkpoints that it wrote",
    "save_s": "what these took together, in seconds of the machine",
    "load_s": "what loading the last one took, in seconds of the machine",
    "ended": "`finished`, `preempted`, `moved` or `failed`",
}

PROGRAMS = {
    "program": "number of the process, from 0",
    "command": "what was run",
    "gpu_ids": "the GPUs it used",
    "gpu_kinds": "their kinds",
    "wall_s": "seconds it took here",
    "emulated_s": "seconds it took by its clock",
    "gpu_s": "seconds of work that its GPUs did",
    "waited_s": "seconds its host waited for them",
    "steps": "steps of its optimizers",
    "kernels": "operations it launched",
    "peak_memory_bytes": "most that its tensors held on one GPU",
    "peak_reserved_bytes": "most that was kept for them",
    "durations_from": "where most of `gpu_s` comes from: a profile, or costs of operations",
    "expected_error": "of a step's duration, as a part of it; null: unknown",
    "exit_code": "what it ended with; null: it was still running, or nobody knows",
}

STEPS = {
    "program": "whose step it is",
    "step": "its number, from 0",
    "start_s": "from, by the program's clock",
    "end_s": "to",
}

REQUESTS = {
    "service": "whose request it is: a service, or an application for the whole way through its stages",
    "arrival_s": "when it came",
    "start_s": "when its batch began, of an application the first of them; null: it was not answered",
    "finish_s": "when it was answered; null: it was not",
    "slice": "which slice ran it: a row of `slices`; null for an application",
    "batch": "requests that ran together with it, itself included; null for an application",
    "outcome": "`served` in time, `late`, `dropped` while it waited since no slice could be in time any more, or "
    "`refused` as it came",
}

STAGE_REQUESTS = {
    "request": "for which request: a row of `requests`, from 0",
    "service": "the stage, as in `traffic/detect`",
    "arrival_s": "when it was asked: all stages before it had answered",
    "start_s": "when its batch began; null: it was in none",
    "finish_s": "when it had answered; null: it did not",
    "slice": "which slice ran it: a row of `slices`",
    "batch": "requests that ran together with it, itself included",
    "outcome": "`served` within the SLO of the application, `late`, `dropped` since its request could not be in time "
    "any more, be it here or in another stage, or `refused` as it came",
}

SLICES = {
    "slice": "its number, from 0; a slice that serves something else from some time on is another one",
    "gpu": "its GPU, numbered through all nodes",
    "share": "its part of the GPU",
    "services": "services that take turns on it",
    "batches": "the largest batch of each",
    "start_s": "from when it served",
    "end_s": "until when",
    "busy_s": "seconds in which it ran a batch",
    "batches_run": "batches that it ran",
    "requests": "requests in these",
}

LATENCIES = {
    "mean_ms": "mean latency of answered requests, from arrival to answer",
    "p50_ms": "half of them took no longer; percentiles are by nearest rank",
    "p90_ms": "nine tenths took no longer",
    "p99_ms": "99 % took no longer",
    "max_ms": "the longest",
}

SERVICES = {
    "service": "its name",
    "model": "what it runs",
    "planned_rate": "requests a second, on the mean, that its plan is for",
    "requests": "requests that came; of a stage, how often it was asked",
    "served": "answered in time",
    "late": "answered too late",
    "dropped": "given up while they waited",
    "refused": "turned away as they came",
    "goodput_per_s": "answers in time, a second",
    "violations": "part of all requests that were not answered in time",
    **LATENCIES,
    "slo_ms": "milliseconds within which a request is to be answered",
}

COMPLETIONS = {
    "job": "the process",
    "number": "of its jobs, from 0",
    "arrival_s": "when the job came",
    "start_s": "when its process began with it; later than it came where another one was not done",
    "finish_s": "when it was done",
    "waited_s": "seconds it waited at the gate, draining included",
    "preemptions": "how often it was stopped after it had launched something",
    "syncs": "synchronisations by its cap",
    "measured": "whether figures count it: it is none of the first, with which the process warms up",
}

PROCESSES = {
    "job": "its name",
    "gpu": "its GPU",
    "priority": "higher goes first",
    "jobs_done": "jobs that figures count",
    "jct_ms_mean": "mean milliseconds from a job's arrival to its end",
    "jct_ms_stderr": "standard error of that",
    "jct_ms_p50": "half of the jobs took no longer",
    "jct_ms_p99": "99 % took no longer",
    "jct_ms_max": "the longest",
    "alone_ms_mean": "the mean where the process has the GPU to itself, without a gate",
    "alone_ms_p50": "the median, likewise",
    "slowdown": "`jct_ms_p50` over `alone_ms_p50`",
    "inflation": "by what part of it the mean exceeds the mean alone: the study's measure",
    "undisturbed_ms_mean": "mean of the jobs that overlap no job of a higher priority; null: there is none",
    "slo_ms": "its SLO; without one, 1.6 times its mean alone, as in the study",
    "late": "jobs that took longer",
    "preemptions": "over its jobs",
    "syncs": "over its jobs",
    "waited_ms_mean": "milliseconds a job waited at the gate, on the mean",
    "gpu_share": "its part of the GPU's time over the run",
    "longest_queue": "the most launches that it ever had in flight",
    "kernels": "launches of a job",
    "kernel_ms": "mean milliseconds of one",
    "kernels_from": "where that is known from",
}

QUEUES = {
    "time_s": "since the start",
    "gpu": "the GPU",
    "job": "the process",
    "queued": "launches that the GPU has not finished, from now on",
}

COLUMNS = {
    "jobs": JOBS, "timeline": TIMELINE, "attempts": ATTEMPTS, "programs": PROGRAMS,
    "steps": STEPS, "requests": REQUESTS, "stage_requests": STAGE_REQUESTS, "slices": SLICES,
    "services": SERVICES, "completions": COMPLETIONS, "processes": PROCESSES, "queues": QUEUES,
}  # fmt: skip

SHARING_FIGURES = {
    "policy": "who may launch",
    "processes": "how many share",
    "jobs_done": "over all of them",
    "urgent_p50_ms": "median of the highest priority's jobs; of several processes the slowest",
    "urgent_p99_ms": "99 % of them took no longer, likewise",
    "urgent_slowdown": "median over median alone, likewise",
    "background_p50_ms": "median of the lowest priority's jobs, likewise",
    "background_p99_ms": "99 % of them took no longer, likewise",
    "background_slowdown": "median over median alone, likewise",
    "violations": "part of all jobs that took longer than their SLO",
    "preemptions": "over all jobs",
    "gpu_use": "part of the GPUs' time in which a kernel ran",
}

SERVING_FIGURES = {
    **{name: SERVICES[name] for name in ("requests", "served", "late", "dropped", "refused", "violations")},
    "goodput_per_s": "answers in time, for each second in which requests came",
    "throughput_per_s": "answers, in time or late, likewise",
    **LATENCIES,
    "worst_p99_of_slo": "the largest p99 of a service, as a part of its SLO",
    "mean_batch": "requests that ran together, on the mean over batches",
    "gpus_in_use": "GPUs with a slice that serves, on the mean over time",
    "gpu_share_in_use": "sum of these slices, likewise",
    "busy": "part of that in which a batch ran",
    "published_violations": "as gpulet's scripts count: without the first second and the first 200 requests",
    "published_throughput_per_s": "likewise, one less than its answers over the time from the first to the last",
    "published_mean_ms": "likewise, without the longest",
    "published_p99_ms": "likewise",
}

PROGRAM_FIGURES = {
    "programs": "processes that used a GPU",
    "failed": "how many of them ended with an error",
    "wall_s": "seconds here; of several processes the longest",
    "emulated_s": "seconds by the programs' clock, likewise",
    "steps": "steps of the process with most",
    "gpu_s": "seconds of GPU work, over all",
    "gpu_s_per_step": "the same for a step",
    "waited_s": "seconds that hosts waited for GPUs, over all",
    "mean_step_s": "mean seconds of a step; null without a table of steps",
    "p50_step_s": "half of the steps took no longer",
    "p99_step_s": "99 % took no longer",
    "peak_memory_mib": "most that tensors held on one GPU, in MiB (2^20 bytes)",
    "durations_from": "where most of the GPU work's durations come from",
    "expected_error": "of a step's duration, the largest of all processes; null: unknown",
}

FIGURES = {
    "policy": "as on the command line",
    "load": "jobs an hour",
    "jobs": "how many jobs are measured",
    "unfinished": "how many of them did not finish",
    "mean_jct_h": "mean hours from arrival to end, over the measured jobs that finished",
    "p50_jct_h": "half of these took no longer; percentiles are interpolated linearly between the two nearest jobs",
    "p99_jct_h": "99 % of these took no longer",
    "p999_jct_h": "99.9 % of these took no longer; of fewer than 1000 jobs it lies between the two longest",
    "mean_wait_h": "mean hours without GPUs",
    "makespan_h": "when the last job ended, in hours",
    "gpu_use": "part of all GPU time that was held",
    "cpu_use": "part of all CPU time held by jobs that could use it, on their best GPU type; null without a timeline",
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
        "## The run folder\n",
        _table(("file", "content"), FILES, RUN_FILES),
        "A run has the tables of its world: `jobs` and `timeline` of a cluster; `programs`, and `steps` where they "
        "were seen, of emulated GPUs; `requests`, `slices` and `services` of a server; `completions` and `processes` "
        "of a shared GPU.\n",
        *_columns(),
        "## Figures of a run\n\nIn `summary.json`, in `Run.summary`, and printed by `simulate --format json`.\n",
        _table(("figure", "meaning"), FIGURES, _figures()),
        "Of programs on emulated GPUs:\n",
        _table(("figure", "meaning"), PROGRAM_FIGURES, _program_figures()),
        "Of services, printed by `serve --format json`:\n",
        _table(("figure", "meaning"), SERVING_FIGURES, _serving_figures()),
        "Of processes that share a GPU:\n",
        _table(("figure", "meaning"), SHARING_FIGURES, _sharing_figures()),
        "## Report of an emulation\n\nWritten by `gpuyard emulate --report FILE.json`.\n",
        _table(("field", "meaning"), EMULATION, combine(Path("nowhere"), "A100", ["A100"], 0.0)),
        "## Options\n\nOne set of options for all: fields of `gpuyard.Options`; settings under `axes` and `fixed` of a "
        "[sweep file](sweeps.md);\nand, with `-` for `_`, options of `gpuyard simulate`. A setting is a field without "
        "its `_s`, because in a file and on the\ncommand line a time may have a unit. The defaults of `load`, "
        "`jobs` and `window` are those of the made workload.\n",
        _options(),
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
    orders = "\n".join(f"| `{name}` | {_first_line(ORDERS.shipped_one(name))} |" for name in ORDERS.names)
    allocations = "\n".join(
        f"| `{name}` | {_first_line(ALLOCATIONS.shipped_one(name))} |" for name in ALLOCATIONS.names
    )
    launchings = "\n".join(
        f"| `{LAUNCHINGS.find(name)}` | {_first_line(LAUNCHINGS.shipped_one(name))} |" for name in LAUNCHINGS.names
    )
    aliases = "; ".join(f"`{name}` is another name for `{meant}`" for name, meant in ALLOCATIONS.aliases.items())
    return (
        "`ORDER+ALLOCATE`; either part may be `path/to/file.py:Name` or a name that an installed package offers as an "
        "entry point of `gpuyard.orders` or `gpuyard.allocations` ([writing-a-policy.md](writing-a-policy.md)).\n\n"
        f"| order | first comes |\n|---|---|\n{orders}\n\n| allocation | |\n|---|---|\n{allocations}\n\n"
        f"{aliases}. Placements: {', '.join(f'`{name}`' for name in PLACEMENTS.names)}.\n\n"
        f"Who may launch on a shared GPU, for `gpuyard share --policy`:\n\n| policy | |\n|---|---|\n{launchings}\n"
    )


def _options() -> str:
    rows = []
    in_files = {field: name for name, field in option_fields().items()}
    for one in fields(Options):
        default = GENERATED.get(one.name, getattr(Options(), one.name))
        shown = "" if default in (None, (), {}) else f"`{_value(default)}`"
        setting = f"`{in_files[one.name]}`" if one.name in in_files else ""
        about = one.metadata.get("help", "jump over rounds in which no decision can change; Python only")
        meaning = re.sub(r" *\[[^[]*\]$", "", about)  # the default stands in a column of its own
        rows.append(f"| `{one.name}` | {setting} | {shown} | {_cell(meaning)} |")
    return "| field | setting | default | meaning |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"


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


def _columns() -> Iterable[str]:
    for name, table in TABLES.items():
        kinds = {column: str(kind) for column, kind in table.columns.items()}
        yield f"`{table.file}`:\n"
        yield _table(("column", "meaning"), COLUMNS[name], table.columns, kinds)


def _figures() -> list[str]:
    return list(summarise(_empty("jobs"), _empty("timeline"), Cluster.parse("1x1"), policy="fifo+tune"))


def _program_figures() -> list[str]:
    return list(summarise_programs(_empty("programs")))


def _serving_figures() -> list[str]:
    services = [Service("one", "resnet50", 1.0, 100.0)]
    return list(summarise_serving(_empty("requests"), _empty("slices"), services, 1.0)[0])


def _sharing_figures() -> list[str]:
    nobody = [SharerFacts("one", 0, 0, None, 1, 1.0, "given", 0.0, 0)]
    return list(summarise_sharing(_empty("completions"), _empty("completions"), nobody, "none")[0])


def _empty(table: str) -> Any:
    import polars as pl

    return pl.DataFrame(schema=TABLES[table].columns)


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
