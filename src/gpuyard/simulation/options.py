"""All that a user can choose about a simulation: one value for the command line, sweep files, Python and the engine.

A field has the name of its option on the command line and in sweep files; if it ends in `_s`, for seconds, they leave
that out, because there a time may have any unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from gpuyard.core.errors import InputError, nearest
from gpuyard.simulation.failure_file import Failure

if TYPE_CHECKING:  # imported when options are checked: `gpuyard simulate --help` needs no rules
    from gpuyard.simulation import option_values as values

# ruff: noqa: RUF009 - _option is field() with less to write

__all__ = ["DEFAULT_CLUSTER", "DEFAULT_JOBS", "DEFAULT_LOAD", "DEFAULT_WINDOW", "Failure", "Options", "make_options"]

DEFAULT_CLUSTER = "16x8:cpus=24,memory=500GB"
"""The 128 GPUs of Synergy's main experiment."""

NO_SHARING = "none"

DEFAULT_LOAD = 9.0
DEFAULT_JOBS = 8000
DEFAULT_WINDOW = (4000, 5000)
"""Of the made jobs these are measured: the cluster is full before and after."""

SAID_BY_A_SNAPSHOT = (
    "workload", "cluster", "load", "split", "jobs", "window", "multi_gpu", "small", "arrivals", "static", "gpus",
    "between", "tenant", "skip_infeasible", "recorded_on", "faithful", "restart_cost", "migration_cost",
    "failures", "failure_rate", "quota",
)  # fmt: skip
"""What is there, and what holds there: options that contradict a snapshot."""

PUBLISHED_STARVATION_S = 1000 * 3600.0
"""In the original a job that has waited this long goes first."""


def _option(default: Any, metavar: str, help: str, *, many: bool = False) -> Any:
    """Declare a field with what the command line says about it; a flag has its spelling as metavar."""
    metadata = {"metavar": metavar, "help": help, "many": many}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Options:
    """What is simulated and how; the defaults are Synergy's main experiment on the corrected simulator."""

    workload: str | None = _option(None, "FILE", "Trace file; without it a Philly-like workload is made.")
    cluster: str = _option(DEFAULT_CLUSTER, "FILE|SHORT", "Cluster file, or as in 16x8:cpus=24,memory=500GB.")
    snapshot: str | None = _option(
        None, "FILE", "Go on from this snapshot of any world, which says which nodes and jobs there are."
    )
    unknown_duration_s: values.UnknownDuration = _option(
        None, "TIME", "With --snapshot: how long jobs go on of which nobody knows how much work they are."
    )
    until_s: values.Horizon = _option(None, "TIME", "End after so much time, whoever still runs. [when all are done]")
    policy: values.Name = _option(
        "fifo+tune", "POLICY", "ORDER+ALLOCATE, or path/to/file.py:Name; repeat for several. [fifo+tune]", many=True
    )
    load: values.PositiveRate | None = _option(None, "RATE", "Jobs an hour to make; repeat for several. [9]", many=True)
    split: values.TaskSplit = _option(
        (20.0, 70.0, 10.0), "A,B,C", "Percent of image, language and speech jobs. [20,70,10]"
    )
    seed: values.Seed = _option(42, "N", "Of everything that is drawn. [42]")
    jobs: values.JobCount | None = _option(
        None, "N", "How many jobs to make, or to read at most; without --window all of them count. [8000]"
    )
    window: values.JobWindow = _option(
        None,
        "FIRST:LAST",
        "Jobs whose times count, as in 4000:5000, or all. Made jobs go on arriving until these have finished. "
        "[4000:5000 of the made workload]",
    )
    multi_gpu: bool | None = _option(None, "--multi-gpu/--single-gpu", "Jobs of several GPUs, or one GPU each.")
    small: bool = _option(False, "--small", "Make shorter jobs: half an hour to eight hours.")
    arrivals: values.WorkloadArrivals | None = _option(
        None, "HOW", "exponential (drawn), trace (as recorded) or static (at once)."
    )
    static: bool = _option(False, "--static", "All jobs are there at the start.")
    gpus: values.GpuCounts = _option(None, "MIN:MAX", "Only jobs of so many GPUs.")
    between_s: values.Times = _option(
        None, "FROM:UNTIL", "Only jobs that arrive in this time, as in 2d:9d; the clock starts with it."
    )
    tenant: values.Texts = _option((), "NAME", "Only jobs of this tenant; repeat for several.", many=True)
    skip_infeasible: bool = _option(False, "--skip-infeasible", "Leave out jobs that the cluster can never run.")
    profiles: values.Texts = _option((), "FILE", "Profiles of your own models; repeat for several.", many=True)
    recorded_on: str | None = _option(None, "GPU_TYPE", "The GPUs on which recorded durations were measured.")
    placement: str | None = _option(None, "NAME", "first-fit, consolidating or best-fit.")
    multiplex: values.Name = _option(
        NO_SHARING,
        "NAME",
        "Jobs of one GPU share GPUs: interference, or another multiplex policy; none: they do not. [none]",
    )
    observations: str | None = _option(
        None, "FILE", "With --multiplex: what has been measured of jobs that share a GPU, for the policy to know."
    )
    faithful: bool = _option(False, "--faithful", "As the original program does it, faults and all.")
    starvation_s: values.StarvationLimit = _option(
        None, "none|TIME", "A job that has waited so long goes first. [none; 1000h with --faithful]"
    )
    round_s: values.RoundSeconds = _option(300.0, "TIME", "Time between two decisions. [5m]")
    start_cost_s: values.Seconds = _option(0.0, "TIME", "Time lost when a job starts for the first time. [0]")
    restart_cost_s: values.Seconds = _option(
        0.0, "TIME", "Time lost when a job starts again after a preemption or failure. [0]"
    )
    migration_cost_s: values.Seconds = _option(0.0, "TIME", "Time lost when a job moves. [0]")
    checkpoint_every_s: values.PositiveSeconds = _option(1800.0, "TIME", "Time between two checkpoints. [30m]")
    checkpoint_cost_s: values.Seconds = _option(0.0, "TIME", "Time a checkpoint takes. [0]")
    failures: values.Failures = _option((), "FILE", "CSV of node failures: node,at,down.")
    failure_rate: values.FailureRate = _option(0.0, "RATE", "Failures per node and year, drawn. [0]")
    repair_time_s: values.PositiveSeconds = _option(4 * 3600.0, "TIME", "Mean time until a failed node is back. [4h]")
    quota: values.Quota = _option({}, "TENANT=GPUS", "Most GPUs a tenant may hold; repeat for several.", many=True)
    opt_time_limit_s: values.PositiveSeconds = _option(2.0, "TIME", "Time the solver may take for one decision. [2s]")
    timeline: bool = _option(True, "--timeline/--no-timeline", "Record who held which GPU when.")
    skip: bool = True
    """Jump over rounds in which no decision can change. Off only to prove that it changes nothing."""

    def __post_init__(self) -> None:
        from gpuyard.simulation.option_values import checked

        if cast("Any", self.window) == "all":
            self._set("window", None)
            self._set("jobs", self.jobs or (DEFAULT_JOBS if self.workload is None else None))
        for one in fields(self):
            self._set(one.name, checked(Options, one.name, getattr(self, one.name)))
        if self.static and self.arrivals not in (None, "static"):
            raise InputError("contradicts static, by which all jobs are there at the start", field="arrivals",
                             value=self.arrivals, hint="Keep one of the two")  # fmt: skip
        if self.arrivals == "static":
            self._set("static", True)
        self._check_sharing()
        if self.unknown_duration_s is not None and self.snapshot is None:
            raise InputError("is for jobs of a snapshot, and none is named", field="unknown_duration",
                             value=self.unknown_duration_s, hint="Name one with --snapshot")  # fmt: skip
        if self.faithful and self.starvation_s is None:
            self._set("starvation_s", PUBLISHED_STARVATION_S)

    def _check_sharing(self) -> None:
        if self.multiplex == NO_SHARING:
            if self.observations is not None:
                raise InputError("are for a multiplex policy, and none is named", field="observations",
                                 value=self.observations, hint="Name one with --multiplex")  # fmt: skip
        elif self.faithful:
            raise InputError("contradicts multiplex: the original shares no GPUs", field="faithful", value=True)

    @property
    def shares_gpus(self) -> bool:
        """Whether a multiplex policy puts several jobs on one GPU."""
        return self.multiplex != NO_SHARING

    def as_inputs(self) -> dict[str, Any]:
        """Return all fields as a run keeps them; those about sharing or snapshots only where they matter."""
        left_out = {name for name in ("snapshot", "unknown_duration_s", "until_s") if getattr(self, name) is None}
        left_out |= set() if self.shares_gpus else {"multiplex", "observations"}
        return {name: value for name, value in asdict(self).items() if name not in left_out}

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def differing(self) -> dict[str, Any]:
        """Return what is not at its default, under the names of the command line."""
        default = Options()
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return {spelled(name): value for name, value in found.items() if value != getattr(default, name)}


def refuse_beside_snapshot(name: str, value: Any) -> None:
    """Refuse an option, by its name on the command line, about what a snapshot says."""
    if name in SAID_BY_A_SNAPSHOT:
        raise InputError("contradicts snapshot, which says what is there and what holds there", field=name,
                         value=value, hint="Leave it out")  # fmt: skip


def spelled(name: str) -> str:
    """Return how sweep files write a field, and the command line with dashes: without the unit."""
    return name.removesuffix("_s")


@cache
def option_fields() -> dict[str, str]:
    """Return the fields that users may set from outside Python, by the names they have there."""
    return {spelled(one.name): one.name for one in fields(Options) if one.metadata}


def make_options(given: Mapping[str, Any], *, file: object = None) -> Options:
    """Return the options of a command line or file; InputError names file, field, value and rule."""
    known = option_fields()
    for name in given:
        if name not in known:
            raise InputError("is not a setting", file=file, value=name, hint=nearest(str(name), known))
    try:
        for name, value in given.items() if given.get("snapshot") is not None else ():
            if value is not None:  # though it says what the default is
                refuse_beside_snapshot(name, value)
        return Options(**{known[name]: value for name, value in given.items()})
    except InputError as error:
        if file is None or error.file is not None:
            raise
        raise error.located(file) from None
