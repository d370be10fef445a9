"""Recorded request traces: as they are, scaled to rates, or dealt by a column."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import examples

from gpuyard.core.errors import InputError
from gpuyard.traces.arrivals import read_stamps, recorded

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
ALIBABA = "gmt_create,predict_type,predict_status,groupId\n"


@pytest.fixture
def busy_late(tmp_path: Path) -> Path:
    """30 s of one request a second, then 30 s of nine."""
    times = [*np.arange(0, 30, 1.0), *(30 + np.arange(270) / 9)]
    lines = [f"2024-05-10 00:00:{each:010.7f},1,1" for each in times]
    (tmp_path / "azure.csv").write_text(AZURE + "\n".join(lines))
    return tmp_path / "azure.csv"


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    rows = ["2024-11-15 00:00:10,T,SUCCEED,y", "2024-11-15 00:00:00,T,SUCCEED,x", "2024-11-15 00:00:05,T,FAILED,x"]
    rows += ["2024-11-15 00:00:20,T,SUCCEED,x", "2024-11-15 00:00:30,T,SUCCEED,z"]
    with gzip.open(tmp_path / "alibaba.csv.gz", "wt") as file:
        file.write(ALIBABA + "\n".join(rows))
    return tmp_path / "alibaba.csv.gz"


@settings(max_examples=examples(40))
@given(
    st.dictionaries(st.sampled_from("abc"), st.floats(0, 200), min_size=1),
    st.floats(0.5, 100),
    st.none() | st.floats(0.01, 100),
    st.floats(0, 200),
    st.integers(0, 100),
)
def test_scaled_streams_are_exact_in_count_and_ascend(
    rates: dict[str | int, float], seconds: float, speed: float | None, start_s: float, seed: int
) -> None:
    trace = Path(__file__).with_name("requests.csv")
    found = recorded(trace, rates, seconds, seed, speed=speed, start_s=start_s)
    assert found.counts == {service: round(rate * seconds) for service, rate in rates.items()}
    assert (np.diff(found.times_s) >= 0).all()
    assert ((found.times_s >= 0) & (found.times_s < seconds)).all()
    again = recorded(trace, rates, seconds, seed, speed=speed, start_s=start_s)
    np.testing.assert_array_equal(found.times_s, again.times_s)


def test_a_service_is_busy_when_the_trace_is(busy_late: Path) -> None:
    found = recorded(busy_late, {"a": 1000.0, "b": 100.0}, 20.0)
    assert found.counts == {"a": 20_000, "b": 2000}
    for service, count in found.counts.items():
        early = (found.of(service) < 10).mean()
        assert abs(early - 0.1) < 5 * (0.09 / count) ** 0.5
    assert not np.isin(found.of("a"), found.of("b")).any()


def test_a_trace_runs_at_its_own_pace_from_any_time_and_begins_again(busy_late: Path) -> None:
    at_pace = recorded(busy_late, {"a": 100.0}, 60.0, speed=1.0, start_s=30.0).times_s
    assert abs((at_pace < 30).mean() - 0.9) < 0.02  # the busy half first, then the trace again
    replayed = recorded(busy_late, {"a": 5.0}, 60.0, speed=1.0, start_s=30.0, scaled=False).times_s
    assert len(replayed) == 300
    np.testing.assert_allclose(replayed[:270], np.arange(270) / 9, atol=1e-6)


def test_replayed_requests_are_dealt_in_proportion_to_rates(busy_late: Path) -> None:
    found = recorded(busy_late, {"a": 3.0, "b": 1.0, "c": 0.0}, 60.0, speed=1.0, scaled=False)
    assert len(found) == 300
    assert 0.6 < found.counts["a"] / 300 < 0.9
    assert found.counts["c"] == 0
    assert len(recorded(busy_late, {"a": 0.0}, 60.0, scaled=False)) == 0


def test_only_requests_that_succeeded_count_unless_all_are_asked_for(groups: Path) -> None:
    assert read_stamps(groups).times_s.tolist() == [0, 10, 20, 30]
    assert read_stamps(groups, failed=True).times_s.tolist() == [0, 5, 10, 20, 30]


def test_groups_of_a_column_are_dealt_to_services_the_largest_first(groups: Path) -> None:
    found = recorded(groups, {"a": 1.0, "b": 1.0}, 40.0, by="groupId", scaled=False, speed=1.0)
    assert found.of("a").tolist() == [0, 20, 30]  # x, then z; y went to b
    assert found.of("b").tolist() == [10]
    assert recorded(groups, {"a": 1.0, "b": 2.0}, 40.0, by="groupId").counts == {"a": 40, "b": 80}


def test_a_trace_for_each_service(groups: Path, busy_late: Path) -> None:
    found = recorded({"a": groups, "b": busy_late}, {"a": 1.0, "b": 1.0}, 30.0, scaled=False, speed=1.0)
    assert found.of("a").tolist() == [0, 10, 20]
    assert found.counts["b"] == 30
    with pytest.raises(InputError, match="no trace of its own: c"):
        recorded({"a": groups}, {"a": 1.0, "c": 1.0}, 30.0)
    with pytest.raises(InputError, match="single trace"):
        recorded({"a": groups}, {"a": 1.0}, 30.0, by="groupId")


def test_columns_that_are_not_there_or_too_uniform_are_refused(groups: Path) -> None:
    with pytest.raises(InputError, match=r"not a column.*groupId"):
        recorded(groups, {"a": 1.0}, 10.0, by="groupid")
    with pytest.raises(InputError, match="1 values, fewer than the 2 services"):
        recorded(groups, {"a": 1.0, "b": 1.0}, 10.0, by="predict_type")


def test_a_trace_of_another_kind_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job_id,submit_time\n1,2\n")
    with pytest.raises(InputError, match=r"jobs.csv, row 1: 'job_id,submit_time'.*TIMESTAMP.*gmt_create.*time_s"):
        recorded(tmp_path / "jobs.csv", {"a": 1.0}, 10.0)


@pytest.mark.parametrize("stamp", ["", "yesterday"])
def test_a_time_that_is_none_is_named_with_its_row(tmp_path: Path, stamp: str) -> None:
    (tmp_path / "azure.csv").write_text(AZURE + f"2024-05-10 00:00:00.5,1,1\n{stamp},1,1\n")
    with pytest.raises(InputError, match=r"azure.csv, row 3, field TIMESTAMP"):
        recorded(tmp_path / "azure.csv", {"a": 1.0}, 10.0)


def test_a_trace_of_one_request_or_of_one_instant_is_followed(tmp_path: Path) -> None:
    for lines in (1, 3):
        (tmp_path / "azure.csv").write_text(AZURE + "2024-05-10 00:00:00,1,1\n" * lines)
        assert recorded(tmp_path / "azure.csv", {"a": 5.0}, 10.0).counts == {"a": 50}


@pytest.mark.parametrize(
    ("file", "requests", "span_s"),
    [
        ("azure-llm-2023/AzureLLMInferenceTrace_code.csv.gz", 8819, 3435.948056),
        ("azure-llm-2023/AzureLLMInferenceTrace_conv.csv.gz", 19366, 3501.721937),
        ("alibaba-other/v2026_genai_lora_request_trace.csv.gz", 26392, 1989355.0),
    ],
)
def test_public_traces_are_read_as_they_are(shared_data: Path, file: str, requests: int, span_s: float) -> None:
    stamps = read_stamps(shared_data / "traces" / file)
    assert len(stamps.times_s) == requests
    assert stamps.times_s[-1] == pytest.approx(span_s, abs=1e-5)
    found = recorded(shared_data / "traces" / file, {"a": 100.0, "b": 50.0}, 20.0)
    assert found.counts == {"a": 2000, "b": 1000}
