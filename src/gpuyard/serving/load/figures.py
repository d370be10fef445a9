"""Figures of a load: what was asked for, what came back, how fast, and whether in time.

* `sent` are requests whose time came. Each was answered, refused or failed, and is counted once.
* `answered`: a result came. It is `within_slo` if it came within the SLO after the request was *due*, else `late`.
* `refused`: the server said no, with a status. `failed`: no answer at all.
* Latency is of what was answered, from when the request was due to the last byte; percentiles are of nearest rank, and
  nothing is left out: no warm-up, no maximum.
* `violation_percent` is all that was sent and not answered within the SLO: late, refused or failed.
* Rates are over the time from the start to the end of the load or to the last answer, whichever is later;
  `goodput_per_s` counts answers within the SLO.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.arrays import Floats, Ints
from gpuyard.serving.load.log import ANSWERED, GRPC, GRPC_NAMES, NoStatus

BEHIND_S = 0.005
"""A request that goes out so much later than it was due counts as sent late."""


@dataclass(frozen=True, eq=False)
class SentRequests:
    """All requests of a load, by the time at which they were due."""

    kind: Ints
    """Whose it is: a position among the models."""
    due_s: Floats
    sent_s: Floats
    ended_s: Floats
    status: Ints

    def under(self, mask: NDArray[np.bool_]) -> SentRequests:
        """Some of them."""
        return SentRequests(self.kind[mask], self.due_s[mask], self.sent_s[mask], self.ended_s[mask], self.status[mask])

    @property
    def latency_s(self) -> Floats:
        """From when each was due to its end."""
        found: Floats = self.ended_s - self.due_s
        return found


def in_time(requests: SentRequests, slos_ms: Sequence[float | None]) -> NDArray[np.bool_]:
    """Which requests ended within the SLO of their model; all of one that has none."""
    limit_ms = np.array([inf if each is None else each for each in slos_ms])[requests.kind]
    found: NDArray[np.bool_] = requests.latency_s * 1000 <= limit_ms
    return found


def outcomes(requests: SentRequests, slos_ms: Sequence[float | None]) -> list[str]:
    """What became of requests that were sent, in the words of a run folder: one that failed counts as dropped."""
    ended = np.where(in_time(requests, slos_ms), "served", "late")
    refused = np.where(requests.status < 0, "dropped", "refused")
    found: list[str] = np.where(requests.status == ANSWERED, ended, refused).tolist()
    return found


def figures(requests: SentRequests, slos_ms: Sequence[float | None], duration_s: float) -> dict[str, Any]:
    """The figures of these requests, each held to the SLO of its model."""
    sent = requests.under(requests.status != NoStatus.NOT_DUE)
    became = Counter(outcomes(sent, slos_ms))
    count, within, answered = len(sent.status), became["served"], became["served"] + became["late"]
    latency_ms = np.sort(sent.latency_s[sent.status == ANSWERED]) * 1000
    behind_s = (sent.sent_s - sent.due_s)[np.isfinite(sent.sent_s)]
    return {
        "sent": count,
        "answered": answered,
        "within_slo": within,
        "late": became["late"],
        "refused": became["refused"],
        "failed": became["dropped"],
        "sent_per_s": count / duration_s,
        "answered_per_s": answered / duration_s,
        "goodput_per_s": within / duration_s,
        "p50_ms": nearest_rank(latency_ms, 0.5),
        "p90_ms": nearest_rank(latency_ms, 0.9),
        "p99_ms": nearest_rank(latency_ms, 0.99),
        "max_ms": nearest_rank(latency_ms, 1.0),
        "violation_percent": 100 * (count - within) / count if count else None,
        "why": _reasons(sent.status[sent.status != ANSWERED]),
        "sent_behind": int((behind_s > BEHIND_S).sum()),
        "behind_max_ms": float(behind_s.max()) * 1000 if len(behind_s) else None,
    }


def nearest_rank(ascending: Floats, part: float) -> float | None:
    """The smallest value that so large a part of all do not exceed; None of none."""
    if not len(ascending):
        return None
    return float(ascending[max(ceil(part * len(ascending)), 1) - 1])


def _reasons(status: Ints) -> dict[str, int]:
    """How often what came instead of an answer, the most frequent first."""
    return {status_name(each): count for each, count in Counter(status.tolist()).most_common()}


def status_name(status: int) -> str:
    """A status as people know it."""
    if status < 0:
        return NoStatus(status).name.lower()
    return str(status) if status < GRPC else GRPC_NAMES[status - GRPC]
