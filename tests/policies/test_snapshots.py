"""A snapshot is a value: it never changes, nobody can write into a world through it, it goes into files and back."""

import pickle
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import examples, job, zoo
from tests.policies.scenarios.stories import node, scene, waits
from tests.simulation.test_properties import ORDERS, PLACEMENTS, World, worlds

from gpuyard.core.arrays import Floats
from gpuyard.core.cluster import Cluster, NodeKind
from gpuyard.core.workload import Job, Workload
from gpuyard.policies.controller import control
from gpuyard.policies.decide import decide
from gpuyard.policies.facts import Facts, opening_facts
from gpuyard.policies.named_plan import named_plan
from gpuyard.policies.resolve import resolve
from gpuyard.policies.snapshot import Snapshot
from gpuyard.profiles import gpu_kind
from gpuyard.simulation.engine import simulate_cluster
from gpuyard.simulation.opening import open_cluster

COLUMNS = tuple(
    name
    for name, value in vars(Snapshot).items()
    if isinstance(value, property) and not name.startswith("_") and name not in ("active", "facts")
)
"""All that a policy can read, apart from the jobs' numbers, which are the world's own."""


def columns(snapshot: Snapshot) -> dict[str, Any]:
    """Every column as plain values."""
    found = {name: getattr(snapshot, name).tolist() for name in COLUMNS}
    found["works_from_s"] = snapshot.works_from_s[snapshot.running].tolist()  # it says nothing of who waits
    return found | {"now": snapshot.now, "costs": (snapshot.move_cost_s, snapshot.start_cost_s)}


WORK_LEFT = ("remaining_iterations", "remaining_s")
"""Columns that are told from a line through what was done: after a file, the same but for the last bit or two."""


def nearly(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether columns are the same, and work left is but for rounding."""
    exact = all(found[name] == wanted[name] for name in wanted if name not in WORK_LEFT)
    return exact and all(np.allclose(found[name], wanted[name], rtol=1e-12, atol=0) for name in WORK_LEFT)


def plans(snapshot: Snapshot, policies: list[str], placement: str) -> dict[str, dict[str, list[Any]]]:
    """What each policy decides, by names; it does not matter who is named first."""
    found = {}
    for name in policies:
        plan = named_plan(snapshot, decide(resolve(name, placement=placement), snapshot))
        found[name] = {what: sorted(entries, key=lambda entry: str(entry["job"])) for what, entries in plan.items()}
    return found


Seen = tuple[Snapshot, dict[str, Any], list[int]]
"""A snapshot, and the columns and job numbers that it showed when it was taken."""


class Watched:
    """A simulated world that keeps some of the snapshots it gives."""

    def __init__(self, world: World, every: int) -> None:
        options = world.options
        self.policy = resolve(world.policy, placement=options.placement)
        self._cluster = open_cluster(
            world.cluster.with_gpus(gpu_kind), world.workload, self.policy, options, zoo()
        )  # fmt: skip
        self._every = every
        self.kept: list[Seen] = []
        self.wait, self.apply = self._cluster.wait, self._cluster.apply
        control(self, partial(decide, self.policy))

    @property
    def now(self) -> float:
        return self._cluster.now

    def snapshot(self) -> Snapshot:
        found = self._cluster.snapshot()
        if self._cluster.decisions % self._every == 0 and len(self.kept) < 20:
            self.kept.append((found, columns(found), found.active.tolist()))
        return found


def test_there_are_columns_to_compare() -> None:
    assert {"job_id", "gpus", "running", "remaining_s", "attained_s", "waiting_s", "demand", "totals"} <= set(COLUMNS)


@settings(max_examples=examples(25))
@given(worlds(), st.integers(1, 4))
def test_a_snapshot_shows_the_same_after_the_run_as_when_it_was_taken(world: World, every: int) -> None:
    for snapshot, before, numbers in Watched(world, every).kept:
        assert columns(snapshot) == before
        assert snapshot.active.tolist() == numbers


SHIPPED = [f"{order}+{allocate}" for order in ORDERS for allocate in ("proportional", "greedy", "tune")]


@settings(max_examples=examples(15))
@given(worlds(), st.integers(1, 4), st.sampled_from(PLACEMENTS))
def test_through_a_file_or_a_pickle_it_shows_the_same_and_leads_to_the_same_plan(
    tmp_path_factory: pytest.TempPathFactory, world: World, every: int, placement: str
) -> None:
    path = tmp_path_factory.mktemp("snapshots") / "it.json"
    for snapshot, before, _ in Watched(world, every).kept[:4]:
        snapshot.save(path)
        first_time = path.read_bytes()
        for copy in (Snapshot.load(path), pickle.loads(pickle.dumps(snapshot))):
            assert nearly(columns(copy), before)
            copy.save(path)
            assert path.read_bytes() == first_time
            assert plans(copy, SHIPPED, placement) == plans(snapshot, SHIPPED, placement)


@settings(max_examples=examples(5))
@given(worlds(allocate=("tune",), slices=False))
def test_opt_makes_the_same_plan_of_it_too(tmp_path_factory: pytest.TempPathFactory, world: World) -> None:
    path = tmp_path_factory.mktemp("snapshots") / "it.json"
    snapshot, _, _ = Watched(world, 3).kept[-1]
    snapshot.save(path)
    policies = ["fifo+opt:time_limit=60s"]
    assert plans(Snapshot.load(path), policies, "best-fit") == plans(snapshot, policies, "best-fit")


def test_it_says_the_same_before_and_after_its_plan_was_applied() -> None:
    kept: list[Snapshot] = []

    def keeping(snapshot: Snapshot) -> Floats:
        kept.append(snapshot)
        return snapshot.arrival_s

    policy = replace(resolve("fifo+tune"), order=keeping)
    simulate_cluster(Cluster.parse("1x2"), Workload.from_jobs([job(0), job(1), job(2)]), policy, zoo=zoo())
    assert kept[0].running.tolist() == [False, False, False]
    assert kept[1].running.any()


def vandal(snapshot: Snapshot) -> Floats:
    """An order that writes into everything that it is given, as far as it is let."""
    for name in (*COLUMNS, "active"):
        array = getattr(snapshot, name)
        if array.flags.writeable and array.dtype.kind in "ifb":
            array[...] = 1
    for name in ("node_kind", "node_gpus", "capacity"):
        array = getattr(snapshot.cluster, name)
        if array.flags.writeable:
            array[...] = 0
    return snapshot.arrival_s


def test_an_order_cannot_write_into_the_books() -> None:
    """Three kinds of node, so that a job's kind matters; the same finishes as under an order that only reads."""
    text = "1x2:cpus=6,memory=125GB+1x2:cpus=12,memory=250GB,type=A100+1x4:cpus=8,memory=100GB"
    jobs = [job(i, model, at=i * 400.0, gpus=1 + i % 2) for i, model in enumerate(["alexnet", "gnmt", "res18"] * 4)]
    results = []
    for order in (vandal, lambda snapshot: snapshot.arrival_s):
        policy = replace(resolve("fifo+tune"), order=order)
        results.append(simulate_cluster(Cluster.parse(text), Workload.from_jobs(jobs), policy, zoo=zoo()).jobs)
    assert results[0].equals(results[1])


@pytest.mark.parametrize("name", ["now", "cluster", "quotas", "move_cost_s", "start_cost_s", "running", "a_note"])
def test_what_it_says_cannot_be_exchanged(name: str) -> None:
    snapshot = scene(node("a"), waits("x"))
    with pytest.raises(AttributeError, match=name):
        setattr(snapshot, name, None)
    with pytest.raises(AttributeError, match=name):
        delattr(snapshot, name)


def test_its_numbers_are_not_the_world_s_own() -> None:
    snapshot = scene(node("a"), waits("x"))
    numbers = snapshot.active
    numbers.flags.writeable = True
    numbers[...] = 7
    assert snapshot.active.tolist() == [0]


def test_its_quotas_cannot_be_changed() -> None:
    given_by_a_user = {"t": 2.0}
    snapshot: Any = scene(node("a"), waits("x"), quotas=given_by_a_user)
    with pytest.raises(TypeError):
        snapshot.quotas["t"] = 4.0
    given_by_a_user["t"] = 4.0
    assert dict(snapshot.quotas) == {"t": 2.0}


def test_what_is_left_of_a_start_goes_into_the_file_and_back(tmp_path: Path) -> None:
    """ "worked" has worked for 400 s since a start of 100 s, "young" for 50 s: only "young" may go on before others."""
    jobs = [
        job(0, "generic"), job(1, "generic", at=5000.0), job(2, "generic", at=5000.0),
        job(3, "generic", at=5000.0), job(4, "generic", at=5000.0),
    ]  # fmt: skip
    snapshot = Snapshot.of(opening_facts(Cluster.parse("1x2"), Workload.from_jobs(jobs), now_s=5000.0))
    facts = snapshot.facts
    facts.start_cost_s = 100.0
    facts.jobs[0] = replace(facts.jobs[0], attained_s=900.0, works_from_s=4600.0)
    facts.jobs[1] = replace(facts.jobs[1], attained_s=900.0, works_from_s=4950.0)
    facts.hold(0, [("node0", 0)], cpus=1.0)
    facts.hold(1, [("node0", 1)], cpus=1.0)
    made = Snapshot.of(facts)
    made.save(tmp_path / "it.json")
    for each in (made, Snapshot.load(tmp_path / "it.json")):
        plan = named_plan(each, decide(resolve("las+tune"), each))
        assert [entry["job"] for entry in plan["stop"]] == [0]


THREE_LINES = """
import sys
from gpuyard.core.cluster import NodeKind
from gpuyard.core.workload import Job
from gpuyard.policies.facts import Facts
from gpuyard.policies.snapshot import Snapshot

def narrow_first(snapshot):
    return snapshot.gpus * snapshot.remaining_s

facts = Facts(10.0)
facts.add_node("a", NodeKind())
facts.add_job(Job(1, 0.0, 2, "res50", iterations=100))
facts.hold(1, [("a", 0), ("a", 1)], cpus=6.0)
Snapshot.of(facts).save(sys.argv[1])
print(narrow_first(Snapshot.load(sys.argv[1])).tolist())
print(*[name for name in ("numba", "scipy", "polars", "typer") if name in sys.modules])
"""


def test_a_snapshot_and_an_order_of_three_lines_need_neither_numba_nor_scipy(tmp_path: Path) -> None:
    command = [sys.executable, "-c", THREE_LINES, str(tmp_path / "it.json")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert np.isfinite(eval(printed[0])).all()
    assert printed[1] == ""


def test_a_job_that_still_starts_up_does_so_after_loading(tmp_path: Path) -> None:
    facts = Facts(100.0)
    facts.add_node("a", Cluster.parse("1x4").kinds[0])
    facts.add_job(job(1, "generic", iterations=900.0), done_iterations=10.0, works_from_s=160.0)
    facts.hold(1, [("a", 3)], cpus=1.0)
    Snapshot.of(facts).save(tmp_path / "it.json")
    loaded = Snapshot.load(tmp_path / "it.json")
    assert loaded.works_from_s.tolist() == [160.0]
    assert loaded.remaining_iterations.tolist() == [890.0]


def test_whole_numbers_are_taken_as_any_others() -> None:
    """Kernels tell 60 from 60.0, and would be compiled anew for it."""
    facts = Facts(100, move_cost_s=60, start_cost_s=30)
    facts.add_node("a", NodeKind(gpus=1))
    facts.add_job(Job("x", 0, 1, "res50", iterations=100))
    snapshot = Snapshot.of(facts)
    assert [type(value) for value in (snapshot.now, snapshot.move_cost_s, snapshot.start_cost_s)] == [float] * 3
