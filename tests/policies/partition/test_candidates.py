"""Turns that are kept from one GPU to the next are those that would be worked out anew."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import examples
from tests.policies.partition.original import SLO_MS, gpus, known, service

from gpuyard.policies.partition.candidates import Beside, CandidateTable, Slot
from gpuyard.policies.partition.elastic import Elastic

SERVICES = [service(number, 100.0 + number) for number in sorted(SLO_MS)]
PROBLEM = Elastic().problem(SERVICES, gpus(1), known())


def table() -> CandidateTable:
    return CandidateTable(PROBLEM.tables[0], PROBLEM.half_slo_ms, False, PROBLEM.loads, PROBLEM.coming)


@st.composite
def slots(draw: st.DrawFn) -> list[Slot]:
    """Each of its own size; next to nothing of the network may be left, and less than all of any service."""
    percents = draw(st.lists(st.sampled_from([20, 40, 50, 60, 80, 100]), min_size=1, max_size=3, unique=True))
    return [
        Slot(
            percent,
            np.array([draw(st.sampled_from([0.0, 0.3, 20.0, 100.0, 700.0])) for _ in SERVICES]),
            Beside(draw(st.sampled_from([0.0, 0.04, 0.3])), draw(st.sampled_from([0.0, 0.2, np.inf])), 9000.0,
                   draw(st.sampled_from([0.0, 0.05, 0.4, 3.0]))),
        )
        for percent in percents
    ]  # fmt: skip


@settings(max_examples=examples(30))
@given(st.lists(slots(), min_size=2, max_size=5))
def test_what_is_kept_is_what_would_be_worked_out_anew(asked: list[list[Slot]]) -> None:
    kept = table()
    for each in asked:
        for found, fresh in zip(kept.of(each), table().of(each), strict=True):
            assert np.array_equal(found, fresh)


def test_a_batch_takes_no_more_than_the_network_lets_in() -> None:
    """A request of resnet50 has 602,112 bytes: 0.4 Gbit/s, of 2^30 bits, are 89 requests a second; one in a period
    is always let in.
    """
    left = np.array([700.0 if each.model == "resnet50" else 0.0 for each in SERVICES])
    number = int(np.flatnonzero(left)[0])
    plenty, little = (
        table().of([Slot(100, left, Beside(0.0, np.inf, 9000.0, gbit))]).rate[0, :, number] for gbit in (3.0, 0.4)
    )
    assert (little <= np.maximum(0.4 * 2**30 / 8 / 602_112, 1000.0 / table().periods_ms[:, 0])).all()
    assert plenty.max() > 100.0
    assert little.max() > 50.0
