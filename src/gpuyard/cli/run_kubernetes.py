"""`gpuyard run --on kubernetes`: TrainingJobs of a cluster, followed like any other run."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuyard.cli.output import say
from gpuyard.cli.run_screen import RunScreen

if TYPE_CHECKING:
    from gpuyard.kube.jobs.kube_run import KubeRun
    from gpuyard.results import Run
    from gpuyard.results.reservation import Reservation
    from gpuyard.runtime.run_view import RunView

TAKEN = ("workload", "profiles")
"""Options of a simulation that mean something there: all others are the cluster's affair."""


@dataclass(frozen=True)
class KubeOptions:
    """What only a run on Kubernetes needs."""

    image: str
    template: Path | None
    checkpoints: str
    namespace: str
    kubeconfig: Path | None


def check_for_kubernetes(chosen: dict[str, Any], others: dict[str, bool]) -> None:
    """InputError for what is decided by the cluster; `others` says which further options were given."""
    from gpuyard.core.errors import InputError

    hint = "The extender of the cluster decides: 'gpuyard kube install' has --values for it"
    refused = [name for name in chosen if name not in TAKEN] + [name for name, there in others.items() if there]
    if refused:
        field = refused[0].replace("_", "-")
        raise InputError("cannot be chosen with --on kubernetes", field=field, hint=hint)
    if "workload" not in chosen:
        raise InputError("is missing", field="workload", hint="Name a workload file; 'kube submit' takes a command")


def check_elsewhere(options: KubeOptions) -> None:
    """InputError for what makes sense on Kubernetes alone."""
    from gpuyard.core.errors import InputError

    for name, given in vars(options).items():
        if given and (name, given) != ("namespace", "default"):
            raise InputError("is for --on kubernetes", field=name, value=given)


def run_on_kubernetes(
    chosen: dict[str, Any], options: KubeOptions, out: Path, state: Path | None, *, quiet: bool
) -> Run:
    """Submit all jobs, follow them to their ends, and write the run."""
    from gpuyard.results import check_writable, reserve_next
    from gpuyard.results.naming import folder_name

    check_writable(out)
    workload = Path(chosen["workload"])
    with reserve_next(out / folder_name(f"kubernetes-{workload.stem}")) as place:
        folder = state or place.target.with_name(f"{place.target.name}-state")
        return _run(workload, tuple(chosen.get("profiles", ())), options, place, folder, quiet=quiet)


def _run(
    workload_file: Path, profiles: tuple[str, ...], options: KubeOptions, place: Reservation, folder: Path, *,
    quiet: bool,
) -> Run:  # fmt: skip
    from gpuyard.cli.kube_jobs import api_of
    from gpuyard.kube.jobs.asking import GangTemplate, checkpoints_at, gang_name, pod_template
    from gpuyard.kube.jobs.kube_run import KubeRun, WantedGang
    from gpuyard.kube.jobs.run_state import begin_state, end_state, find_state, new_state
    from gpuyard.profiles import load_zoo
    from gpuyard.runtime.run_folder import run_of
    from gpuyard.traces import read_workload

    workload, zoo = read_workload(workload_file), load_zoo(profiles)
    jobs = [workload.job(number) for number in range(len(workload))]
    kept = checkpoints_at(options.checkpoints)
    common = GangTemplate(pod_template(options.image, options.template), kept, options.namespace)
    common.gangs(jobs)  # refused before anybody is asked
    names = tuple(map(gang_name, jobs))
    known = find_state(folder, options.namespace, names)
    mine = known or new_state(options.namespace, names)
    wanted = [WantedGang(job, thing) for job, thing in zip(jobs, common.gangs(jobs, mine.labels), strict=True)]
    began, cpu = time.monotonic(), time.process_time()
    with api_of(options.kubeconfig) as api:
        run = KubeRun(api, wanted, mine, (lambda _text: None) if quiet else (lambda text: say(f"note: {text}")))
        run.check(zoo)
        if known is None:
            begin_state(folder, mine)
        if not quiet:
            say(f"state: {folder}; after a crash, the same command with --state {folder} goes on from there")
            say(f"run: its TrainingJobs have the label {mine.label}")
        _follow(run, quiet=quiet)
    timing = {"cpu_seconds": time.process_time() - cpu, "wall_seconds": time.monotonic() - began}
    found = run_of(
        run.happened(), zoo, policy=run.policy, load=None, timing=timing, kind="kubernetes", source=workload.source,
        kubernetes={"run": mine.run, "namespace": mine.namespace, "jobs": list(names)},
    ).save(place)  # fmt: skip
    if run.over:
        end_state(folder)
    return found


def _follow(run: KubeRun, *, quiet: bool) -> None:
    from gpuyard.kube.jobs.kube_run import LOOK_S

    with _told_to_end(run) as (news, left), RunScreen(lambda: _answered(run.view()), quiet=quiet):
        run.step()
        while not run.over and not left.is_set():
            news.wait(LOOK_S)
            news.clear()
            run.step()


def _answered(view: RunView) -> Future[RunView]:
    found: Future[RunView] = Future()
    found.set_result(view)
    return found


@contextmanager
def _told_to_end(run: KubeRun) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Let all jobs save and leave when this process is asked to end; asked again, follow them no longer."""
    news, left = threading.Event(), threading.Event()

    def ask(_number: int, _frame: Any) -> None:
        if run.cancelled:
            left.set()
        run.cancel()
        news.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield news, left
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
