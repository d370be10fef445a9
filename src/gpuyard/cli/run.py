"""`gpuyard run`."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuyard.cli.kube_parts import Kubeconfig
from gpuyard.cli.output import Format, emit, say
from gpuyard.cli.run_kubernetes import KubeOptions, check_elsewhere, check_for_kubernetes, run_on_kubernetes
from gpuyard.cli.run_screen import RunScreen
from gpuyard.cli.simulate import COLUMNS
from gpuyard.cli.simulation_options import given, with_simulation_options

if TYPE_CHECKING:
    from gpuyard.core.cluster import Cluster
    from gpuyard.policies.policy import Policy
    from gpuyard.profiles import Zoo
    from gpuyard.results import Run
    from gpuyard.runtime.fleet import AgentFleet
    from gpuyard.runtime.machine_gpus import MachineGpu
    from gpuyard.runtime.new_jobs import NewJob
    from gpuyard.runtime.real_cluster import RealCluster
    from gpuyard.runtime.scheduler import JobSharing, Scheduler
    from gpuyard.simulation.options import Options

SIMULATED_ONLY = (
    *(
        "faithful",
        "snapshot",
        "unknown_duration",
        "until",
        "failures",
        "failure_rate",
        "repair_time",
        "window",
        "timeline",
        "opt_time_limit",
    ),
    "start_cost",
)
"""Options of a simulation that real jobs have no use for."""
TRIES, LEAVE_S = 3, 30.0
BEATS_A_ROUND = 20
SHORTEST_BEAT_S, LONGEST_BEAT_S = 0.05, 1.0
SHORTEST_LEASE_S = 60.0
RAYS_CLUSTER = "cluster"
"""File of a state folder: the nodes as Ray stated them when the run began."""


class Where(StrEnum):
    """Which machines a run has."""

    local = "local"
    ray = "ray"
    kubernetes = "kubernetes"


class RunWorld(StrEnum):
    """Which GPUs a run has."""

    emulated = "emulated"
    gpu = "gpu"


@with_simulation_options
def run(
    *,
    jobs_file: Annotated[Path | None, typer.Argument(metavar="[WORKLOAD]", help="As --workload.")] = None,
    speed: Annotated[float, typer.Option(metavar="X", min=1e-3, help="Emulated seconds in a second.")] = 1.0,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the run folder.")] = Path("runs"),
    state: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the run keeps what it must not lose. [OUT/RUN-state]")
    ] = None,
    on: Annotated[
        Where, typer.Option(help="Which machines: this one, the nodes of a Ray cluster, or a cluster with gpuyard.")
    ] = Where.local,
    world: Annotated[
        RunWorld, typer.Option(help="Emulated GPUs, or this machine's own (gpu), for jobs with commands.")
    ] = RunWorld.emulated,
    control_group: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="A control group of yours: holds jobs to memory and CPU time. Repeatable."),
    ] = None,
    tries: Annotated[int, typer.Option(min=1, help="Attempts without a step until a job is given up.")] = TRIES,
    leave: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="Time to save and leave.")] = LEAVE_S,
    image: Annotated[str, typer.Option(metavar="IMAGE", help="On Kubernetes: the image of each pod.")] = "",
    template: Annotated[
        Path | None, typer.Option(metavar="FILE", help="On Kubernetes: a template of pods, as in a Deployment; YAML.")
    ] = None,
    checkpoints: Annotated[
        str,
        typer.Option(metavar="CLAIM|/FOLDER", help="On Kubernetes: a volume claim, or a folder of every node."),
    ] = "",
    namespace: Annotated[str, typer.Option(metavar="NAME", help="On Kubernetes: where the jobs are.")] = "default",
    kubeconfig: Kubeconfig = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no notes.")] = False,
    format: Annotated[Format, typer.Option(help="How to print the result.")] = Format.table,
    **values: Any,
) -> None:
    """Run a workload with real processes, on emulated GPUs or real ones, under the policies of the simulator.

    Takes what simulate takes. Jobs name their command, or only a model, which then is emulated. Without a workload it
    waits for jobs that are submitted. Ctrl-C lets all jobs save and leave; with the same --state it goes on from there.
    On Kubernetes, jobs are TrainingJobs of a cluster, whose gpuyard decides, and Ctrl-C cancels them.
    """
    from gpuyard.core.errors import InputError
    from gpuyard.results import check_writable, reserve_next
    from gpuyard.runtime.control_groups import CPU_TIME, MEMORY, check_control_groups
    from gpuyard.runtime.run_view import view_of
    from gpuyard.simulation.compiling import load_kernels
    from gpuyard.simulation.options import NO_SHARING
    from gpuyard.simulation.study import run_name

    chosen = given(values)
    there = KubeOptions(image, template, checkpoints, namespace, kubeconfig)
    if on is Where.kubernetes:
        others = {"speed": speed != 1.0, "world": world is RunWorld.gpu, "control_group": bool(control_group)}
        others |= {"tries": tries != TRIES, "leave": leave != LEAVE_S}
        chosen |= {} if jobs_file is None else {"workload": str(jobs_file)}
        check_for_kubernetes(chosen, others)
        _show(run_on_kubernetes(chosen, there, out, state, quiet=quiet), format, quiet=quiet)
        return
    check_elsewhere(there)
    if world is RunWorld.gpu and chosen.get("multiplex", NO_SHARING) != NO_SHARING:
        rule = "is for emulated GPUs, which hold each job to its memory"
        raise InputError(rule, field="multiplex", value=chosen["multiplex"], hint="Leave --world gpu away")
    own = _gpus_of_machine(chosen, speed, on) if world is RunWorld.gpu else []
    if on is Where.ray and "cluster" not in chosen:
        chosen["cluster"] = _cluster_of_ray(state)
    held = check_control_groups(control_group or [])
    inputs = _inputs(chosen, jobs_file, own)
    check_writable(out)
    load_kernels(inputs.policy)  # now, as no decision may wait for a compiler once the run's clock goes
    name = f"real-{run_name(inputs.options)}"
    began, cpu = time.monotonic(), time.process_time()
    with redirect_stdout(sys.stderr), reserve_next(out / name) as place:  # Ray prints what it thinks of lost nodes
        folder = state or out / f"{place.target.name}-state"
        scheduler = _scheduler(inputs, folder, speed, tries, leave, on, control_group or [])
        if not quiet:
            if on is Where.local and not scheduler.cpus:
                say("note: the nodes state more CPUs than this machine has: jobs are not held to theirs")
            missing = {MEMORY, CPU_TIME} - held if control_group else {MEMORY}
            for what in missing:
                say(f"note: jobs are not held to their {what}: --control-group DIR would")
            say(f"state: {folder}; after a crash, the same command with --state {folder} goes on from there")
        cluster = scheduler.world
        with _ending_when_told(cluster):  # until the run is written, too
            with RunScreen(lambda: cluster.ask(lambda now: view_of(cluster, now)), quiet=quiet):
                scheduler.run()
            timing = {"cpu_seconds": time.process_time() - cpu, "wall_seconds": time.monotonic() - began}
            found = _made(inputs, scheduler, timing).save(place)
        scheduler.written()
        scheduler.close()
    _show(found, format, quiet=quiet)


def _show(found: Run, format: Format, *, quiet: bool) -> None:
    """Print what became of a run."""
    emit([found.summary | {"world": found.world}], format, columns=COLUMNS if format == Format.table else None)
    if format == Format.table and not quiet:
        say(f"run: {found.path}")
    for note in found.info["notes"] if not quiet else ():
        say(f"note: {note}")
    if not found.info["complete"]:
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Inputs:
    """What is run; no jobs, but those that are submitted, if no workload is named."""

    cluster: Cluster
    policy: Policy
    zoo: Zoo
    options: Options
    load: float | None
    jobs: list[NewJob]
    source: str
    gpus: dict[str, list[str]]
    """By node, what CUDA calls its real GPUs; none: they are emulated."""

    @property
    def policy_name(self) -> str:
        """With the multiplex policy, as a simulation names it."""
        from gpuyard.policies.resolve import label

        shares = self.options.shares_gpus
        return f"{self.policy.name}+{label(self.options.multiplex)}" if shares else self.policy.name

    @property
    def world(self) -> RunWorld:
        """Which GPUs those are."""
        return RunWorld.gpu if self.gpus else RunWorld.emulated


def _gpus_of_machine(chosen: dict[str, Any], speed: float, on: Where) -> list[MachineGpu]:
    """This machine's GPUs, which are the cluster if none is stated."""
    from gpuyard.core.errors import InputError
    from gpuyard.runtime.machine_gpus import cluster_of_machine, gpus_of_machine

    if speed != 1:
        raise InputError("must be 1 in the gpu world: only emulated GPUs have a speed", field="speed", value=speed)
    if on is Where.ray:
        raise InputError("is for this machine only", field="world", value="gpu", hint="Leave --on away")
    found = gpus_of_machine()
    chosen.setdefault("cluster", cluster_of_machine(found))
    return found


def _inputs(chosen: dict[str, Any], jobs_file: Path | None, there: list[MachineGpu]) -> _Inputs:
    from gpuyard import traces
    from gpuyard.core.errors import InputError
    from gpuyard.profiles import load_zoo
    from gpuyard.runtime.machine_gpus import gpus_of_nodes
    from gpuyard.runtime.new_jobs import NewJob, words
    from gpuyard.simulation.opening import find_policy
    from gpuyard.simulation.options import make_options
    from gpuyard.simulation.study import prepare

    for name in SIMULATED_ONLY:
        if name in chosen:
            raise InputError("is for simulations only", field=name.replace("_", "-"), value=chosen[name])
    if jobs_file is not None:
        chosen["workload"] = str(jobs_file)
    policies, loads = chosen.pop("policy", ["fifo+tune"]), chosen.pop("load", [None])
    if len(policies) > 1 or len(loads) > 1:
        rule = "one run has one policy and one load"
        raise InputError(rule, field="policy", value=", ".join(policies), hint="'gpuyard simulate' takes several")
    options = make_options(chosen | {"policy": policies[0], "load": loads[0]})
    makes_jobs = options.workload is not None or options.jobs is not None
    if not makes_jobs:
        zoo = load_zoo(options.profiles)
        cluster = traces.read_cluster(options.cluster)
        gpus = gpus_of_nodes(cluster, there) if there else {}
        return _Inputs(cluster, find_policy(options.policy, options), zoo, options, None, [], "submitted", gpus)
    study = prepare(options)
    here = str(Path.cwd())
    jobs = [NewJob(study.workload.job(number), here) for number in range(len(study.workload))]
    for new in jobs:
        words(new.job, needed=bool(there))  # refused before anything is written
    gpus, source = gpus_of_nodes(study.cluster, there) if there else {}, study.workload.source
    return _Inputs(study.cluster, study.policy, study.zoo, study.options, study.load, jobs, source, gpus)


def _scheduler(
    inputs: _Inputs, folder: Path, speed: float, tries: int, leave_s: float, on: Where, groups: list[Path]
) -> Scheduler:
    from gpuyard.runtime.real_cluster import RunRules
    from gpuyard.runtime.scheduler import RunSettings, Scheduler
    from gpuyard.runtime.settling import Patience

    options = inputs.options
    sharing = _sharing(inputs)
    round_s = options.round_s / speed
    rules = RunRules(
        options.round_s, tuple(options.quota.items()), options.restart_cost_s, options.migration_cost_s,
        options.recorded_on, serves=not inputs.jobs, commands_only=inputs.world is RunWorld.gpu,
    )  # fmt: skip
    beat_s = min(max(round_s / BEATS_A_ROUND, SHORTEST_BEAT_S), LONGEST_BEAT_S)
    settings = RunSettings(
        folder, speed, options.checkpoint_every_s, max(SHORTEST_LEASE_S, 2 * round_s), rules,
        Patience(beat_s, leave_s, tries=tries), {"policy": inputs.policy_name, "world": inputs.world.value},
        control_groups=tuple(str(group.resolve()) for group in groups), gpus=inputs.gpus,
    )  # fmt: skip
    fleet = _fleet_of_ray(inputs.cluster, folder) if on is Where.ray else None
    scheduler = Scheduler(inputs.cluster, inputs.policy, inputs.zoo, settings, fleet, sharing)
    scheduler.take(inputs.jobs)
    if on is Where.ray:
        (folder / RAYS_CLUSTER).write_text(options.cluster)
    return scheduler


def _sharing(inputs: _Inputs) -> JobSharing | None:
    """The multiplex policy, if one is named; InputError for one that real jobs have no use for."""
    from gpuyard.core.errors import InputError
    from gpuyard.policies.decide_shared import SharedDecider
    from gpuyard.policies.registry import MULTIPLEXERS
    from gpuyard.runtime.scheduler import JobSharing
    from gpuyard.simulation.multiplex.engine import known_before

    options = inputs.options
    if not options.shares_gpus:
        return None
    multiplex = MULTIPLEXERS.find(options.multiplex)
    if getattr(multiplex, "tunes_as_published", False):
        rule = "is for simulations only: its tuner is IADeep's, which gpuyard's jobs do not speak with"
        raise InputError(rule, field="multiplex", value=options.multiplex, hint="Name kernelest, which places alike")
    SharedDecider(inputs.policy, multiplex, inputs.zoo)  # refuses an allocation that shares nothing
    return JobSharing(options.multiplex, multiplex, known_before(options))


def _cluster_of_ray(state: Path | None) -> str:
    """The cluster as Ray states it, or as it did when this run began."""
    from gpuyard.runtime.ray_fleet import cluster_of_ray, connect

    kept = state / RAYS_CLUSTER if state is not None else None
    if kept is not None and kept.exists():
        return kept.read_text()
    return cluster_of_ray(connect())


def _fleet_of_ray(cluster: Cluster, state: Path) -> AgentFleet:
    from gpuyard.runtime.ray_fleet import RayFleet, connect

    state.mkdir(parents=True, exist_ok=True)
    return RayFleet(connect(), cluster, state)


@contextmanager
def _ending_when_told(world: RealCluster) -> Iterator[None]:
    """Let all jobs save and leave when this process is asked to end."""

    def ask(_number: int, _frame: Any) -> None:
        world.post(lambda _now: world.end())

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _made(inputs: _Inputs, scheduler: Scheduler, timing: dict[str, float]) -> Run:
    from gpuyard.runtime.run_folder import make_run

    return make_run(
        scheduler.world, inputs.zoo, policy=inputs.policy_name, load=inputs.load, timing=timing,
        shares=inputs.options.shares_gpus,
        source=inputs.source, seed=inputs.options.seed, options=asdict(inputs.options), kind=inputs.world.value,
    )  # fmt: skip
