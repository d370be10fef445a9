"""A simulation that goes on from a snapshot: it begins as `decide` would, and ends as the run would have."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tests.builders import cluster, examples, job, run, workload, zoo

from gpuyard import simulate
from gpuyard.core.cluster import NodeKind
from gpuyard.core.errors import InputError, StallError
from gpuyard.core.grants import GrantState
from gpuyard.core.units import LARGEST
from gpuyard.core.workload import Job
from gpuyard.policies.decide import Decision, decide
from gpuyard.policies.facts import Facts
from gpuyard.policies.named_plan import named_plan
from gpuyard.policies.policy import Policy
from gpuyard.policies.resolve import resolve
from gpuyard.policies.snapshot import Snapshot
from gpuyard.policies.snapshot_files import read_facts, write_facts
from gpuyard.results import Run
from gpuyard.simulation.opening import find_policy
from gpuyard.simulation.options import Options, make_options
from gpuyard.simulation.resumed_cluster import ResumedCluster

NODE = NodeKind(gpus=2, cpus=6, memory_gb=125)
HOUR = 3600.0
POLICIES = ("fifo+tune", "srtf+proportional", "las+tune", "ftf+greedy", "srsf+tune")


def going_on(facts: Facts, path: Path, policy: str = "fifo+proportional", **options: Any) -> Run:
    """The run that goes on from these facts, as a file says them."""
    write_facts(facts, path)
    return simulate(policy=policy, options=make_options({"snapshot": str(path), "round": 60} | options))


SPEEDS = [None, 0.3]


def facts(*jobs: Job, now_s: float = 1000.0, **costs: float) -> Facts:
    """A node with two GPUs and these jobs, which wait."""
    found = Facts(now_s, **costs)  # type: ignore[arg-type]
    found.add_node("a", NODE)
    for each in jobs:
        found.add_job(each)
    return found


def finish(done: Run) -> dict[Any, Any]:
    """When each job is done."""
    return dict(zip(done.jobs["job_id"], done.jobs["finish_s"], strict=True))


@st.composite
def worlds(draw: st.DrawFn) -> Facts:
    """Random nodes; jobs that run there, whole or as slices, are on the way out or wait; and a stranger."""
    found = Facts(
        5000.0, move_cost_s=draw(st.sampled_from([0.0, 60.0])), start_cost_s=draw(st.sampled_from([0.0, 30.0]))
    )
    free: list[tuple[str, int]] = []
    for number in range(draw(st.integers(1, 3))):
        kind = NodeKind(
            gpus=draw(st.integers(1, 4)), cpus=12, memory_gb=250, gpu_type=draw(st.sampled_from(["V100", "K80"]))
        )
        found.add_node(f"n{number}", kind, up=number == 0 or draw(st.booleans()))
        free += [(f"n{number}", gpu) for gpu in range(kind.gpus) if found.nodes[f"n{number}"].up]
    for number in range(draw(st.integers(1, 7))):
        wide = draw(st.sampled_from([0.5, 1, 1, 2]))
        known = draw(st.booleans())
        each = Job(
            f"j{number}", draw(st.sampled_from([0.0, 10.0, 4000.0])), wide,
            draw(st.sampled_from(["res18", "gnmt", "lstm"])),
            iterations=draw(st.sampled_from([1e4, 3e5])) if known else float("nan"),
            tenant=draw(st.sampled_from(["x", "y"])), priority=draw(st.sampled_from([0, 0, 1])),
        )  # fmt: skip
        found.add_job(
            each, done_iterations=draw(st.sampled_from([0.0, 5000.0])), attained_s=draw(st.sampled_from([0.0, 900.0])),
            speed=draw(st.sampled_from(SPEEDS)),
        )  # fmt: skip
        count = max(int(wide), 1)
        here = [place for place in free if place[0] == free[0][0]][:count] if free else []
        if len(here) == count and draw(st.booleans()):
            free = [place for place in free if place not in here]
            state = draw(st.sampled_from([GrantState.HELD, GrantState.HELD, GrantState.RELEASING, GrantState.RESERVED]))
            found.hold(each.job_id, here, cpus=2.0 * count, memory_gb=20.0 * count, state=state)
    if draw(st.booleans()) and free:
        found.occupy("stranger", [free[0]], cpus=1.0)
    if draw(st.booleans()):
        found.quotas = {"x": 2.0}
    return found


@hypothesis_settings(max_examples=examples(60), deadline=None)
@given(worlds(), st.sampled_from(POLICIES))
def test_the_first_plan_is_that_of_decide_and_it_can_be_carried_out(
    tmp_path_factory: pytest.TempPathFactory, found: Facts, policy: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "world.json"
    write_facts(found, path)
    seen, chosen = Snapshot.load(path), resolve(policy)
    expected = named_plan(seen, decide(chosen, seen))
    options = Options(
        until_s=3 * HOUR, quota=found.quotas, migration_cost_s=found.move_cost_s, restart_cost_s=found.start_cost_s,
        round_s=60.0,
    )  # fmt: skip
    world = ResumedCluster(read_facts(path), chosen, options, zoo())
    first: Decision | None = None
    if world.wait(None):
        snapshot = world.snapshot()
        for column in ("pace", "attained_s", "remaining_iterations", "arrival_s", "running"):
            if snapshot.now == seen.now and len(snapshot.active) == len(seen.active):
                assert getattr(snapshot, column).tolist() == getattr(seen, column).tolist()
        first = decide(chosen, snapshot)
        if any(fact.holds is None or fact.holds.state != GrantState.RELEASING for fact in found.jobs.values()):
            assert named_plan(snapshot, first) == expected
        last = first
        world.apply(last)
        world.ledger.check()
        while world.wait(last):
            last = decide(chosen, world.snapshot())
            world.apply(last)
            world.ledger.check()
    assert world.now <= found.now_s + 3 * HOUR


class _Midway:
    """A policy's order that saves the snapshot of one instant on the way."""

    def __init__(self, policy: Policy, at_s: float, path: Path) -> None:
        self._order, self._at_s, self._path = policy.order, at_s, path
        self.saved = False

    def __call__(self, snapshot: Snapshot) -> Any:
        if not self.saved and snapshot.now >= self._at_s:
            snapshot.save(self._path)
            self.saved = True
        return self._order(snapshot)


@pytest.mark.parametrize("policy", ["fifo+tune", "srtf+proportional", "las+tune"])
def test_a_run_that_is_resumed_from_its_own_snapshot_ends_as_it_did(policy: str, tmp_path: Path) -> None:
    jobs = [job(n, model, at=n * 400.0, gpus=g, hours=h) for n, (model, g, h) in enumerate(
        [("res18", 1, 1.0), ("gnmt", 2, 2.0), ("lstm", 4, 0.5), ("res50", 1, 3.0), ("gnmt", 4, 1.0), ("lstm", 8, 0.2)]
    )]  # fmt: skip
    options = Options(migration_cost_s=20.0, restart_cost_s=40.0)
    chosen = find_policy(policy, options)
    midway = _Midway(chosen, 2400.0, tmp_path / "now.json")
    whole = run("2x4", jobs, Policy(policy, midway, chosen.allocate), options)
    assert midway.saved
    rest = simulate(policy=policy, options=Options(snapshot=str(tmp_path / "now.json")))
    ended = finish(whole)
    later = finish(rest)
    assert later == pytest.approx({name: ended[name] for name in later})
    assert len(later) >= 4


def test_who_was_on_the_way_out_leaves_and_starts_again_and_strangers_stay(tmp_path: Path) -> None:
    found = facts(job(1, "res18", hours=1), job(2, "res18", gpus=2, hours=0.5))
    found.hold(1, [("a", 0)], cpus=3.0, memory_gb=62.5, state=GrantState.RELEASING)
    done = finish(going_on(found, tmp_path / "now.json"))
    assert done[1] == pytest.approx(1000 + 60 + 3600)  # from the next round on
    assert done[2] == pytest.approx(1000 + 60 + 3600 + 1800)
    found = facts(job(1, "res18", hours=1), job(3, "res18", hours=1))
    found.occupy("them", [("a", 0)])
    over = going_on(found, tmp_path / "now.json")
    assert finish(over) == {"1": pytest.approx(4600), "3": pytest.approx(8200, abs=61), "them": None}
    assert over.summary["unfinished"] == 0


def test_use_and_makespan_count_from_the_snapshot(tmp_path: Path) -> None:
    over = going_on(facts(job(1, "res18", hours=1), now_s=1e6), tmp_path / "now.json")
    assert over.summary["makespan_h"] == pytest.approx(1.0)
    assert over.summary["gpu_use"] == pytest.approx(0.5)
    assert over.summary["mean_jct_h"] == pytest.approx(1 + 1e6 / HOUR)


def test_work_that_nobody_knows_ends_as_the_option_says_and_no_policy_is_told(tmp_path: Path) -> None:
    """srtf would else let the endless one go first: it has half an hour, and the other an hour."""
    endless = Job(1, 10.0, 2, "res18")
    found = facts(endless, job(2, "res18", gpus=2, hours=1))
    over = going_on(found, tmp_path / "now.json", policy="srtf+proportional", **{"unknown_duration": "30m"})
    assert finish(over) == {1: pytest.approx(1000 + 5400, abs=61), 2: pytest.approx(1000 + 3600)}
    assert max(over.jobs["iterations"].to_list()) < LARGEST


def test_work_that_nobody_knows_goes_on_from_what_is_done(tmp_path: Path) -> None:
    found = facts()
    found.add_job(Job(1, 10.0, 1, "res18"), done_iterations=1e6)
    over = going_on(found, tmp_path / "now.json", **{"unknown_duration": "30m"})
    assert finish(over) == {1: pytest.approx(1000 + 1800)}


def test_at_the_horizon_it_ends_whoever_runs(tmp_path: Path) -> None:
    found = facts(Job(1, 10.0, 1, "res18"), job(2, "res18", hours=1), job(3, "res18", gpus=4))
    over = going_on(found, tmp_path / "now.json", until="90m")
    assert finish(over) == {1: None, 2: pytest.approx(4600), 3: None}
    assert over.info["end_s"] == 1000 + 5400
    assert over.timeline.filter(over.timeline["job_id"] == 1)["end_s"].to_list() == [6400]


def test_a_horizon_ends_any_simulation() -> None:
    over = run("1x1", [job(1, hours=2), job(2, hours=1)], "fifo+tune", Options(until_s=HOUR))
    assert over.info["end_s"] == HOUR
    assert finish(over) == {1: None, 2: None}


@pytest.mark.parametrize(
    ("jobs", "says"),
    [
        ([Job("x", 0.0, 1, "res18")], "how much work job x is.*unknown-duration TIME, or --until TIME"),
        ([job(1, gpus=3)], "GPUs for job 1 are more than the nodes"),
        ([job(1, gpus=2, tenant="small")], "GPUs for job 1 are more than the nodes, or its quota"),
    ],
)
def test_what_would_never_end_is_refused(jobs: list[Job], says: str, tmp_path: Path) -> None:
    found = facts(*jobs)
    found.quotas = {"small": 1.0}
    with pytest.raises(InputError, match=says):
        going_on(found, tmp_path / "now.json")
    assert finish(going_on(found, tmp_path / "now.json", until="1m")) == {jobs[0].job_id: None}


def test_a_policy_that_starts_nobody_is_found_out(tmp_path: Path) -> None:
    found = facts(job(1))
    found.add_node("b", NODE, up=False)
    found.nodes["a"] = replace(found.nodes["b"], name="a")
    with pytest.raises(StallError, match="nothing can happen"):
        going_on(found, tmp_path / "now.json")


@pytest.mark.parametrize(
    "option",
    [
        {"workload": "x.csv"}, {"cluster": "1x4"}, {"cluster": "16x8:cpus=24,memory=500GB"}, {"load": 9}, {"jobs": 3},
        {"migration_cost": 0}, {"restart_cost": "1m"}, {"quota": "a=3"}, {"faithful": True}, {"window": "0:1"},
        {"failure_rate": 3}, {"between": "1h:2h"}, {"recorded_on": "V100"},
    ],
    ids=str,
)  # fmt: skip
def test_what_a_snapshot_says_cannot_be_said_otherwise(option: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="contradicts snapshot") as told:
        going_on(facts(job(1)), tmp_path / "now.json", **option)
    assert told.value.field == next(iter(option))


def test_values_beside_a_snapshot_are_refused_too(tmp_path: Path) -> None:
    write_facts(facts(job(1)), tmp_path / "now.json")
    with pytest.raises(InputError, match="contradicts snapshot"):
        simulate(cluster("1x1"), options=Options(snapshot=str(tmp_path / "now.json")))
    with pytest.raises(InputError, match="contradicts snapshot"):
        simulate(workload=workload(job(1)), options=Options(snapshot=str(tmp_path / "now.json")))
    with pytest.raises(InputError, match="none is named"):
        Options(unknown_duration_s=3.0)
