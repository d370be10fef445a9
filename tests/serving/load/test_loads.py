"""Whole loads: client processes, figures, and whether the server tells the same."""

import socket
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.serving.load.v2_server import Answer, serving

from gpuyard.core.errors import GpuyardError, InputError
from gpuyard.serving.load.agreement import compare
from gpuyard.serving.load.figures import SentRequests
from gpuyard.serving.load.log import ANSWERED, NoStatus
from gpuyard.serving.load.questions import Counted
from gpuyard.serving.load.run import LoadedModel, LoadOptions, LoadResult, run_load
from gpuyard.serving.load.target import Target
from gpuyard.traces.arrivals import constant, poisson

BOTH = [LoadedModel("a", 1e9), LoadedModel("b", 1e-6)]


def mostly(number: int, _model: str) -> Answer:
    others: dict[int, Answer] = {3: 503, 7: "close"}
    return others.get(number % 10, 200)


@pytest.mark.parametrize("clients", [1, 3])
def test_requests_of_all_clients_come_together_again(clients: int) -> None:
    arrivals = poisson({"b": 200.0, "a": 100.0}, 0.5)
    with serving() as server:
        result = run_load(Target.parse(server.url), BOTH, arrivals, 0.5, LoadOptions(clients=clients, check=True))
    rows = {row["model"]: row for row in result.rows()}
    assert Counter(server.story.came) == arrivals.counts
    assert rows["a"]["sent"] == rows["a"]["within_slo"] == arrivals.counts["a"]
    assert rows["b"]["sent"] == rows["b"]["late"] == arrivals.counts["b"]
    assert rows["all"]["sent"] == len(arrivals)
    assert rows["a"]["differences"] == rows["b"]["differences"] == []
    assert (result.requests.sent_s >= result.requests.due_s).all()
    assert not result.interrupted


@pytest.mark.parametrize(
    ("ended_s", "interrupted", "duration_s"),
    [(0.4, False, 60.0), (61.5, False, 61.5), (0.4, True, 0.4), (np.nan, True, 60.0)],
)
def test_rates_are_over_the_time_that_a_load_has_lasted(ended_s: float, interrupted: bool, duration_s: float) -> None:
    one, status = np.zeros(1), np.array([ANSWERED if ended_s == ended_s else NoStatus.NOT_DUE])
    requests = SentRequests(np.zeros(1, np.int64), one, one, np.array([ended_s]), status)
    result = LoadResult(Target.parse("localhost"), (BOTH[0],), requests, 60.0, 30.0, interrupted)
    assert result.duration_s == duration_s
    assert result.rows()[0]["answered_per_s"] == (status == ANSWERED).sum() / duration_s


def test_refusals_and_failures_agree_with_the_servers_count() -> None:
    with serving(answer=mostly) as server:
        arrivals = constant({"a": 100, "b": 100}, 0.5)
        result = run_load(Target.parse(server.url), BOTH, arrivals, 0.5, LoadOptions(check=True))
    rows = {row["model"]: row for row in result.rows()}
    assert rows["all"]["why"] == {"503": 10, "closed": 10}
    assert rows["all"]["answered"] == 80
    assert [rows[each]["server_refused"] for each in "ab"] == [rows[each]["refused"] for each in "ab"]
    assert rows["a"]["differences"] == rows["b"]["differences"] == []


def test_a_server_that_counts_otherwise_is_told() -> None:
    with serving(miscount=5) as server:
        options = LoadOptions(check=True)
        row = run_load(Target.parse(server.url), BOTH[:1], constant({"a": 100}, 0.1), 0.1, options).rows()[0]
    assert row["differences"] == ["answered: 10 here, 15 by the server's count"]


def test_a_request_that_failed_may_count_with_all_its_rows() -> None:
    found = {"answered": 10, "refused": 0, "failed": 2}
    before = Counted(succeeded=5, failed=1, rows=20, succeeded_ns=0)
    after = Counted(succeeded=17, failed=1, rows=68, succeeded_ns=0)
    assert compare(found, before, after, batch=4)["differences"] == []  # 12 more, with 4 rows each
    [difference] = compare(found, before, replace(after, rows=69), batch=4)["differences"]
    assert difference == "inferences: 40 here, 49 by the server's count (8 failed here, and may count there)"


def test_larger_batches_are_more_inferences() -> None:
    with serving() as server:
        options = LoadOptions(check=True, batch=4)
        row = run_load(Target.parse(server.url), BOTH[:1], constant({"a": 100}, 0.1), 0.1, options).rows()[0]
    assert row["differences"] == ["inferences: 40 here, 10 by the server's count"]  # this server counts requests
    for headers, body in server.story.bodies:
        assert len(body) - int(headers[b"inference-header-content-length"]) == 4 * 3 * 4


def test_progress_hears_of_all_requests_in_the_end_or_before() -> None:
    seen: list[tuple[int, ...]] = []
    with serving() as server:
        arrivals = constant({"a": 100}, 0.5)
        run_load(Target.parse(server.url), BOTH[:1], arrivals, 0.5, watch=lambda *done: seen.append(done))
    assert all(ended <= come <= 50 for come, ended in seen)
    assert seen == sorted(seen)


def test_a_model_that_the_server_does_not_have_is_named() -> None:
    with serving() as server, pytest.raises(InputError, match=r"'aa' is not a model of the server. Did you mean 'a'"):
        run_load(Target.parse(server.url), [LoadedModel("aa")], constant({"aa": 10}, 1.0), 1.0)


@pytest.mark.parametrize(
    ("story", "says"),
    [
        ({"untold": ("inputs",)}, "does not say what a takes: its answer has no inputs"),
        ({"inputs": [{"name": "x"}]}, "does not say what a takes"),
        ({"inputs": [{"name": "x", "datatype": "FP32", "shape": ["batch"]}]}, "does not say what a takes"),
        ({"untold": ("model_stats",)}, "does not say what became of requests to a"),
    ],
)
def test_a_server_that_leaves_something_out_is_told_of_in_one_line(story: dict[str, Any], says: str) -> None:
    with serving(**story) as server, pytest.raises(GpuyardError, match=says) as error:
        run_load(Target.parse(server.url), BOTH[:1], constant({"a": 10}, 1.0), 1.0, LoadOptions(check=True))
    assert "\n" not in str(error.value)


def test_a_server_that_is_not_there_cannot_be_reached() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for url in (address, f"grpc://{address}"):
            with pytest.raises(GpuyardError, match="cannot be reached"):
                run_load(Target.parse(url), BOTH[:1], constant({"a": 10}, 1.0), 1.0)


def test_no_request_at_all_is_a_load_too() -> None:
    with serving() as server:
        row = run_load(Target.parse(server.url), BOTH[:1], constant({"a": 0}, 0.1), 0.1).rows()[0]
    assert row["sent"] == 0


@pytest.mark.parametrize("wrong", [{"clients": 0}, {"connections": 1.5}, {"batch": -1}, {"timeout_s": 0}])
def test_options_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="must be a"):
        LoadOptions(**wrong)
