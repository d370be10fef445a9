"""An experiment of sharing with real processes: one a job, behind the gate, started at one time."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from typing import Any
from uuid import uuid4

import polars as pl

from gpuyard._version import __version__
from gpuyard.core.errors import GpuyardError
from gpuyard.core.sharing import SharedJob, SharingExperiment
from gpuyard.policies.controller import control
from gpuyard.policies.launch_terms import ask_terms
from gpuyard.policies.registry import LAUNCHINGS
from gpuyard.policies.timeshare.launch import LEVELS, Cap, LaunchClaim, Launching
from gpuyard.results import Run, summarise_sharing
from gpuyard.results.schema import COMPLETIONS
from gpuyard.results.sharing import SharerFacts
from gpuyard.sharing.calls import UNGATED
from gpuyard.sharing.controller import GatedWorld
from gpuyard.sharing.ground import ProcessGround
from gpuyard.sharing.group import Group
from gpuyard.sharing.job_process import GO, READY, JobOrder
from gpuyard.sharing.program import ProgramTerms, gated_environment, without_terms

ALONE_S = 2.0
"""For how long each job is run by itself, at most: it does the same again and again."""


@dataclass(frozen=True)
class ProcessRecord:
    """What a process did."""

    job: SharedJob
    rows: list[dict[str, Any]]
    longest_queue: int


def run_in_processes(
    experiment: SharingExperiment, ground: ProcessGround, inputs: Mapping[str, Any] | None = None
) -> Run:
    """Let all jobs share their GPUs in real processes, and each run alone beside; the run is not yet saved."""
    began = time.perf_counter()
    records = share_in_processes(experiment, ground)
    short = [replace(each, seconds=min(each.seconds, ALONE_S)) for each in experiment.alone()]
    alone = pl.concat([completions(share_in_processes(each, ground)) for each in short])
    table = completions(records)
    end_s = float(table["finish_s"].max() or 0.0)  # type: ignore[arg-type]
    figures, processes = summarise_sharing(table, alone, [_fact(each, end_s) for each in records], experiment.policy)
    info = {
        "version": __version__,
        "world": ground.world,
        "kind": "sharing",
        "policy": experiment.policy,
        "sharing": ground.sharing(experiment),
        "speed": ground.speed,
        "gpus": ground.gpus(experiment),
        "seconds": experiment.seconds,
        "end_s": end_s,
        "launches": sum(len(each.rows) * len(each.job.sequence.durations_s) for each in records),
        "notes": list(experiment.notes),
        "machine": {"python": platform.python_version(), "system": platform.platform()},
        "timing": {"wall_seconds": time.perf_counter() - began},
        **(inputs or {}),
    }
    return Run(info, {"completions": table, "processes": processes}, figures)


def share_in_processes(experiment: SharingExperiment, ground: ProcessGround) -> list[ProcessRecord]:
    """Run one process a job, all from one start to their ends."""
    policy, group = LAUNCHINGS.find(experiment.policy), Group(f"experiment-{uuid4().hex}")
    with ExitStack() as stack:
        stack.callback(group.close)
        stack.callback(ground.clean_up)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpuyard-")))
        started = [
            stack.enter_context(_started(experiment, job, group.name, folder, ground))
            for job in _told_of_layers(experiment.jobs, policy)
        ]
        for process, job in zip(started, experiment.jobs, strict=True):
            _await_ready(process, job)
        stack.enter_context(_decided(group, policy, ground))
        start_s = time.monotonic()
        for process in started:
            _tell(process, f"{GO} {start_s!r}")
        return [_record(process, job) for process, job in zip(started, experiment.jobs, strict=True)]


def _told_of_layers(jobs: Sequence[SharedJob], policy: Launching) -> list[SharedJob]:
    """A gate knows no layers: a process synchronises after them by itself, and learns at its start whether to."""
    claims = [
        LaunchClaim(
            job.name, job.priority, job.share, inf if job.slo_s is None else job.slo_s, job.gated,
            Cap(job.sync_every, job.window, job.layers),
        )
        for job in jobs
    ]  # fmt: skip
    return [replace(job, layers=each.cap.layers) for job, each in zip(jobs, ask_terms(policy, claims), strict=True)]


@contextmanager
def _decided(group: Group, policy: Launching, ground: ProcessGround) -> Iterator[None]:
    """Have the policy's terms in force, from now on and for as long as the processes run."""
    ending = threading.Event()
    group.control()
    world = GatedWorld(group, policy, ending, ground.speed, ground.gpu_times(group.name))
    world.apply([ask_terms(policy, claims) for claims in world.snapshot()])
    thread = threading.Thread(target=control, args=(world, lambda claims: [ask_terms(policy, each) for each in claims]))
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


@contextmanager
def _started(
    experiment: SharingExperiment, job: SharedJob, group: str, folder: Path, ground: ProcessGround
) -> Iterator[subprocess.Popen[str]]:
    """Start a job's process, and tell it what to run; it is ended if anything goes wrong."""
    kinds = sorted(set(job.sequence.durations_s))
    found = ground.environment(experiment, job, kinds, group, folder)
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuyard.sharing.job_process"],
        env=_gated(experiment, job, group, found),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for us: we end it
    )
    with process:
        try:
            _tell(process, json.dumps(asdict(_order(job, kinds, experiment.seconds, ground))))
            yield process
        except BaseException:
            process.kill()
            raise


def _order(job: SharedJob, kinds: Sequence[float], seconds: float, ground: ProcessGround) -> JobOrder:
    number = {duration_s: kind for kind, duration_s in enumerate(kinds)}
    return JobOrder(
        kernels=tuple(number[each] for each in job.sequence.durations_s),
        code=ground.code(kinds, job.gpu),
        gpu=job.gpu,
        layer_ends=tuple(job.sequence.ends_of_layers) if job.layers else (),
        streams=job.streams,
        thinks_s=job.thinks_s,
        arrivals_s=job.arrivals_s,
        seconds=seconds,
        least_jobs=job.least_jobs,
        speed=ground.speed,
    )


def _gated(experiment: SharingExperiment, job: SharedJob, group: str, found: dict[str, str]) -> dict[str, str]:
    if len(experiment.jobs) == 1 and not job.gated:
        return without_terms(found)  # alone, without a gate
    return gated_environment(_terms(experiment, job, group), found)


def _terms(experiment: SharingExperiment, job: SharedJob, group: str) -> ProgramTerms:
    """What the process brings along; its level is the rank of its priority, of which a gate has so many."""
    ranks = sorted({each.priority for each in experiment.jobs})
    level = min(ranks.index(job.priority), LEVELS - 1) if job.gated else UNGATED
    return ProgramTerms(group, level, job.sync_every, job.window, job.share, job.slo_s or 0.0)


def _tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def _await_ready(process: subprocess.Popen[str], job: SharedJob) -> None:
    assert process.stdout is not None
    if process.stdout.readline() != READY + "\n":
        raise GpuyardError(f"the process of job {job.name!r} ended before it was ready; see above for why")


def _record(process: subprocess.Popen[str], job: SharedJob) -> ProcessRecord:
    assert process.stdout is not None
    shown = process.stdout.read()  # its stdin stays open: at the end of that it would take us for dead
    process.wait()
    if process.returncode:
        code = process.returncode
        raise GpuyardError(f"the process of job {job.name!r} ended with exit code {code}; see above for why")
    found = json.loads(shown)
    return ProcessRecord(job, found["rows"], found["longest_queue"])


def completions(records: Sequence[ProcessRecord]) -> pl.DataFrame:
    """One row a job done, in the order in which they ended."""
    rows = [
        {"job": each.job.name, **row, "number": number, "measured": number >= each.job.warm_up}
        for each in records
        for number, row in enumerate(each.rows)
    ]
    return pl.DataFrame(rows, COMPLETIONS.columns).sort("finish_s", maintain_order=True)


def _fact(record: ProcessRecord, end_s: float) -> SharerFacts:
    job = record.job
    return SharerFacts(
        job.name, job.gpu, job.priority, job.slo_s, len(job.sequence.durations_s), job.sequence.mean_s,
        job.sequence.source, len(record.rows) * job.sequence.total_s / (end_s or 1.0), record.longest_queue,
    )  # fmt: skip
