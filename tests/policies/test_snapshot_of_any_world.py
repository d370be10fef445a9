"""Snapshots of any world: ids of all sorts, several looks at one instant, jobs that fit nowhere."""

import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.builders import cluster, job, workload, zoo
from tests.policies.scenarios.stories import node, runs, scene, told, waits

from gpuyard.core.books import give_back, take
from gpuyard.core.cluster import NodeKind
from gpuyard.core.errors import LedgerError
from gpuyard.core.ledger import Ledger
from gpuyard.core.workload import Job
from gpuyard.policies.controller import control
from gpuyard.policies.decide import decide
from gpuyard.policies.facts import Facts
from gpuyard.policies.named_plan import carry_out, named_plan
from gpuyard.policies.plan import Keys
from gpuyard.policies.policy import Policy
from gpuyard.policies.resolve import resolve
from gpuyard.policies.snapshot import Snapshot, moment_of
from gpuyard.profiles import load_zoo
from gpuyard.simulation.opening import find_policy, open_cluster
from gpuyard.simulation.options import Options

NODE = NodeKind(gpus=2, cpus=6, memory_gb=125)


def facts(*jobs: Job) -> Facts:
    found = Facts(100.0)
    found.add_node("a", NODE)
    for each in jobs:
        found.add_job(each)
    return found


@pytest.mark.parametrize("ids", [("7", "8"), (1, "a"), (3, 2), ("x-1", "x-0")])
def test_ids_stay_as_the_world_spells_them(ids: tuple[object, ...], tmp_path: Path) -> None:
    made = Snapshot.of(facts(*(Job(name, 0.0, 1, "res50", iterations=9) for name in ids)))  # type: ignore[arg-type]
    made.save(tmp_path / "it.json")
    for snapshot in (made, Snapshot.load(tmp_path / "it.json"), pickle.loads(pickle.dumps(made))):
        assert snapshot == made
        plan = named_plan(snapshot, decide(resolve("fifo+tune"), snapshot))
        assert [entry["job"] for entry in plan["start"]] == list(ids)


def test_facts_from_tables_of_numpy_go_into_the_file_too(tmp_path: Path) -> None:
    found = Facts(100.0)
    found.add_node("a", NodeKind(gpus=np.int64(2), cpus=np.float32(6), memory_gb=np.int64(125)))  # type: ignore[arg-type]
    found.add_job(Job(np.int64(7), 0.0, np.int32(1), "res50", iterations=np.float32(9)))  # type: ignore[arg-type]
    found.hold(np.int64(7), [("a", np.int64(1))], cpus=np.float32(3))  # type: ignore[list-item, arg-type]
    made = Snapshot.of(found)
    made.save(tmp_path / "it.json")
    loaded = Snapshot.load(tmp_path / "it.json")
    assert loaded == made
    assert loaded.facts.jobs[7].holds == made.facts.jobs[7].holds


def test_all_snapshots_of_one_instant_stay_as_they_are() -> None:
    policy, options = resolve("fifo+tune"), Options()
    world = open_cluster(cluster("1x4"), workload(*(job(i) for i in range(6))), policy, options, zoo())
    assert world.wait(None)
    first, second = world.snapshot(), world.snapshot()
    decision = decide(policy, second)
    world.apply(decision)
    assert not first.running.any()
    assert not second.running.any()
    assert world.snapshot().running.sum() == 4


def test_who_waits_is_expected_to_run_as_its_allocation_lets_it_in_any_world() -> None:
    """Whatever that world takes for the speed of a job without GPUs: here, the best that it could have."""
    seen: list[list[float]] = []

    def look(snapshot: Snapshot) -> Keys:
        seen.append(snapshot.pace.tolist())
        return Keys(snapshot.remaining_s)

    waiting = Snapshot.of(facts(Job("starved of CPUs", 0.0, 1, "res18", iterations=9)))
    decide(Policy("look+proportional", look, resolve("srtf+proportional").allocate), waiting)
    assert seen == [[1.0]]


def test_facts_of_a_faithful_run_count_what_its_columns_count() -> None:
    options = Options(faithful=True, skip=False)
    seen: list[tuple[list[float], list[float]]] = []
    policy = find_policy("fifo+tune", options)

    def look(snapshot: Snapshot) -> Keys:
        left = [fact.job.iterations - fact.done_iterations for fact in snapshot.facts.jobs.values()]
        seen.append((left, snapshot.remaining_iterations.tolist()))
        return Keys(snapshot.arrival_s)

    looking = Policy("look", look, policy.allocate, keeps_progress=False, knows_priorities=False)
    world = open_cluster(cluster("1x2"), workload(job(0, hours=1)), looking, options, zoo())
    control(world, partial(decide, looking))
    assert len(seen) > 5
    assert all(left == pytest.approx(column) for left, column in seen)


def test_a_pickle_keeps_profiles_of_one_s_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "source: here\ngrid: {cpus: [1, 3], memory_gb: [20, 62.5]}\n"
        "models:\n  mine: {iteration_s: 2.0, throughput: [[0.5, 0.5], [1.0, 1.0]]}\n"
    )
    made = Snapshot.of(facts(Job("own", 0.0, 1, "mine", iterations=30)), load_zoo([file]))
    assert pickle.loads(pickle.dumps(made)).remaining_s.tolist() == made.remaining_s.tolist() == [60.0]


def test_a_job_that_fits_nowhere_waits_and_the_others_do_not() -> None:
    """A node has left since the job came; that is no reason to decide nothing."""
    wide = Job("wide", 0.0, 5, "res50", iterations=9)
    elsewhere = Job("elsewhere", 0.0, 1, "res50", iterations=9, gpu_types="K80")
    snapshot = Snapshot.of(facts(wide, elsewhere, Job("small", 1.0, 1, "res50", iterations=9)))
    for policy in ("fifo+tune", "srtf+proportional", "las+greedy", "drf+opt"):
        plan = named_plan(snapshot, decide(resolve(policy), snapshot))
        assert [entry["job"] for entry in plan["start"]] == ["small"]
        assert {entry["job"]: entry["reason"] for entry in plan["wait"]} == {"wide": "gpus", "elsewhere": "gpus"}


@pytest.mark.parametrize("policy", ["srtf+tune", "las+proportional", "ftf+tune", "fifo+tune"])
def test_a_job_whose_work_nobody_knows_counts_as_the_longest(policy: str, tmp_path: Path) -> None:
    known = facts(Job("endless", 0.0, 1, "res50"), Job("long", 1.0, 1, "res50", duration_s=1e9))
    Snapshot.of(known).save(tmp_path / "now.json")
    snapshot = Snapshot.load(tmp_path / "now.json")
    assert snapshot.remaining_s[0] > snapshot.remaining_s[1]
    plan = named_plan(snapshot, decide(resolve(policy), snapshot))
    assert {one["job"] for one in plan["start"]} == {"endless", "long"}


@pytest.mark.parametrize("order", ["srtf", "srsf", "ftf", "fifo"])
def test_of_jobs_whose_work_nobody_knows_the_first_to_come_goes_first(order: str) -> None:
    snapshot = Snapshot.of(
        facts(*(Job(name, at, 2, model) for name, at, model in [("b", 9.0, "gnmt"), ("a", 5.0, "res50")]))
    )
    plan = named_plan(snapshot, decide(resolve(f"{order}+proportional"), snapshot))
    assert [one["job"] for one in plan["start"]] == ["a"]


def test_a_plan_tells_and_gives_the_part_of_a_gpu_that_a_slice_needs() -> None:
    snapshot = scene(node("a", 1), waits("x", 0.25), waits("y", 0.75, at=1))
    decision = told("fifo+proportional", snapshot).decision
    shares = {one["job"]: one["gpus"][0]["share"] for one in named_plan(snapshot, decision)["start"]}
    assert shares == {"x": 0.25, "y": 0.75}
    ledger = Ledger()
    ledger.add_node("a", node("a", 1).kind)
    carry_out(snapshot, decision, ledger)
    assert {grant.holder: grant.gpus for grant in ledger.grants()} == {"x": 0.25, "y": 0.75}


@pytest.mark.parametrize("came_last", [0, 1])
def test_of_equals_on_one_gpu_the_same_one_gets_more_whoever_came_there_last(came_last: int) -> None:
    """Each half of a0 has 1.5 CPUs and could use 3; 1.5 of 6 are left, enough for one. No file tells who came last."""
    halves = [
        runs(name, "a1" if model == "even" else "a0", model, share=0.5, cpus=1.5, at=at)
        for at, (name, model) in enumerate([("x", "hungry"), ("y", "hungry"), ("z", "even")])
    ]
    snapshot = scene(node("a", 2), *halves)
    books = moment_of(snapshot).tables.books
    amounts = books.line_amounts[books.first_line[came_last]].copy()
    give_back(books, came_last)
    assert take(books, came_last, np.array([0], dtype=np.int32), amounts)
    cpus = {name: amounts[0] for name, amounts in told("fifo+tune", snapshot).amounts.items()}
    assert cpus["x"] == 3.0
    assert cpus.get("y", 1.5) == 1.5


def test_the_memory_of_a_gpu_that_is_only_named_is_that_of_its_kind_in_the_file_too(tmp_path: Path) -> None:
    """A K80 has 12 GB; taken for the usual GPU, of 34 GB, it held what could not be loaded again."""
    found = Facts(0.0)
    found.add_node("a", NodeKind(gpus=1, gpu_type="Tesla-K80"))
    found.add_node("b", NodeKind(gpus=1, gpu_type="A100", gpu_memory_gb=NODE.gpu_memory_gb))
    found.add_job(Job("x", 0.0, 1, "res50", iterations=9))
    found.hold("x", [("a", 0)], gpu_memory_gb=20.0)
    with pytest.raises(LedgerError, match=r"1000 thousandths and 11\.99\d* GB of it are free"):
        Snapshot.of(found)
    found.hold("x", [("a", 0)], gpu_memory_gb=11.0)
    made = Snapshot.of(found)
    made.save(tmp_path / "it.json")
    assert Snapshot.load(tmp_path / "it.json") == made
    assert made.cluster.gpu_types == ("K80", "A100")


def test_a_file_says_how_much_memory_a_gpu_has(tmp_path: Path) -> None:
    """Also where that is just as much as the usual GPU has."""
    path = tmp_path / "it.json"
    Snapshot.of(facts(job(0))).save(path)
    path.write_text(path.read_text().replace('"V100"', '"A100"'))
    kind = Snapshot.load(path).cluster.kinds[0]
    assert (kind.gpu_type, kind.gpu_memory_gb) == ("A100", NODE.gpu_memory_gb)
