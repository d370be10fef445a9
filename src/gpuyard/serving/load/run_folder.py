"""A load as a run folder, which `gpuyard report` and `gpuyard compare` read."""

from __future__ import annotations

import platform
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuyard._version import __version__
from gpuyard.core.service import Service
from gpuyard.serving.load.figures import outcomes
from gpuyard.serving.load.log import ANSWERED, NoStatus
from gpuyard.serving.load.run import LoadResult

SMALLEST_RATE = 1e-9
"""Of a model whose requests are not by a rate."""

if TYPE_CHECKING:
    import polars as pl

    from gpuyard.results import Reservation, Run


def save_load(result: LoadResult, place: Reservation, inputs: dict[str, Any]) -> Run:
    """Write the run folder; `inputs` is what the requests were made from."""
    import polars as pl

    from gpuyard.results import TABLES, Run, summarise_serving

    requests = requests_table(result)
    slices = pl.DataFrame(schema=TABLES["slices"].columns)  # a client sees none
    figures, services = summarise_serving(requests, slices, _services(result), result.duration_s)
    info = {
        "world": "client",
        "version": __version__,
        "server": str(result.target),
        "services": [asdict(each) for each in result.asked],
        "seconds": result.seconds,
        "interrupted": result.interrupted,
        **inputs,
        "machine": {"python": platform.python_version(), "system": platform.platform()},
    }
    tables = {"requests": requests, "slices": slices, "services": services}
    return Run(info, tables, figures | {"sent_behind": result.rows()[-1]["sent_behind"]}).save(place)


def _services(result: LoadResult) -> list[Service]:
    """What was asked of each model; one without an SLO is held to the time after which a request has failed."""
    return [
        Service(
            each.service, each.name, each.rate_per_s or SMALLEST_RATE, each.slo_ms or result.timeout_s * 1000
        ) for each in result.asked
    ]  # fmt: skip


def requests_table(result: LoadResult) -> pl.DataFrame:
    """One row for each request that was sent; a client knows neither when it ran, nor where, nor in which batch."""
    import polars as pl

    from gpuyard.results.schema import REQUESTS

    sent = result.requests.under(result.requests.status != NoStatus.NOT_DUE)
    names = pl.Series([each.name for each in result.asked], dtype=pl.String)
    answered = sent.status == ANSWERED
    columns = {
        "service": names[sent.kind],
        "arrival_s": sent.due_s,
        "finish_s": np.where(answered, sent.ended_s, np.nan),
        "outcome": outcomes(sent, result.slos_ms),
    }
    unknown = {name: pl.lit(None, kind).alias(name) for name, kind in REQUESTS.columns.items() if name not in columns}
    return pl.DataFrame(columns).with_columns(**unknown).select(list(REQUESTS.columns))
