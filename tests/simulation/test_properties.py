"""What holds whatever the cluster, the workload, the policy and the failures are."""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import examples, zoo

from gpuyard.core.arrays import Floats
from gpuyard.core.cluster import Cluster, NodeGroup, NodeKind
from gpuyard.core.workload import Job, Workload
from gpuyard.policies.controller import control
from gpuyard.policies.decide import decide
from gpuyard.policies.jobs import Jobs, build_jobs
from gpuyard.policies.plan import Keys
from gpuyard.policies.resolve import resolve
from gpuyard.policies.snapshot import Snapshot
from gpuyard.results import Run
from gpuyard.simulation.engine import simulate_cluster
from gpuyard.simulation.failures import node_events
from gpuyard.simulation.opening import open_cluster
from gpuyard.simulation.options import Failure, Options

ORDERS = ("fifo", "srtf", "srsf", "las", "ftf", "drf", "tetris")
ALLOCATIONS = ("proportional", "greedy", "tune")
PLACEMENTS = ("first-fit", "consolidating", "best-fit")
TYPES = ("V100", "A100", "T4")
AMOUNTS = ("cpus", "memory_gb", "storage_mbps")


class World(NamedTuple):
    """One drawn case."""

    cluster: Cluster
    workload: Workload
    policy: str
    options: Options

    def run(self, **changes: Any) -> Run:
        return simulate_cluster(self.cluster, self.workload, self.policy, replace(self.options, **changes), zoo=zoo())

    @property
    def facts(self) -> Jobs:
        return build_jobs(self.workload, self.cluster, zoo())

    @property
    def smooth(self) -> bool:
        """Nothing costs time, and nothing fails."""
        options = self.options
        return not (options.restart_cost_s or options.migration_cost_s or options.checkpoint_cost_s or options.failures)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    groups = []
    for _ in range(draw(st.integers(1, 3))):
        gpus = draw(st.sampled_from([1, 2, 4, 8]))
        kind = NodeKind(
            gpus=gpus,
            cpus=gpus * draw(st.sampled_from([2, 3, 4, 6, 2.5])),
            memory_gb=gpus * draw(st.sampled_from([30.0, 62.5, 100.0])),
            storage_mbps=gpus * draw(st.sampled_from([20.0, 62.5, 125.0])),
            gpu_type=draw(st.sampled_from(TYPES)),
        )
        groups.append(NodeGroup(draw(st.integers(1, 3)), kind))
    return Cluster(tuple(groups))


@st.composite
def jobs_for(draw: st.DrawFn, cluster: Cluster, *, slices: bool = True, least_s: float = 0.0) -> Workload:
    by_type = {
        name: sum(group.count * group.kind.gpus for group in cluster.groups if group.kind.gpu_type == name)
        for name in cluster.gpu_types
    }
    rows, at = [], 0.0
    for job_id in range(draw(st.integers(1, 25))):
        at += draw(st.sampled_from([0.0, 0.0, 7.0, 100.0, 300.0, 1234.5, 9000.0]))
        types = draw(st.sampled_from(["", "", *cluster.gpu_types, "|".join(cluster.gpu_types)]))
        widest = max(by_type[name] for name in (types.split("|") if types else by_type))
        sizes = [float(size) for size in (1, 1, 2, 3, 4, 8, 16) if size <= widest]
        sizes += [0.5, 0.25, 0.3] if slices else []
        demands = draw(st.booleans()) and draw(st.booleans())
        gpus = draw(st.sampled_from(sizes))
        rows.append(
            Job(
                job_id,
                at,
                gpus,
                draw(st.sampled_from([*zoo().default_names, "generic"])),
                duration_s=max(draw(st.sampled_from([0.0, 10.0, 299.0, 900.0, 5000.0, 40000.0])), least_s),
                cpus=draw(st.sampled_from([0.0, 1.0, 4.0])) * max(gpus, 1) if demands else math.nan,
                memory_gb=draw(st.sampled_from([5.0, 80.0])) * max(gpus, 1) if demands else math.nan,
                tenant=draw(st.sampled_from(["blue", "red"])),
                priority=draw(st.sampled_from([0, 0, 0, 1, 2])),
                gpu_types=types,
            )
        )
    return Workload.from_jobs(rows)


@st.composite
def worlds(
    draw: st.DrawFn,
    *,
    allocate: tuple[str, ...] = ALLOCATIONS,
    rough: bool = True,
    slices: bool = True,
    least_s: float = 0.0,
) -> World:
    cluster = draw(clusters())
    rough = rough and draw(st.booleans())
    cost = st.sampled_from([0.0, 0.0, 30.0, 400.0])
    options = Options(
        placement=draw(st.sampled_from(PLACEMENTS)),
        round_s=draw(st.sampled_from([300.0, 300.0, 60.0, 977.0])),
        restart_cost_s=draw(cost) if rough else 0.0,
        migration_cost_s=draw(cost) if rough else 0.0,
        checkpoint_cost_s=draw(st.sampled_from([0.0, 20.0])) if rough else 0.0,
        checkpoint_every_s=draw(st.sampled_from([600.0, 1800.0])),
        failures=draw(failures(cluster.nodes)) if rough else (),
        quota=draw(st.sampled_from([{}, {}, {"blue": 1000.0, "red": 16.0}])),
    )
    policy = f"{draw(st.sampled_from(ORDERS))}+{draw(st.sampled_from(allocate))}"
    return World(cluster, draw(jobs_for(cluster, slices=slices, least_s=least_s)), policy, options)


def failures(nodes: int) -> st.SearchStrategy[tuple[Failure, ...]]:
    one = st.builds(
        Failure,
        node=st.integers(0, nodes - 1),
        at_s=st.sampled_from([0.0, 150.0, 300.0, 2000.5, 7000.0, 20000.0]),
        down_s=st.sampled_from([1.0, 300.0, 5000.0]),
    )
    return st.lists(one, max_size=4).map(tuple)


def by_job(run: Run) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in run.timeline.sort("start_s", maintain_order=True).iter_rows(named=True):
        found[row["job_id"]].append(row)
    return found


def instants(run: Run, most: int = 10**9) -> Iterator[tuple[float, list[dict[str, Any]]]]:
    """Instants at which somebody starts, evenly spread when there are too many, with the spans that hold something."""
    rows = run.timeline.to_dicts()
    found = sorted({row["start_s"] for row in rows})
    for start in found[:: 1 + len(found) // most]:
        yield start, [row for row in rows if row["start_s"] <= start < row["end_s"]]


@settings(max_examples=examples(60))
@given(worlds())
def test_nothing_is_ever_oversubscribed(world: World) -> None:
    run = world.run()
    node_of = np.repeat(np.arange(world.cluster.nodes), world.cluster.node_gpus)
    part = {job_id: min(gpus, 1.0) for job_id, gpus in run.jobs.select("job_id", "gpus").iter_rows()}
    down: dict[int, list[tuple[float, bool]]] = {}
    for event in node_events(world.cluster, world.options):
        down.setdefault(event.node, []).append((event.at_s, event.down))
    for now, held in instants(run, 200):
        gpus = np.zeros(world.cluster.total_gpus)
        used = np.zeros((world.cluster.nodes, 3))
        for row in held:
            ids = row["gpu_ids"]
            assert len(set(ids)) == len(ids)
            for gpu in ids:
                gpus[gpu] += part[row["job_id"]]
                used[node_of[gpu]] += [row[name] / len(ids) for name in AMOUNTS]
                state = [is_down for at, is_down in down.get(int(node_of[gpu]), []) if at <= now]
                assert not (state and state[-1]), "runs on a node that is down"
        assert gpus.max() <= 1.0 + 1e-9
        assert (used <= world.cluster.capacity[:, :3] + 1e-6).all()


@settings(max_examples=examples(60))
@given(worlds())
def test_jobs_run_where_they_may_one_span_at_a_time_and_finish_once(world: World) -> None:
    run = world.run()
    node_of = np.repeat(np.arange(world.cluster.nodes), world.cluster.node_gpus)
    kinds = [world.cluster.kinds[k] for k in world.cluster.node_kind]
    spans = by_job(run)
    for index, row in enumerate(run.jobs.iter_rows(named=True)):
        job = world.workload.job(index)
        mine = spans[row["job_id"]]
        assert row["finish_s"] is not None
        assert row["finish_s"] >= row["arrival_s"]
        for before, after in pairwise(mine):
            assert before["end_s"] <= after["start_s"]
            assert before["ended"] != "finished"
        if mine:
            assert mine[-1]["ended"] == "finished"
            assert mine[-1]["end_s"] == row["finish_s"]
            assert mine[0]["start_s"] == row["start_s"] >= row["arrival_s"]
        for span in mine:
            assert len(span["gpu_ids"]) == max(row["gpus"], 1)
            on = {kinds[node_of[gpu]].gpu_type for gpu in span["gpu_ids"]}
            assert len(on) == 1, "spans GPU types"
            assert not job.gpu_types or on <= set(job.gpu_types.split("|"))
        assert sum(span["end_s"] - span["start_s"] for span in mine) == pytest.approx(row["held_s"], abs=1e-6)
        waits = sum(value for name, value in row.items() if name.startswith("wait_"))
        assert waits + row["held_s"] == pytest.approx(row["finish_s"] - row["arrival_s"], abs=1e-6)
        assert sum(span["ended"] == "preempted" for span in mine) == row["preemptions"]
        assert sum(span["ended"] == "failed" for span in mine) <= row["restarts"]


@settings(max_examples=examples(60))
@given(worlds())
def test_work_is_conserved(world: World) -> None:
    run, facts = world.run(), world.facts
    options = world.options
    pace = options.checkpoint_every_s / (options.checkpoint_every_s + options.checkpoint_cost_s)
    spans = by_job(run)
    for index, row in enumerate(run.jobs.iter_rows(named=True)):
        rate = {id(span): pace * span["speed"] / facts.iteration_s[index] for span in spans[row["job_id"]]}
        mine = spans[row["job_id"]]
        done = sum(rate[id(span)] * (span["end_s"] - span["start_s"]) for span in mine)
        if world.smooth:
            assert done == pytest.approx(row["iterations"], rel=1e-6, abs=1e-6)
            continue
        fastest = max(rate.values(), default=0.0)
        stops = row["preemptions"] + row["restarts"]
        cost_s = stops * options.restart_cost_s + row["moves"] * options.migration_cost_s
        cost_s += row["restarts"] * (options.checkpoint_every_s + options.restart_cost_s + options.migration_cost_s)
        assert row["iterations"] <= done + 1e-6 * max(done, 1.0)
        assert done <= row["iterations"] + fastest * cost_s + 1e-6 * max(done, 1.0)


@settings(max_examples=examples(40))
@given(worlds())
def test_skipping_rounds_changes_nothing(world: World) -> None:
    skipped, whole = world.run(), world.run(skip=False)
    assert skipped.jobs.equals(whole.jobs)
    assert skipped.timeline.equals(whole.timeline)


@pytest.mark.parametrize("order", ["fifo", "drf", "las"])
def test_who_starts_again_ranks_otherwise_in_the_very_next_round(order: str) -> None:
    """At 2100 s `again` gets the GPU that `boss` leaves; from 2400 s until it has made up for its start, it goes before
    `wide`, which from then on waits for GPUs and no longer for CPUs.
    """
    yard = Cluster((NodeGroup(1, NodeKind(gpus=2, cpus=4, memory_gb=60)),))
    half = partial(Job, gpus=1, model="generic", cpus=2.0, memory_gb=1.0)
    jobs = [
        half("first", 0.0, duration_s=20000, priority=2), half("wide", 10.0, duration_s=9000, cpus=4.0),
        half("again", 10.0, duration_s=9000), half("boss", 900.0, duration_s=1000, priority=2),
    ]  # fmt: skip
    world = World(yard, Workload.from_jobs(jobs), f"{order}+greedy", Options(restart_cost_s=400.0))
    skipped, whole = world.run(), world.run(skip=False)
    assert skipped.jobs.equals(whole.jobs)
    assert skipped.jobs.row(1, named=True)["wait_gpus_s"] == 1800.0


def test_who_waits_may_take_a_type_that_somebody_left_in_the_very_next_round() -> None:
    """At 600 s job 7 leaves its V100 for an A100; at 900 s the wide job 10 goes before 11, which has the last V100."""
    kinds = {
        1: NodeKind(gpus=4, cpus=8, memory_gb=120, storage_mbps=80, gpu_type="V100"),
        2: NodeKind(gpus=2, cpus=4, memory_gb=125, storage_mbps=40, gpu_type="A100"),
    }
    yard = Cluster(tuple(NodeGroup(count, kind) for count, kind in kinds.items()))
    jobs = {number: Job(number, 0.0, 1, "alexnet", duration_s=0.0) for number in range(12)}
    jobs |= {number: replace(jobs[number], duration_s=5000.0) for number in (7, 11)}
    jobs |= {8: replace(jobs[8], gpus=2), 9: replace(jobs[9], gpus=2, duration_s=900.0), 10: replace(jobs[10], gpus=4)}
    world = World(yard, Workload.from_jobs(jobs.values()), "fifo+tune", Options(placement="first-fit"))
    skipped, whole = world.run(), world.run(skip=False)
    assert skipped.timeline.equals(whole.timeline)
    assert skipped.jobs.equals(whole.jobs)
    assert skipped.jobs["start_s"][10] == 900.0


@settings(max_examples=examples(10))
@given(worlds())
def test_the_same_run_twice_gives_the_same_bytes(tmp_path_factory: pytest.TempPathFactory, world: World) -> None:
    folders = [Path(tmp_path_factory.mktemp("run")) / "it" for _ in range(2)]
    for folder in folders:
        world.run().save(folder)
    for name in ("jobs.parquet", "timeline.parquet", "summary.json"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()


@settings(max_examples=examples(40))
@given(worlds())
def test_the_books_balance_at_every_decision(world: World) -> None:
    policy = resolve(world.policy, placement=world.options.placement)
    checks: list[float] = []

    def check_and_order(snapshot: Snapshot) -> Keys | Floats:
        loop.ledger.check()
        checks.append(snapshot.now)
        return policy.order(snapshot)

    checked = replace(policy, order=check_and_order)
    loop = open_cluster(world.cluster, world.workload, checked, world.options, zoo())
    control(loop, partial(decide, checked))
    loop.ledger.check()
    assert len(checks) == loop.decisions
    assert len(loop.ledger.holders) == 0
    assert loop.ledger.books.free.tolist() == (loop.ledger.books.capacity * loop.ledger.books.up[:, None]).tolist()


@settings(max_examples=examples(60))
@given(worlds(allocate=("tune",)))
def test_under_tune_no_job_is_slower_than_with_its_share(world: World) -> None:
    run, facts = world.run(), world.facts
    kinds = len(world.cluster.kinds)
    node_of = np.repeat(np.arange(world.cluster.nodes), world.cluster.node_gpus)
    index = {job_id: i for i, job_id in enumerate(run.jobs["job_id"])}
    for span in run.timeline.iter_rows(named=True):
        sort = facts.job_class[index[span["job_id"]]]
        nodes = {int(node_of[gpu]) for gpu in span["gpu_ids"]}
        if len({facts.node_kind[node] for node in nodes}) > 1:
            continue  # it gets the least of each resource, which may be less than any of its nodes' shares
        share = min(facts.ladders[sort * kinds + facts.node_kind[node], 0, 3] for node in nodes)
        share *= facts.penalty[sort] if len(nodes) > 1 else 1.0
        assert span["speed"] >= share * (1 - 1e-9)


@settings(max_examples=examples(60))
@given(worlds(allocate=("tune", "proportional"), slices=False, least_s=1.0))
def test_no_gpu_idles_while_a_job_that_could_use_it_waits(world: World) -> None:
    """At every decision: whoever waits finds fewer free GPUs of any type it may use than it needs, or is over quota.

    A job of no length leaves no span to see its GPU by, so there is none here.
    """
    run, facts = world.run(), world.facts
    gpu_type = facts.node_type[np.repeat(np.arange(world.cluster.nodes), world.cluster.node_gpus)]
    node_of = np.repeat(np.arange(world.cluster.nodes), world.cluster.node_gpus)
    events = node_events(world.cluster, world.options)
    limit = {name: world.options.quota.get(name, math.inf) for name in ("blue", "red")}
    jobs = run.jobs.to_dicts()
    for now, held in instants(run, 50):
        if now % world.options.round_s:
            continue
        up = np.ones(world.cluster.nodes, dtype=bool)
        for event in events:
            if event.at_s <= now:
                up[event.node] = not event.down
        free = up[node_of].copy()
        used = dict.fromkeys(limit, 0.0)
        running = {row["job_id"] for row in held}
        for row in held:
            free[row["gpu_ids"]] = False
        for job in jobs:
            if job["job_id"] in running:
                used[job["tenant"]] += job["gpus"]
        for i, job in enumerate(jobs):
            waits = job["arrival_s"] <= now < job["finish_s"] and job["job_id"] not in running
            if not waits or used[job["tenant"]] + job["gpus"] > limit[job["tenant"]]:
                continue
            may = [t for t in range(len(world.cluster.gpu_types)) if facts.types[i] >> t & 1]
            assert all((free & (gpu_type == t)).sum() < job["gpus"] for t in may), (now, job["job_id"])


@settings(max_examples=examples(60))
@given(worlds(allocate=("tune",), least_s=1.0))
def test_under_tune_nothing_is_left_over_that_would_make_a_job_faster(world: World) -> None:
    """At every decision: no job that sits in one node could climb its ladder with what is free there."""
    run, facts = world.run(), world.facts
    kinds = len(world.cluster.kinds)
    node_of = np.repeat(np.arange(world.cluster.nodes), world.cluster.node_gpus)
    index = {job_id: i for i, job_id in enumerate(run.jobs["job_id"])}
    for now, held in instants(run, 50):
        if now % world.options.round_s:
            continue
        free = world.cluster.capacity[:, :3].copy()
        for row in held:
            for gpu in row["gpu_ids"]:
                free[node_of[gpu]] -= [row[name] / len(row["gpu_ids"]) for name in AMOUNTS]
        for row in held:
            nodes = {int(node_of[gpu]) for gpu in row["gpu_ids"]}
            if len(nodes) > 1:
                continue
            (node,), job, wide = nodes, index[row["job_id"]], len(row["gpu_ids"])
            kind = facts.node_kind[node]
            ladder = facts.ladders[facts.job_class[job] * kinds + kind][: facts.top[job, kind] + 1]
            have = np.array([row[name] / wide for name in AMOUNTS])
            for step in ladder:
                within = ((step[:3] - have) * wide <= free[node] - 1e-6).all()
                assert not (step[3] > row["speed"] + 1e-9 and within), (now, row["job_id"])


@settings(max_examples=examples(8))
@given(worlds(allocate=("opt",), slices=False))
def test_opt_keeps_the_same_promises(world: World) -> None:
    run, facts = world.run(opt_time_limit_s=0.2), world.facts
    kinds = len(world.cluster.kinds)
    node_of = np.repeat(np.arange(world.cluster.nodes), world.cluster.node_gpus)
    index = {job_id: i for i, job_id in enumerate(run.jobs["job_id"])}
    assert run.jobs["finish_s"].null_count() == 0
    for _, held in instants(run, 100):
        gpus = np.zeros(world.cluster.total_gpus)
        used = np.zeros((world.cluster.nodes, 3))
        for row in held:
            for gpu in row["gpu_ids"]:
                gpus[gpu] += 1
                used[node_of[gpu]] += [row[name] / len(row["gpu_ids"]) for name in AMOUNTS]
            sort = facts.job_class[index[row["job_id"]]]
            nodes = {int(node_of[gpu]) for gpu in row["gpu_ids"]}
            if len({facts.node_kind[node] for node in nodes}) > 1:
                continue  # it gets the least of each resource, which may be less than any of its nodes' shares
            share = min(facts.ladders[sort * kinds + facts.node_kind[node], 0, 3] for node in nodes)
            assert row["speed"] >= share * (facts.penalty[sort] if len(nodes) > 1 else 1.0) * (1 - 1e-9)
        assert gpus.max() <= 1
        assert (used <= world.cluster.capacity[:, :3] + 1e-6).all()
