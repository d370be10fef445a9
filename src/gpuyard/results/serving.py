"""The figures of a run that served requests: who was answered in time, how fast, and on how much of the GPUs.

Figures with `published` in their names follow gpulet's own scripts, to be compared with its results: they leave out the
first second and the first 200 requests (100 of fewer than 200), and its mean leaves out the slowest request. All others
are over all requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from gpuyard.core.arrays import Floats
from gpuyard.core.service import Service

OUTCOMES = ("served", "late", "dropped", "refused")
"""What becomes of a request: answered in time, answered too late, given up while it waited, turned away at once."""
_PERCENTILES = {"p50_ms": 50, "p90_ms": 90, "p99_ms": 99}
_LEFT_OUT, _OF_FEW = 200, 100


class StageFigures(NamedTuple):
    """What stages were asked: a row for each time, and the services that they are."""

    requests: pl.DataFrame
    services: Sequence[Service]


def summarise_serving(
    requests: pl.DataFrame,
    slices: pl.DataFrame,
    services: Sequence[Service],
    seconds: float,
    stages: StageFigures | None = None,
) -> tuple[dict[str, Any], pl.DataFrame]:
    """Sum up a run in which requests came for so many seconds: its figures, and the table of services.

    `services` are those that requests from outside were for, applications among them; `stages` add rows to the table
    and nothing to the figures of the run, where a request of an application counts once.
    """
    outside = pl.DataFrame([_service(requests, each, seconds) for each in services])
    counts = {name: int(outside[name].sum()) for name in ("requests", *OUTCOMES)}
    of_slo = (outside["p99_ms"] / outside["slo_ms"]).max()
    batches = int(slices["batches_run"].sum())
    table = outside if stages is None else _with_stages(outside, requests, stages, seconds)
    return {
        **counts,
        "violations": _violations(requests),
        "goodput_per_s": counts["served"] / seconds if seconds else None,
        "throughput_per_s": (counts["served"] + counts["late"]) / seconds if seconds else None,
        **_latency(requests),
        "worst_p99_of_slo": of_slo,
        "mean_batch": int(slices["requests"].sum()) / batches if batches else None,
        **_use(slices),
        **_published(requests),
    }, table  # fmt: skip


def _with_stages(
    outside: pl.DataFrame, requests: pl.DataFrame, stages: StageFigures, seconds: float
) -> pl.DataFrame:  # fmt: skip
    """The table of services with the stages at its end; those that were asked from outside as well stand there once."""
    every = pl.concat([requests, stages.requests.select(requests.columns)])
    inside = pl.DataFrame([_service(every, each, seconds) for each in stages.services], schema=outside.schema)
    return outside.join(inside, on="service", how="anti", maintain_order="left").vstack(inside)


def latencies_ms(requests: pl.DataFrame) -> Floats:
    """From arrival to answer, of all that were answered."""
    taken = (requests["finish_s"] - requests["arrival_s"]).drop_nulls()
    return np.asarray(taken.to_numpy() * 1000.0, dtype=np.float64)


def nearest_rank(values: Floats, percent: float) -> float | None:
    """The smallest value that so many percent of all are not above; None without any."""
    if not len(values):
        return None
    rank = max(ceil(len(values) * percent / 100.0), 1) - 1
    return float(np.partition(values, rank)[rank])


def _service(requests: pl.DataFrame, service: Service, seconds: float) -> dict[str, Any]:
    own = requests.filter(pl.col("service") == str(service.service_id))
    counts = {name: _count(own, name) for name in OUTCOMES}
    return {
        "service": str(service.service_id), "model": service.model, "planned_rate": service.rate_per_s,
        "requests": own.height, **counts,
        "goodput_per_s": counts["served"] / seconds if seconds else None,
        "violations": _violations(own),
        **_latency(own),
        "slo_ms": float(service.slo_ms),
    }  # fmt: skip


def _count(requests: pl.DataFrame, outcome: str) -> int:
    return requests.filter(pl.col("outcome") == outcome).height


def _latency(requests: pl.DataFrame) -> dict[str, float | None]:
    found = latencies_ms(requests)
    percentiles = {name: nearest_rank(found, percent) for name, percent in _PERCENTILES.items()}
    extremes = (float(found.mean()), float(found.max())) if len(found) else (None, None)
    return {"mean_ms": extremes[0], **percentiles, "max_ms": extremes[1]}


def _violations(requests: pl.DataFrame) -> float | None:
    """The share of requests that were not answered in time."""
    return 1.0 - _count(requests, "served") / requests.height if requests.height else None


def _use(slices: pl.DataFrame) -> dict[str, float | None]:
    """Means over time: GPUs with a slice that serves, the sum of these slices, and how much of it was busy."""
    serving = slices.filter(pl.col("services").list.len() > 0)
    end_s = float(serving["end_s"].max() or 0.0)  # type: ignore[arg-type]
    if not end_s:
        return dict.fromkeys(("gpus_in_use", "gpu_share_in_use", "busy"))
    lasted = serving["end_s"] - serving["start_s"]
    share = float((lasted * serving["share"]).sum())
    return {
        "gpus_in_use": gpus_in_use_s(serving) / end_s,
        "gpu_share_in_use": share / end_s,
        "busy": float((serving["busy_s"] * serving["share"]).sum()) / share if share else None,
    }


def gpus_in_use_s(slices: pl.DataFrame) -> float:
    """GPU seconds in which a GPU had at least one slice that served."""
    total = 0.0
    for _, spans in slices.sort("start_s").group_by("gpu", maintain_order=True):
        until = 0.0
        for start, end in spans.select("start_s", "end_s").iter_rows():
            total += max(end - max(start, until), 0.0)
            until = max(until, end)
    return total


def _published(requests: pl.DataFrame) -> dict[str, float | None]:
    counted = requests[_LEFT_OUT if requests.height >= _LEFT_OUT else _OF_FEW :].filter(pl.col("arrival_s") >= 1.0)
    found, ended = latencies_ms(counted), counted["finish_s"].drop_nulls().to_numpy()
    lasted = float(ended.max() - ended.min()) if len(ended) > 1 else 0.0
    return {
        "published_violations": _violations(counted),
        "published_throughput_per_s": (len(ended) - 1) / lasted if lasted else None,
        "published_mean_ms": float(np.sort(found)[:-1].mean()) if len(found) > 1 else None,
        "published_p99_ms": nearest_rank(found, 99),
    }
