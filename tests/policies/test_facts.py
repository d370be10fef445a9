"""Facts from any world are held to the rules: what is no number, or what contradicts itself, is named with its job."""

from typing import Any

import pytest
from tests.policies.scenarios.stories import Known, node, runs, scene, waits

from gpuyard.core.cluster import NodeKind
from gpuyard.core.errors import GpuyardError, InputError
from gpuyard.core.ledger import Ledger
from gpuyard.core.workload import Job
from gpuyard.policies.facts import Facts
from gpuyard.policies.snapshot import Snapshot

NAN, INF = float("nan"), float("inf")
JOB = Job(1, 0.0, 1, "res18", iterations=100)


def facts(known: dict[str, Any] | None = None, **world: Any) -> Facts:
    made = Facts(**({"now_s": 10.0} | world))
    made.add_node("a", NodeKind(gpus=2))
    made.add_job(JOB, **(known or {}))
    return made


def told(make: Any) -> str:
    with pytest.raises(InputError) as caught:
        make()
    return str(caught.value)


@pytest.mark.parametrize("name", ["now_s", "move_cost_s", "start_cost_s"])
@pytest.mark.parametrize("value", [NAN, INF, -INF, "x", True, 10**400])
def test_numbers_of_the_world(name: str, value: Any) -> None:
    assert told(lambda: Snapshot.of(facts(**{name: value}))).startswith(f"field {name}: ")


@pytest.mark.parametrize(
    "name",
    ["done_iterations", "attained_s", "waiting_since_s", "longest_wait_s", "speed", "held_since_s", "works_from_s"],
)
@pytest.mark.parametrize("value", [NAN, INF, "x", 1e300])
def test_numbers_of_a_job(name: str, value: object) -> None:
    assert told(lambda: Snapshot.of(facts({name: value}))).startswith(f"field {name} of job 1: ")


@pytest.mark.parametrize("name", ["done_iterations", "attained_s", "longest_wait_s", "speed"])
def test_what_cannot_be_negative(name: str) -> None:
    assert "-5.0 must be a finite number, 0 or more" in told(lambda: Snapshot.of(facts({name: -5.0})))


@pytest.mark.parametrize("value", [NAN, INF, -1.0, "x", 1e300])
def test_quotas(value: object) -> None:
    assert told(lambda: Snapshot.of(facts(quotas={"default": value}))).startswith("field quotas: ")


@pytest.mark.parametrize("gpus", [[], None, "ab", [("a", "x")], [("a", 0.5)], [(0, 0)], [("a",)], 3])
def test_gpus_that_are_none(gpus: Any) -> None:
    assert "must be pairs of a node's name and the number of a GPU" in told(lambda: facts().hold(1, gpus))


@pytest.mark.parametrize("amount", [NAN, INF, -1.0, "x"])
def test_amounts_that_are_none(amount: Any) -> None:
    assert told(lambda: facts().hold(1, [("a", 0)], cpus=amount)).startswith("field holds, cpus: ")


@pytest.mark.parametrize(
    ("add", "says"),
    [
        (lambda: facts({"colour": 1}), "'colour' is not known of a job"),
        (lambda: facts().add_job("me"), "field job: 'me' must be a Job"),  # type: ignore[arg-type]
        (lambda: facts().add_node("b", 8), "field kind: 8 must be a NodeKind"),  # type: ignore[arg-type]
        (lambda: facts().add_node(3, NodeKind()), "field name: 3 must be the name of a node"),  # type: ignore[arg-type]
        (lambda: NodeKind(gpus="8"), "field gpus: '8' must be a whole number"),  # type: ignore[arg-type]
        (lambda: NodeKind(gpus=10**12), "1000000000000 GPUs are more than gpuyard simulates: 10000000 at most"),
        (lambda: NodeKind(gpu_type=" "), "field gpu_type: ' ' must be the name of a GPU type"),
    ],
)
def test_what_is_of_another_kind(add: Any, says: str) -> None:
    assert says in told(add)


def test_a_ledger_has_a_limit() -> None:
    ledger = Ledger()
    ledger.add_node("a", NodeKind(gpus=2))
    with pytest.raises(GpuyardError, match="10000002 GPUs are more than a ledger holds: 10000000 at most"):
        ledger.add_node("b", NodeKind(gpus=10_000_000))
    assert ledger.nodes == ("a",)


def test_what_is_right_is_taken() -> None:
    held = facts({"done_iterations": 100, "works_from_s": 20.0, "held_since_s": 10})
    held.hold(1, [("a", 1)], cpus=3)
    assert Snapshot.of(held).running.tolist() == [True]


def test_a_stated_attained_time_stands_however_long_a_start_takes() -> None:
    """r has held its GPU for 30 s: less than the two starts that it would be taken to have had."""
    r, w = runs("r", "a0", attained_s=30.0), waits("w", attained_s=100.0, waiting_since_s=900.0)
    world = scene(node("a", 1), r, w, now=1000.0, start_cost_s=60.0)
    assert world.attained_s.tolist() == [30.0, 100.0]


@pytest.mark.parametrize("done", [0.1, 32.579648636138145, 42.371686846861635])
@pytest.mark.parametrize("works_from_s", [1.0, 1234.5678])
def test_what_a_running_job_has_done_comes_back_to_the_last_digit(done: float, works_from_s: float) -> None:
    """Also where it has worked for so long that at its speed it would have done far more."""
    made = facts({"done_iterations": done, "works_from_s": works_from_s, "attained_s": 9000.0}, now_s=9876.54321)
    made.hold(1, [("a", 0)], cpus=3.0, memory_gb=62.5)
    assert Snapshot.of(made).facts.jobs[1].done_iterations == done


def test_a_duration_was_recorded_on_the_kind_with_most_gpus_wherever_its_nodes_stand() -> None:
    """4 V100s on two nodes and 3 T4s between them. On a T4 the job is half as fast, and would have done 500."""
    one = Known(Job("x", 0.0, 1, "modern", duration_s=1000.0), {}, (), {})
    nodes = [node("v", 2), node("t", 3, gpu_type="T4"), node("w", 2)]
    assert scene(*nodes, one).iterations.tolist() == [1000.0]


def test_a_speed_that_nobody_states_is_that_of_the_gpus_that_a_job_has() -> None:
    """Spread over two nodes half as fast, on an A100 twice; one that waits is as fast as it can be."""
    snapshot = scene(
        node("a", 1), node("b", 1), node("c", 1, gpu_type="A100"), node("d", 1, gpu_type="T4"),
        runs("spread", "a0 b0"), runs("fast", "c0", "modern", cpus=3.0), runs("slow", "d0", "modern", cpus=3.0),
        waits("waits", model="modern"),
    )  # fmt: skip
    assert dict(zip(snapshot.job_id.tolist(), snapshot.pace.tolist(), strict=True)) == {
        "spread": 0.5, "fast": 1.0, "slow": 0.25, "waits": 1.0,
    }  # fmt: skip
