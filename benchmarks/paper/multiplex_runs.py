"""IADeep's 300 tasks under every multiplex policy, at four loads, with ten seeds: what each run comes to."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import sqrt
from pathlib import Path
from statistics import mean, stdev
from time import perf_counter

import numpy as np
import polars as pl

from benchmarks.iadeep import CLUSTER, Published
from benchmarks.paper.cases import SHARED
from gpuyard import Options, read_cluster, simulate
from gpuyard.policies.controller import control
from gpuyard.policies.decide_shared import SharedDecision, SharedSnapshot
from gpuyard.profiles import load_zoo
from gpuyard.simulation.multiplex.engine import open_shared_cluster
from gpuyard.simulation.node_order import NodeOrder
from gpuyard.simulation.opening import find_policy
from gpuyard.simulation.pool import ReportShare, run_all

AVAILABLE = (SHARED / "iadeep" / "interference_by_mix_offline.csv").is_file()
"""The published tables are not in this repository."""
OURS, COLD = "interference", "interference, nothing known"
POLICIES = (
    OURS, COLD, "placement-only", "tuning-only", "exclusive", "first-fit", "best-fit", "random", "utilisation",
    "pairwise", "iadeep", "antman", "kernelest",
)  # fmt: skip
LOADS = (1.0, 2.0, 3.0, 4.0)
SEEDS = tuple(range(1, 11))
COLD_LOAD = 2.0
"""What the published mixes are worth is asked at one load."""
ORDER = "fifo+proportional"
ROUND_S = 1.0
BIN_S = 60.0


@dataclass(frozen=True)
class Trial:
    """One run."""

    policy: str
    load: float
    seed: int


@dataclass(frozen=True)
class Outcome:
    """What a run comes to; times in seconds."""

    completion_s: tuple[float, ...]
    run_s: float
    """The mean from start to end."""
    makespan_s: float
    """From the first start to the last end."""
    measurements: tuple[int, ...]
    """Of each search for batch sizes that came to its end."""
    tuning_part: float
    """The part of the time in which tasks share a GPU for which sizes are tried."""
    busy: tuple[tuple[float, float], ...]
    """Minute by minute, the parts of the time in which processors and memory of all GPUs are busy."""

    @property
    def mean_s(self) -> float:
        """The mean completion time."""
        return mean(self.completion_s)


Outcomes = dict[Trial, Outcome]


@dataclass(frozen=True)
class Interval:
    """A mean over the seeds, and half the width of its 95 % interval."""

    mean: float
    half: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        """From one value a seed."""
        from scipy.stats import t

        return cls(mean(values), float(t.ppf(0.975, len(values) - 1)) * stdev(values) / sqrt(len(values)))

    def text(self, digits: int = 0) -> str:
        """Written as people do."""
        return f"{self.mean:,.{digits}f} ± {self.half:,.{digits}f}"


def seeds_of(outcomes: Outcomes) -> list[int]:
    """The seeds that were run."""
    return sorted({trial.seed for trial in outcomes})


def over_seeds(outcomes: Outcomes, policy: str, load: float, figure: Callable[[Outcome], float]) -> Interval:
    """A figure of a policy at a load."""
    return Interval.of([figure(outcomes[Trial(policy, load, seed)]) for seed in seeds_of(outcomes)])


def ratios(outcomes: Outcomes, policy: str, load: float, figure: Callable[[Outcome], float]) -> Interval:
    """By which factor a policy's figure is higher than ours, seed by seed."""
    return Interval.of(
        [
            figure(outcomes[Trial(policy, load, seed)]) / figure(outcomes[Trial(OURS, load, seed)])
            for seed in seeds_of(outcomes)
        ]
    )  # fmt: skip


@lru_cache(maxsize=1)
def outcomes() -> Outcomes:
    """All runs, once for the text and for its checks."""
    return run_trials(
        [
            Trial(policy, load, seed)
            for seed in SEEDS
            for load in LOADS
            for policy in POLICIES
            if policy != COLD or load == COLD_LOAD
        ]
    )


def run_trials(trials: Sequence[Trial]) -> Outcomes:
    """These runs, on all cores."""
    found: Outcomes = {}
    for ended in run_all(run_trial, trials):
        found[trials[ended.index]] = ended.result()
        if len(found) % 26 == 0:
            print(f"multiplex: {len(found)} of {len(trials)} runs", file=sys.stderr, flush=True)
    return {trial: found[trial] for trial in trials}


def run_trial(trial: Trial, _: ReportShare) -> Outcome:
    """Simulate one run: the work of one process."""
    published = Published(SHARED)
    with tempfile.TemporaryDirectory() as folder:
        profiles = published.profile_file(Path(folder) / "iadeep.yaml")
        options = options_of(trial, published.observation_file(Path(folder) / "mixes.json"))
        run = simulate(CLUSTER, published.workload(trial.load, trial.seed), ORDER, options, profiles=[profiles])
    jobs, shared, searches = run.jobs, run["shared_gpus"], run["searches"]
    length = shared["end_s"] - shared["start_s"]
    together = shared["tasks"].list.len() > 1
    return Outcome(
        tuple((jobs["finish_s"] - jobs["arrival_s"]).to_list()),
        float(np.mean((jobs["finish_s"] - jobs["start_s"]).to_numpy())),
        float(np.max(jobs["finish_s"].to_numpy()) - np.min(jobs["start_s"].to_numpy())),
        tuple(searches["measurements"].to_list()),
        float(np.sum((length * shared["tuning"]).to_numpy())) / max(float(np.sum((length * together).to_numpy())), 1.0),
        busy_by_the_minute(shared),
    )


def options_of(trial: Trial, seen: Path) -> Options:
    """IADeep's program and our policy know the published mixes; the others have no use for them."""
    name = OURS if trial.policy == COLD else trial.policy
    name = f"{name}:seed={trial.seed}" if name == "random" else name
    knows = trial.policy in (OURS, "placement-only", "iadeep")
    return Options(
        multiplex=name, round_s=ROUND_S, seed=trial.seed, timeline=False, observations=str(seen) if knows else None
    )


def busy_by_the_minute(shared: pl.DataFrame) -> tuple[tuple[float, float], ...]:
    """How busy all GPUs are on the mean, in bins of a minute."""
    gpus = read_cluster(CLUSTER).total_gpus
    edges = np.arange(0.0, float(np.max(shared["end_s"].to_numpy())) + BIN_S, BIN_S)
    start, end = shared["start_s"].to_numpy(), shared["end_s"].to_numpy()
    found = []
    for left in edges[:-1]:
        overlap = np.clip(np.minimum(end, left + BIN_S) - np.maximum(start, left), 0.0, None)
        found.append(
            tuple(float(overlap @ shared[what].to_numpy()) / (BIN_S * gpus) for what in ("compute", "bandwidth"))
        )
    return tuple((compute, bandwidth) for compute, bandwidth in found)


def decision_ms(policy: str, load: float = 2.0) -> list[float]:
    """How long each decision of a run takes to think about, in milliseconds of this machine."""
    published, times = Published(SHARED), []
    with tempfile.TemporaryDirectory() as folder:
        zoo = load_zoo([published.profile_file(Path(folder) / "iadeep.yaml")])
        options = options_of(Trial(policy, load, 1), published.observation_file(Path(folder) / "mixes.json"))
        world, decider = open_shared_cluster(
            NodeOrder(read_cluster(CLUSTER)), published.workload(load, 1), find_policy(ORDER, options),
            replace(options, policy=ORDER), zoo,
        )  # fmt: skip

    def timed(seen: SharedSnapshot) -> SharedDecision:
        began = perf_counter()
        decision = decider(seen)
        times.append((perf_counter() - began) * 1000)
        return decision

    control(world, timed)
    return times


def pooled(outcomes: Outcomes, policy: str, load: float, figure: Callable[[Outcome], Iterable[float]]) -> list[float]:
    """The values of all seeds, ascending."""
    return sorted(value for seed in seeds_of(outcomes) for value in figure(outcomes[Trial(policy, load, seed)]))
