"""What became of every request and of every slice, as the tables of a run."""

from __future__ import annotations

import numpy as np
import polars as pl

from gpuyard.policies.dispatch.rules import ROUNDING
from gpuyard.results import OUTCOMES
from gpuyard.simulation.serving.state import REFUSED, TAKEN
from gpuyard.simulation.serving.world import SimulatedServer


def requests_table(server: SimulatedServer) -> pl.DataFrame:
    """One row a request, in order of arrival."""
    requests, batches = server.requests, server.batches
    taken = requests.fate == TAKEN
    batch = np.where(taken, requests.batch, 0)
    finish_s = batches.finish_s[batch] if len(batch) else np.empty(0)
    slo_s = np.array([each.slo_ms / 1000.0 for each in server.services])[requests.service]
    late = taken & (finish_s - requests.arrival_s > slo_s * (1.0 + ROUNDING))
    served, too_late, dropped, refused = range(len(OUTCOMES))
    outcome = np.where(late, too_late, np.where(taken, served, np.where(requests.fate == REFUSED, refused, dropped)))
    names = pl.Series([str(each.service_id) for each in server.services], dtype=pl.String)
    found = pl.DataFrame(
        {
            "service": names.gather(requests.service),
            "arrival_s": requests.arrival_s,
            "start_s": batches.start_s[batch] if len(batch) else finish_s,
            "finish_s": finish_s,
            "slice": batches.span[batch] if len(batch) else batch,
            "batch": batches.size[batch] if len(batch) else batch,
            "outcome": pl.Series(OUTCOMES).gather(outcome),
        }
    )
    only = pl.lit(pl.Series(taken))
    columns = ("start_s", "finish_s", "slice", "batch")
    return found.with_columns(pl.when(only).then(pl.col(name)).alias(name) for name in columns)


def slices_table(server: SimulatedServer) -> pl.DataFrame:
    """One row for each slice as long as it stayed the same."""
    begun = server.begun
    span, count = server.batches.span[:begun], len(server.spans)
    lasted = server.batches.finish_s[:begun] - server.batches.start_s[:begun]
    turns = [each.part.turns for each in server.spans]
    return pl.DataFrame(
        {
            "slice": np.arange(count),
            "gpu": [each.gpu for each in server.spans],
            "share": [each.part.thousandths / 1000 for each in server.spans],
            "services": [[str(turn.service) for turn in each] for each in turns],
            "batches": [[turn.batch for turn in each] for each in turns],
            "start_s": [each.start_s for each in server.spans],
            "end_s": [each.end_s for each in server.spans],
            "busy_s": np.bincount(span, lasted, count),
            "batches_run": np.bincount(span, minlength=count),
            "requests": np.bincount(span, server.batches.size[:begun], count).astype(np.int64),
        },
        schema_overrides={"services": pl.List(pl.String), "batches": pl.List(pl.Int32)},
    )
