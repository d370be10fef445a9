"""gpulet's experiments that serve: requests not answered in time at the peak rates, and while rates go up and down."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl

from benchmarks.document import draw, rows
from benchmarks.gpulet import at_index, families
from benchmarks.gpulet import rows as rows_of
from benchmarks.limits import Figure
from benchmarks.paper.cases import SHARED, Results
from benchmarks.paper.section import Study
from gpuyard.core.service import Service
from gpuyard.policies.partition.deployment import Deployment, known_models, serving_cluster
from gpuyard.policies.partition.elastic import Elastic
from gpuyard.reports.serving import over_time
from gpuyard.results import Run
from gpuyard.simulation.serving.engine import ServingOptions, simulate_serving
from gpuyard.simulation.serving.following import Replanning
from gpuyard.traces.arrivals import fluctuating, poisson, read_stamps

GPUS = "4x2080ti"
SECONDS = 60.0
SEEDS = (1, 2, 3)
TRACE = SHARED / "traces" / "azure-llm-2023" / "AzureLLMInferenceTrace_conv.csv.gz"
AVAILABLE = (SHARED / "gpulet").is_dir() and TRACE.is_file()
FLUCTUATING_S = 1800.0
STEP_S = 20.0
MEANS = {"scen1": 12, "scen2": 24}
"""Families that go up and down, and their indices on the mean."""
SHOWN = "scen2"
ONCE, FOR_MOST, AGAIN = "planned once, for the mean", "planned once, for the most", "planned again every 20 s"


@dataclass(frozen=True)
class Peak:
    """A family at the largest index that is planned for, and how its requests fared with each seed."""

    name: str
    index: int
    runs: tuple[Run, ...]

    def figure(self, name: str) -> float:
        """The median over the seeds."""
        return median(float(run.summary[name]) for run in self.runs)

    @property
    def worst(self) -> tuple[float, str]:
        """The service of which most was not answered in time, over all seeds, and how much."""
        found = pl.concat([run["services"].select("service", "requests", "violations") for run in self.runs])
        missed = found.group_by("service", maintain_order=True).agg(
            (pl.col("violations") * pl.col("requests")).sum() / pl.col("requests").sum()
        )
        top = missed.sort("violations", descending=True).row(0, named=True)
        return float(top["violations"]), str(top["service"])


def write(_: Results) -> str:
    """Two tables and a figure."""
    return f"{_at_the_peak()}\n\n{_up_and_down()}"


def _at_the_peak() -> str:
    content = [
        [
            peak.name, str(peak.index), f"{peak.figure('goodput_per_s'):,.0f}", f"{peak.figure('violations'):.2%}",
            f"{peak.figure('published_violations'):.2%}", "{1}, {0:.2%}".format(*peak.worst),
            f"{peak.figure('worst_p99_of_slo'):.0%}",
        ]
        for peak in peaks()
    ]  # fmt: skip
    heads = ["family", "peak index", "in time a second", "not in time", "as gpulet counts", "worst service"]
    told = (
        f"At the largest index that is planned for, batches as long as planned, {SECONDS:g} s of requests at random, "
        "the median of three seeds, and the worst service over all three:"
    )
    return f"{told}\n\n{rows([*heads, 'worst p99 of its SLO'], content)}"


def _up_and_down() -> str:
    content = [
        [
            family, name, f"{run.summary['goodput_per_s']:,.0f}", f"{run.summary['violations']:.2%}",
            f"{run.summary['gpus_in_use']:.2f}", f"{run.summary['gpu_share_in_use']:.2f}", str(run.info["deployments"]),
        ]
        for (family, name), run in fluctuations().items()
    ]  # fmt: skip
    heads = ["family", "slices", "in time a second", "not in time", "GPUs in use", "sum of slices", "deployments"]
    title = f"Slices follow the rates of {SHOWN}: requests, those not in time, and GPUs in use over half an hour"
    figure = draw(over_time(fluctuations()[SHOWN, AGAIN]), "serving-fluctuation", title)
    means = " and ".join(f"{family} at index {index}" for family, index in MEANS.items())
    told = (
        f"Half an hour of {means} on the mean, at rates that go as those of Azure's LLM trace of 2023, one every 20 s:"
    )
    return f"{told}\n\n{figure}\n\n{rows(heads, content)}"


@lru_cache(maxsize=1)
def peaks() -> tuple[Peak, ...]:
    """Planned and served once for the text and for its checks."""
    return tuple(_peak(name, services) for name, services in families(SHARED).items())


def _peak(name: str, services: list[Service]) -> Peak:
    """A plan for some rates is one for lower rates: the largest index is found by halving."""
    low, high = 0, 1
    while not planned(at_index(services, high)).plan.unserved:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if planned(at_index(services, middle)).plan.unserved else (middle, high)
    deployment = planned(at_index(services, low))
    rates = {each.service_id: each.rate_per_s for each in deployment.services}
    options = ServingOptions(buffer=deployment.buffer, seconds=SECONDS)
    runs = [simulate_serving(deployment, poisson(rates, SECONDS, seed), options) for seed in SEEDS]
    return Peak(name, low, tuple(runs))


def planned(services: list[Service]) -> Deployment:
    """Our planner's slices for them."""
    cluster = serving_cluster(GPUS)
    return Deployment(tuple(services), cluster, Elastic().plan(services, cluster, known_models(cluster)))


@lru_cache(maxsize=1)
def fluctuations() -> dict[tuple[str, str], Run]:
    """Each family served by one plan for its mean, by one for its highest rates, and by plans that follow the rates."""
    found: dict[tuple[str, str], Run] = {}
    once, following = (
        ServingOptions(seconds=FLUCTUATING_S, replanning=each) for each in (None, Replanning(Elastic()))
    )  # fmt: skip
    for family, index in MEANS.items():
        services, course = families(SHARED)[family], azure_course()
        mean, most = planned(at_index(services, index)), planned(_scaled(services, index * max(course)))
        rates = {each.service_id: each.rate_per_s for each in mean.services}
        arrivals = fluctuating(dict.fromkeys(rates, course), FLUCTUATING_S, 1, step_s=STEP_S, means=rates)
        once, following = (
            ServingOptions(seconds=FLUCTUATING_S, replanning=each) for each in (None, Replanning(Elastic()))
        )
        ways = {ONCE: (mean, once), FOR_MOST: (most, once), AGAIN: (mean, following)}
        found |= {(family, name): simulate_serving(plan, arrivals, how) for name, (plan, how) in ways.items()}
    return found


def _scaled(services: list[Service], factor: float) -> list[Service]:
    return [replace(each, rate_per_s=each.rate_per_s * factor) for each in services]


def azure_course(trace: Path = TRACE) -> list[float]:
    """Rates over half an hour, 1 on the mean: one round of the trace."""
    counts = np.histogram(read_stamps(trace).times_s, round(FLUCTUATING_S / STEP_S))[0]
    course: list[float] = (counts / counts.mean()).tolist()
    return course


def checks(_: Results) -> list[Figure]:
    """Hardly anything is late at the peaks, and following the rates pays."""
    missed = {peak.name: peak.figure("violations") for peak in peaks()}
    runs = fluctuations()
    changing = [
        Figure(f"serving: {family} while rates change, {name}: not in time", run.summary["violations"] * 100, "%",
               most=2 if name == AGAIN else None)
        for (family, name), run in runs.items()
    ]  # fmt: skip
    saved = min(
        runs[family, FOR_MOST].summary["gpus_in_use"] / runs[family, AGAIN].summary["gpus_in_use"] for family in MEANS
    )
    return [
        Figure("serving: most that is not in time at a peak", max(missed.values()) * 100, "%", most=1),
        Figure("serving: the same of one service", max(peak.worst[0] for peak in peaks()) * 100, "%", most=1),
        Figure("serving: peaks below the index that gpulet claims", len(_behind()), most=0),
        Figure("serving: late at the peaks", sum(peak.figure("late") for peak in peaks()), most=0),
        *changing,
        Figure("serving: GPUs planned for the most over those of plans that follow", saved, "x", least=1.0),
    ]


def _behind() -> list[str]:
    theirs = {row["family"]: int(row["peak_index"]) for row in rows_of(SHARED, "baseline_peak_index.csv")
              if row["config"] == "gpulet-int"}  # fmt: skip
    return [peak.name for peak in peaks() if peak.index < theirs[peak.name]]


STUDY = Study("serving", (), write, checks)
