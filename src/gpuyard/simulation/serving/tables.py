"""What became of every request and of every slice, as the tables of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gpuyard.core.arrays import Floats, Ints
from gpuyard.policies.dispatch.rules import ROUNDING
from gpuyard.results import OUTCOMES
from gpuyard.simulation.serving.state import ABANDONED, DROPPED, PENDING, REFUSED, TAKEN, Requests, some_of
from gpuyard.simulation.serving.world import SimulatedServer

Mask = NDArray[np.bool_]
_OUTCOMES = {PENDING: "dropped", TAKEN: "served", DROPPED: "dropped", REFUSED: "refused", ABANDONED: "dropped"}
"""By fate, of requests that are not late."""


def requests_table(server: SimulatedServer) -> pl.DataFrame:
    """One row a request from outside, in order of arrival."""
    requests = some_of(server.requests, slice(server.expected))
    names = [str(each.service_id) for each in server.services] + [each.name for each in server.applications]
    slo_ms = [each.slo_ms for each in server.services] + [each.slo_ms for each in server.applications]
    found = _Found.of(server, requests)
    if server.applications:
        found = _through_stages(server, found)
    taken = requests.fate == TAKEN
    slo_s = (np.array(slo_ms) / 1000.0)[requests.service]
    late = taken & (found.finish_s - requests.arrival_s > slo_s * (1.0 + ROUNDING))
    return _table(_named(names, requests.service), requests, late, found)


def stage_requests_table(server: SimulatedServer) -> pl.DataFrame:
    """One row for each time that a request of an application asked a stage, in the order of the requests."""
    outside, asked = len(server.arrival_s), server.asked
    there = np.flatnonzero(server.requests.arrival_s[outside:] < np.inf)
    requests = some_of(server.requests, outside + there)
    found = _Found.of(server, requests)
    whole = asked.request[there]
    slo_s = server.serving.stages.slo_s[server.service[whole] - len(server.services)]
    late = (requests.fate == TAKEN) & (found.finish_s - server.arrival_s[whole] > slo_s * (1.0 + ROUNDING))
    names = _named([str(each.service_id) for each in server.services], requests.service)
    return _table(names, requests, late, found).insert_column(0, pl.Series("request", whole))


class _Found(NamedTuple):
    """When and where requests ran; of those that did not, anything."""

    start_s: Floats
    finish_s: Floats
    span: Ints
    size: Ints
    in_batch: Mask

    @classmethod
    def of(cls, server: SimulatedServer, requests: Requests) -> _Found:
        batches, taken = server.batches, requests.batch >= 0
        batch = np.where(taken, requests.batch, 0)
        if not len(batch):
            return cls(np.empty(0), np.empty(0), batch, batch, taken)
        return cls(batches.start_s[batch], batches.finish_s[batch], batches.span[batch], batches.size[batch], taken)


def _through_stages(server: SimulatedServer, found: _Found) -> _Found:
    """The same where a request of an application runs from its first batch to the end of its last."""
    outside, asked, batches = len(server.arrival_s), server.asked, server.batches
    ran = np.flatnonzero(server.requests.batch[outside:] >= 0)
    batch = server.requests.batch[outside:][ran]
    of_application = server.service[: server.expected] >= len(server.services)
    arrival_s = server.arrival_s[: server.expected]
    start_s, finish_s = (
        np.where(of_application, np.inf, found.start_s),
        np.where(of_application, arrival_s, found.finish_s),
    )
    np.minimum.at(start_s, asked.request[ran], batches.start_s[batch])
    np.maximum.at(finish_s, asked.request[ran], batches.finish_s[batch])
    return found._replace(start_s=np.where(start_s < np.inf, start_s, arrival_s), finish_s=finish_s)


def _table(names: pl.Series, requests: Requests, late: Mask, found: _Found) -> pl.DataFrame:
    outcome = np.array([OUTCOMES.index(_OUTCOMES[fate]) for fate in range(len(_OUTCOMES))])[requests.fate]
    outcome = np.where(late, OUTCOMES.index("late"), outcome)
    whole = pl.DataFrame(
        {
            "service": names,
            "arrival_s": requests.arrival_s,
            "start_s": found.start_s,
            "finish_s": found.finish_s,
            "slice": found.span,
            "batch": found.size,
            "outcome": pl.Series(OUTCOMES).gather(outcome),
        }
    )
    answered, alone = pl.lit(pl.Series(requests.fate == TAKEN)), pl.lit(pl.Series(found.in_batch))
    known = {"start_s": answered, "finish_s": answered, "slice": alone, "batch": alone}
    return whole.with_columns(pl.when(only).then(pl.col(name)).alias(name) for name, only in known.items())


def _named(names: Sequence[str], numbers: Ints) -> pl.Series:
    return pl.Series(names, dtype=pl.String).gather(numbers)


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
