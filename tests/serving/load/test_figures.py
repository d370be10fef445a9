"""Figures from requests whose times are known: all by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.serving.load.figures import SentRequests, figures, nearest_rank, outcomes, status_name
from gpuyard.serving.load.log import ANSWERED, GRPC, GRPC_NAMES, NoStatus


def requests(*rows: tuple[int, float, float, float, int]) -> SentRequests:
    kind, due_s, sent_s, ended_s, status = (np.array(column) for column in zip(*rows, strict=True))
    return SentRequests(kind.astype(np.int64), due_s, sent_s, ended_s, status.astype(np.int64))


MIXED = requests(
    (0, 0.0, 0.000, 0.010, 200),  # 10 ms
    (0, 1.0, 1.001, 1.020, 200),  # 20 ms
    (0, 2.0, 2.050, 2.060, 200),  # 60 ms, of which 50 ms before it went out: late by an SLO of 50 ms
    (0, 3.0, 3.000, 3.001, 503),
    (0, 4.0, np.nan, 4.001, NoStatus.CONNECT),
    (1, 4.0, 4.000, 4.040, 200),
    (1, 9.0, np.nan, np.nan, NoStatus.NOT_DUE),
)


def test_what_was_sent_is_answered_refused_or_failed() -> None:
    found = figures(MIXED.under(MIXED.kind == 0), [50.0, 10.0], 5.0)
    assert [found[name] for name in ("sent", "answered", "within_slo", "late", "refused", "failed")] == [
        5,
        3,
        2,
        1,
        1,
        1,
    ]
    assert found["violation_percent"] == 60.0
    assert found["sent_per_s"] == 1.0
    assert found["answered_per_s"] == 0.6
    assert found["goodput_per_s"] == 0.4
    assert found["why"] == {"503": 1, "connect": 1}


def test_latency_counts_from_when_a_request_was_due() -> None:
    found = figures(MIXED.under(MIXED.kind == 0), [50.0, 10.0], 5.0)
    assert found["p50_ms"] == pytest.approx(20.0)
    assert found["p99_ms"] == found["max_ms"] == pytest.approx(60.0)
    assert found["sent_behind"] == 1
    assert found["behind_max_ms"] == pytest.approx(50.0)


def test_together_each_is_held_to_its_own_slo() -> None:
    found = figures(MIXED, [50.0, 10.0], 5.0)
    assert (found["sent"], found["within_slo"], found["late"]) == (6, 2, 2)
    assert outcomes(MIXED.under(MIXED.status != NoStatus.NOT_DUE), [50.0, 10.0]) == [
        "served", "served", "late", "refused", "dropped", "late",
    ]  # fmt: skip


@pytest.mark.parametrize(("slo_ms", "late"), [(1e-6, 3), (1e9, 0), (None, 0)])
def test_without_an_slo_nothing_is_late(slo_ms: float | None, late: int) -> None:
    assert figures(MIXED.under(MIXED.kind == 0), [slo_ms], 5.0)["late"] == late


def test_nothing_sent_has_no_percentages() -> None:
    found = figures(MIXED.under(MIXED.status == NoStatus.NOT_DUE), [50.0, 10.0], 5.0)
    assert found["sent"] == 0
    assert found["violation_percent"] is found["p50_ms"] is found["behind_max_ms"] is None


STATUS = st.sampled_from([*NoStatus, ANSWERED, 400, 503, GRPC + 14])
ROW = st.tuples(st.integers(0, 1), st.floats(0, 9), st.floats(0, 9), st.floats(0, 99), STATUS)


@given(st.lists(ROW, min_size=1))
def test_every_request_counts_once(rows: list[tuple[int, float, float, float, int]]) -> None:
    found = figures(requests(*rows), [50.0, None], 10.0)
    assert found["sent"] == found["answered"] + found["refused"] + found["failed"]
    assert found["answered"] == found["within_slo"] + found["late"]
    assert sum(found["why"].values()) == found["refused"] + found["failed"]
    assert found["sent"] == sum(row[-1] != NoStatus.NOT_DUE for row in rows)


def test_percentiles_are_of_nearest_rank() -> None:
    values = np.arange(1.0, 101.0)
    assert [nearest_rank(values, part) for part in (0.5, 0.9, 0.99, 1.0)] == [50, 90, 99, 100]
    assert nearest_rank(np.array([7.0]), 0.5) == 7
    assert nearest_rank(np.empty(0), 0.5) is None


def test_names_of_grpc_statuses_are_grpcs() -> None:
    grpc = pytest.importorskip("grpc")
    assert {each.value[0]: each.name for each in grpc.StatusCode} == dict(enumerate(GRPC_NAMES))
    assert status_name(GRPC + 14) == "UNAVAILABLE"
