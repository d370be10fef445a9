"""Gangs of pods: who gets what, how each starts, leaves and goes on, and that nothing is lost on the way."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kube.builders import pod
from tests.kube.gang_yard import FOLDER, DeathError, GangYard

from gpuyard.kube import names
from gpuyard.kube.jobs.gang_pods import ATTEMPT_LABEL
from gpuyard.kube.objects import GpuRequest, read_pod
from gpuyard.policies.decide import decide
from gpuyard.policies.facts import Facts
from gpuyard.policies.resolve import resolve
from gpuyard.policies.snapshot import Snapshot
from gpuyard.profiles import load_zoo
from gpuyard.runtime.attempts import STARTS_OVER

QUICK = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))


def yard_of(**how: object) -> GangYard:
    """One node with four GPUs."""
    yard = GangYard(**how)  # type: ignore[arg-type]
    yard.add_node("n1", 4)
    return yard


def test_a_gang_gets_gpus_cpus_and_memory_and_runs_to_its_end() -> None:
    yard = yard_of()
    yard.submit("wide", 2, iterations=100)
    yard.run(until=30.0)
    pods = yard.pods("wide")
    assert [each["metadata"]["name"] for each in pods] == ["wide-1-0", "wide-1-1"]
    assert {each["metadata"]["annotations"][names.DEVICES] for each in pods} == {"0", "1"}
    resources = pods[0]["spec"]["containers"][0]["resources"]
    assert resources["limits"] == resources["requests"]
    assert resources["limits"] == {"cpu": "4000m", "memory": "62500000000", names.WHOLE_GPUS: "1"}
    assert (yard.job("wide")["phase"], yard.job("wide")["places"]) == ("Running", ["n1/0", "n1/1"])
    yard.run()
    assert yard.job("wide")["phase"] == "Succeeded"
    assert (yard.job("wide")["step"], yard.job("wide")["attempt"]) == (100, 1)
    assert len(yard.job("wide")["attempts"]) == 1


def test_a_gang_that_is_preempted_saves_leaves_together_and_goes_on_at_its_step() -> None:
    yard = yard_of(policy="fifo+proportional")
    yard.submit("low", 4, iterations=400)
    yard.run(until=100.0)
    yard.submit("high", 4, iterations=50, priority=1)
    yard.run(until=140.0)
    assert yard.job("high")["phase"] in ("Starting", "Running")
    assert (yard.job("low")["phase"], yard.job("low")["reason"]) == ("Waiting", "LacksGpus")
    assert "What would help" in yard.job("low")["message"]
    left = yard.saved["low"]
    assert left > 90
    yard.run()
    assert yard.phases() == {"low": "Succeeded", "high": "Succeeded"}
    first, second = yard.job("low")["attempts"]
    assert (first["ended"], first["last_step"], second["first_step"]) == ("preempted", left, left)


def test_a_command_that_knows_no_steps_is_asked_to_end_and_starts_again() -> None:
    yard = yard_of(policy="fifo+proportional", tells_steps=False)
    yard.submit("low", 4, iterations=400)
    yard.run(until=100.0)
    yard.submit("high", 4, iterations=50, priority=1)
    yard.run()
    assert yard.phases() == {"low": "Succeeded", "high": "Succeeded"}
    assert yard.job("low")["attempt"] == 2


def test_who_does_not_hear_is_ended_after_a_grace() -> None:
    yard = yard_of(policy="fifo+proportional", leave_s=20.0)
    yard.deaf = {"low"}
    yard.submit("low", 4, iterations=400)
    yard.run(until=100.0)
    yard.submit("high", 4, iterations=50, priority=1)
    yard.run()
    assert set(yard.phases().values()) == {"Succeeded"}
    assert yard.job("low")["attempts"][0]["last_step"] == 0


def test_a_gang_that_fails_again_and_again_is_given_up_with_its_last_words() -> None:
    yard = yard_of()
    yard.crashes["bad"] = "no such file: data.bin"
    yard.submit("bad", 2)
    yard.submit("good", 2)
    yard.run()
    assert yard.phases() == {"bad": "Failed", "good": "Succeeded"}
    assert yard.job("bad")["attempt"] == 3
    assert "no such file: data.bin" in yard.job("bad")["message"]


def test_pods_that_an_api_server_refuses_are_no_attempt_without_end() -> None:
    yard = yard_of()
    yard.server.fails = lambda method, path: 403 if (method, path) == ("POST", "/api/v1/namespaces/lab/pods") else None
    yard.submit("barred", 2)
    yard.run()
    assert yard.phases() == {"barred": "Failed"}
    assert "it failed" in yard.job("barred")["message"]


def test_a_gang_whose_node_is_lost_goes_on_elsewhere() -> None:
    yard = yard_of()
    yard.submit("train", 2, iterations=300)
    yard.run(until=100.0)
    yard.add_node("n2", 4)
    yard.saved["train"] = 60
    yard.lose("n1")
    yard.run(until=300.0)
    assert yard.job("train")["places"] == ["n2/0", "n2/1"]
    yard.run(until=900.0)
    assert yard.phases() == {"train": "Succeeded"}


def test_a_gang_whose_node_is_removed_goes_on_where_there_is_one() -> None:
    yard = yard_of()
    yard.submit("train", 2, iterations=300)
    yard.clock.at(100.0, lambda: yard.remove_node("n1"))
    yard.clock.at(300.0, lambda: yard.add_node("n2", 4))
    yard.run()
    assert yard.phases() == {"train": "Succeeded"}
    assert yard.job("train")["attempts"][0]["ended"] == "failed"


def test_what_ended_while_nobody_looked_has_ended_as_it_did() -> None:
    yard = yard_of(tells_steps=False)
    yard.submit("train", 1, iterations=50)
    yard.run(until=30.0)
    while yard.clock.now() < 200.0:
        yard.clock.wait(None, 200.0)  # type: ignore[arg-type]
    yard.start_controller()
    yard.run()
    assert (yard.job("train")["phase"], yard.job("train")["attempt"]) == ("Succeeded", 1)


def test_a_pod_that_somebody_deletes_costs_its_gang_an_attempt_and_no_blame() -> None:
    yard = yard_of()
    yard.submit("train", 2, iterations=300)
    for _ in range(4):
        yard.run(until=yard.clock.now() + 100.0)
        path = f"/api/v1/namespaces/lab/pods/{yard.pods('train')[-1]['metadata']['name']}"
        yard.server.answer("DELETE", path, {})
    yard.run()
    assert yard.phases() == {"train": "Succeeded"}
    assert yard.job("train")["attempt"] == 5
    rows = yard.job("train")["attempts"]
    assert all(later["asked_s"] >= row["end_s"] for row, later in pairwise(rows))  # its place was looked for anew


def test_what_an_earlier_attempt_has_left_behind_is_removed_by_the_next_controller() -> None:
    yard = yard_of()
    yard.submit("train", 1, iterations=100)
    yard.run(until=30.0)
    left = deepcopy(yard.pods("train")[0])
    left["metadata"] |= {
        "name": "train-0-0",
        "uid": "left",
        "labels": {**left["metadata"]["labels"], ATTEMPT_LABEL: "0"},
    }
    del left["spec"]["nodeName"]
    yard.server.add_pod({**left, "status": {"phase": "Pending"}})
    yard.start_controller()
    yard.run()
    assert [each["metadata"]["name"] for each in yard.pods("train")] == ["train-1-0"]
    assert yard.job("train")["phase"] == "Succeeded"


def test_a_cancelled_gang_saves_and_leaves_and_one_that_waits_is_over_at_once() -> None:
    yard = yard_of()
    yard.submit("first", 4, iterations=1000)
    yard.submit("second", 4)
    yard.run(until=100.0)
    yard.cancel("first")
    yard.cancel("second")
    yard.run()
    assert yard.phases() == {"first": "Cancelled", "second": "Cancelled"}
    assert yard.saved["first"] > 90


def test_a_job_that_is_deleted_gives_its_place_back_and_its_name() -> None:
    yard = yard_of()
    yard.submit("same", 4, iterations=1000)
    yard.run(until=100.0)
    yard.server.answer("DELETE", f"{FOLDER}/trainingjobs/same", {})
    yard.submit("same", 4, iterations=10)
    yard.run()
    assert yard.phases() == {"same": "Succeeded"}


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"template": {"spec": {"containers": []}}}, "must be a template of pods with a container"),
        ({"template": {"spec": {"containers": [{}], "nodeSelector": {"a": "b"}}}}, "says where pods go"),
        ({"durationSeconds": 5}, "states its work twice"),
        ({"checkpoints": {"path": "a/b"}}, "must be the whole path of a folder"),
    ],
)
def test_a_job_that_cannot_be_started_is_told_why(spec: dict[str, object], why: str) -> None:
    yard = yard_of()
    yard.submit("odd", 1, **spec)  # type: ignore[arg-type]
    yard.run()
    assert (yard.job("odd")["phase"], yard.job("odd")["reason"]) == ("Failed", "Invalid")
    assert why in yard.job("odd")["message"]


def test_a_job_that_is_wider_than_the_cluster_waits_and_says_so_until_a_node_comes() -> None:
    yard = yard_of()
    yard.submit("wide", 8)
    yard.run(until=70.0)
    assert "more GPUs of one type that it may use than there are" in yard.job("wide")["message"]
    yard.add_node("n2", 4)
    yard.run()
    assert yard.phases() == {"wide": "Succeeded"}


def test_jobs_that_take_turns_all_end() -> None:
    yard = yard_of(policy="las+proportional")
    for number in range(3):
        yard.submit(f"turn{number}", 4, iterations=150)
    yard.run(until=3000.0)
    assert set(yard.phases().values()) == {"Succeeded"}
    assert yard.job("turn0")["attempt"] > 1


def test_a_gang_keeps_its_place_while_it_starts_and_for_twice_as_long_as_starts_take() -> None:
    yard = yard_of(policy="las+proportional", start_s=65.0)  # the first pod, and then the others: longer than rounds
    for name in ("one", "other"):
        yard.submit(name, 4, iterations=400)
    yard.run(until=5000.0)
    assert set(yard.phases().values()) == {"Succeeded"}
    rows = [row for name in ("one", "other") for row in yard.job(name)["attempts"]]
    assert all(row["last_step"] > row["first_step"] for row in rows)  # nobody was stopped before it had begun
    assert yard.world.seen.start_cost_s == pytest.approx(130.0, abs=10.0)
    assert all(
        row["end_s"] - row["start_s"] > 2 * 130 for row in rows if row["ended"] == "preempted" and row["first_step"]
    )


def test_who_has_waited_long_goes_first_where_that_is_asked_for() -> None:
    attempts = {}
    for limit in (None, 200.0):
        yard = yard_of(policy="srtf+proportional", starvation_s=limit, tells_steps=False)
        yard.submit("long", 4, iterations=800)
        yard.submit("first", 4, iterations=40)
        for number in range(1, 8):
            yard.clock.at(60.0 * number - 1.0, partial(yard.submit, f"short{number}", 4, iterations=40))
        yard.run(until=470.0)
        attempts[limit] = yard.job("long")["attempt"]
    assert attempts == {None: 0, 200.0: 1}


def test_that_a_job_starts_over_is_told_until_it_has_kept_something() -> None:
    yard = yard_of(policy="fifo+proportional", start_s=40.0)
    yard.submit("low", 4, iterations=800)
    for at, name in ((30.0, "high"), (420.0, "again")):  # the first comes before pods of low do any step
        yard.clock.at(at, partial(yard.submit, name, 4, iterations=50, priority=1))
    told = []
    for at in (400.0, 900.0):
        yard.clock.at(at, lambda: told.append((yard.job("low")["phase"], yard.job("low").get("message", ""))))
    yard.run(until=910.0)
    assert told == [("Running", STARTS_OVER), ("Running", "")]


def test_quotas_hold_for_tenants() -> None:
    yard = yard_of(quotas={"lab": 2.0})
    yard.submit("one", 2, tenant="lab", iterations=200)
    yard.submit("two", 2, tenant="lab")
    yard.run(until=70.0)
    assert (yard.job("one")["phase"], yard.job("two")["reason"]) == ("Running", "LacksQuota")
    yard.run()
    assert set(yard.phases().values()) == {"Succeeded"}


# Beside pods that share


def test_gpus_of_pods_that_share_are_taken_and_what_strangers_need_of_a_node_too() -> None:
    yard = yard_of()
    yard.server.add_pod(pod("shares", memory=4, node="n1", devices="2", phase="Running"))
    greedy = pod("greedy", node="n1", phase="Running")
    greedy["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"cpu": "9", "memory": "200G"}}}]
    yard.server.add_pod(greedy)
    yard.submit("wide", 4)
    yard.submit("three", 3, priority=-1)
    yard.run(until=70.0)
    assert yard.job("wide")["phase"] == "Waiting"
    assert yard.job("three")["places"] == ["n1/0", "n1/1", "n1/3"]
    assert {each["spec"]["containers"][0]["resources"]["limits"]["cpu"] for each in yard.pods("three")} == {"750m"}


def test_nobody_is_let_onto_a_gpu_that_is_promised_to_a_gang_before_its_pods_are_there() -> None:
    yard = yard_of(policy="fifo+proportional")
    yard.deaf = {"low"}
    yard.submit("low", 4, iterations=1000)
    yard.run(until=100.0)
    yard.submit("high", 4, priority=1)
    yard.run(until=125.0)
    assert yard.job("high")["reason"] == "PlaceIsLeft"
    for each in yard.pods("low"):
        yard.server.remove(f"/api/v1/namespaces/lab/pods/{each['metadata']['name']}")
    yard.pump()  # the world has not decided anything since, and nobody has these GPUs now
    with yard.state.lock:
        free = yard.state.books.open_gpus("n1")
    assert [each.residents for each in free] == [()] * 4
    assert {each.free_gib for each in free} == {0}


def test_a_gang_does_not_come_to_a_gpu_that_somebody_got_after_the_snapshot() -> None:
    yard = yard_of()
    usual = yard._decide

    def slowly(snapshot: Snapshot) -> object:
        found = usual(snapshot)
        if len(yard.seen) == 1:
            one = read_pod(pod("quick", memory=4))
            with yard.state.lock:
                yard.state.books.reserve(one, "n1", (0,), 1)
            assert one.request == GpuRequest(4)
        return found

    yard._decide = slowly  # type: ignore[method-assign, assignment]
    yard.submit("wide", 4)
    yard.run(until=200.0)
    assert yard.job("wide")["phase"] == "Waiting"
    yard.state.forget("uid-quick")
    yard.run()
    assert yard.phases() == {"wide": "Succeeded"}


# The same decisions as everywhere


@QUICK
@given(
    st.sampled_from(["fifo+tune", "las+proportional", "srtf+greedy"]),
    st.lists(st.tuples(st.integers(1, 4), st.integers(20, 300), st.integers(0, 1)), min_size=1, max_size=6),
)
def test_equal_snapshots_get_equal_plans(policy: str, jobs: list[tuple[int, int, int]]) -> None:
    """What the world of gangs shows is all that a policy goes by: facts that were taken apart decide the same."""
    yard = yard_of(policy=policy)
    for number, (gpus, iterations, priority) in enumerate(jobs):
        yard.submit(f"job{number}", gpus, iterations=iterations, priority=priority)
    yard.run(until=400.0)
    assert yard.seen
    for snapshot, decision in yard.seen:
        facts: Facts = snapshot.facts
        again = decide(resolve(policy), Snapshot.of(facts, load_zoo()))
        assert again.plan.jobs.tolist() == decision.plan.jobs.tolist()
        assert again.plan.gpu_ids.tolist() == decision.plan.gpu_ids.tolist()
        assert again.plan.amounts.tolist() == decision.plan.amounts.tolist()


# Whatever happens in between


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(20, 200), st.integers(0, 2)), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=6),
    st.integers(0, 30),
)
def test_every_job_ends_however_often_the_controller_dies(
    jobs: list[tuple[int, int, int]], deaths: list[tuple[int, bool]], fails_at: int
) -> None:
    """It dies before or after any request; another one finds all in the API server, and no pod is made twice."""
    yard = yard_of(policy="fifo+proportional")
    for number, (gpus, iterations, priority) in enumerate(jobs):
        yard.submit(f"job{number}", gpus, iterations=iterations, priority=priority)
    count = iter(range(10**9))
    yard.server.fails = lambda method, _path: 503 if method != "GET" and next(count) == fails_at else None
    for at, late in deaths:
        yard.api.dies_at, yard.api.dies_late = at, late
        try:
            yard.run()
            break
        except DeathError:
            yard.pump()
            before = yard.state.books.holdings()
            yard.start_controller()
            assert yard.state.books.holdings() == before
    yard.api.dies_at = None
    yard.run()
    assert set(yard.phases().values()) == {"Succeeded"}
    made = [each[2] for each in yard.server.events if each[1] == "ADDED" and "/pods/" in each[2]]
    assert len(made) == len(set(made))
    yard.check()
    assert not yard.state.books.holdings()
    assert {each["status"]["phase"] for each in yard.pods()} <= {"Succeeded", "Failed"}


def test_where_no_node_has_gpus_jobs_are_told_so_until_one_has() -> None:
    yard = GangYard()
    yard.add_node("n0", 0)
    yard.submit("early", 1, iterations=10)
    yard.pump()
    assert yard.controller.open_world(lambda: True) is None
    told = yard.job("early")
    assert (told["phase"], told["reason"]) == ("Waiting", "LacksNodes")
    assert "No node has GPUs" in told["message"]
    assert {each["type"]: each["status"] for each in told["conditions"]} == {"Placed": "False", "Finished": "False"}
    yard.pump()
    version = yard.server.version
    assert yard.controller.open_world(lambda: True) is None
    assert yard.server.version == version, "it is said once"
    yard.add_node("n1", 1)
    yard.run()
    assert yard.job("early")["phase"] == "Succeeded"
