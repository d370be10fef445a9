"""Numbers that are easy to believe and easy to get wrong; each case is derived by hand."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.builders import cluster, finishes, job, run, spans, starts, zoo
from tests.policies.scenarios.stories import story_zoo

import gpuyard
from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.cluster import Cluster, NodeGroup, NodeKind
from gpuyard.core.errors import InputError, StallError
from gpuyard.core.workload import Job, Workload
from gpuyard.policies.allocate.tune import Tune
from gpuyard.policies.plan import Plan
from gpuyard.policies.policy import Policy
from gpuyard.policies.snapshot import Snapshot
from gpuyard.simulation.engine import simulate_cluster
from gpuyard.simulation.options import Failure, Options
from gpuyard.simulation.stalls import ArrivalWatch

HOUR = 3600.0
NODE = cluster("1x1", "cpus=3,memory=62.5GB")


@pytest.mark.parametrize(
    ("cpus", "seconds"),
    [
        pytest.param(8, HOUR, id="all that was recorded: as long as recorded"),
        pytest.param(1, HOUR, id="less than the share: nothing to gain"),
        pytest.param(48, 2 * HOUR, id="twice what the node has: twice as long"),
    ],
)
def test_a_recorded_duration_holds_with_the_cpus_recorded_beside_it(cpus: float, seconds: float) -> None:
    assert finishes(run(cluster(), [job(0, "generic", hours=1, cpus=cpus)], "fifo+tune")) == {0: pytest.approx(seconds)}


def test_fewer_cpus_than_recorded_slow_a_job_down() -> None:
    """Eight jobs recorded with 6 CPUs share 24: three each, half the speed."""
    jobs = [job(i, "generic", hours=1, cpus=6) for i in range(8)]
    assert set(finishes(run(cluster(), jobs, "fifo+proportional")).values()) == {2 * HOUR}


@pytest.mark.parametrize("part", [1.0, 0.5])
@pytest.mark.parametrize(
    ("cpus", "memory_gb", "storage_mbps", "hours"),
    [
        pytest.param(6.0, 250.0, 62.5, 4, id="half the CPUs, a quarter of the memory"),
        pytest.param(12.0, 125.0, 62.5, 4, id="a quarter of the CPUs, half the memory"),
        pytest.param(6.0, 125.0, 500.0, 8, id="half of both, an eighth of the storage bandwidth"),
        pytest.param(6.0, 125.0, 125.0, 2, id="half of everything"),
    ],
)
def test_who_lacks_several_things_is_as_slow_as_what_it_lacks_most_makes_it(
    part: float, cpus: float, memory_gb: float, storage_mbps: float, hours: float
) -> None:
    """There are 3 CPUs, 62.5 GB and 62.5 MB/s for a whole GPU, and half of that for half of one."""
    one = Job(
        0, 0.0, part, "generic", duration_s=HOUR, cpus=cpus * part, memory_gb=memory_gb * part,
        storage_mbps=storage_mbps * part,
    )  # fmt: skip
    node = cluster("1x1", "cpus=3,memory=62.5GB,storage=62.5MB/s")
    assert finishes(run(node, [one], "fifo+proportional")) == {0: pytest.approx(hours * HOUR)}


def test_with_a_profile_more_cpus_than_recorded_gain_what_it_says() -> None:
    """An hour of res18 recorded with 4 CPUs (speed 1.3) and run with 9 (2.4)."""
    done = run(cluster(), [job(0, "res18", hours=1, cpus=4)], "fifo+tune")
    assert finishes(done)[0] == pytest.approx(HOUR * 1.3 / 2.4)


def test_a_job_wider_than_a_node_was_recorded_spread() -> None:
    narrow = cluster("2x4", "cpus=12,memory=250GB")
    assert finishes(run(narrow, [job(0, "res18", gpus=8)], "fifo+proportional")) == {0: pytest.approx(HOUR)}
    # On one large node it would have been faster; recorded there, it is slower here.
    mixed = Cluster.parse("2x4:cpus=12,memory=250GB+2x8:cpus=24,memory=500GB")
    jobs = [job(0, "gnmt", gpus=8, hours=9), job(1, "gnmt", gpus=8, hours=9), job(2, "res18", gpus=8)]
    assert finishes(run(mixed, jobs, "fifo+proportional"))[2] == pytest.approx(HOUR / 0.8)


GROUPS = (
    "2x4:cpus=12,memory=250GB,type=K80",
    "1x8:cpus=24,memory=500GB,type=V100",
    "2x2:cpus=20,memory=250GB,type=A100",
)


@pytest.mark.parametrize("policy", ["srtf+tune", "las+proportional", "fifo+greedy"])
def test_the_order_in_which_a_cluster_is_written_changes_nothing(policy: str) -> None:
    workload = gpuyard.generate(jobs=40, load=6, multi_gpu=True)
    found = []
    for groups in itertools.permutations(GROUPS):
        found.append(run(Cluster.parse("+".join(groups)), workload, policy).jobs)
    assert all(table.equals(found[0]) for table in found)


def test_nor_where_nodes_differ_in_their_cpus_alone() -> None:
    groups = ("1x2:cpus=6,memory=125GB", "1x2:cpus=24,memory=125GB", "1x2:cpus=12,memory=125GB")
    found = [
        run(Cluster.parse("+".join(order)), [job(0, "res18", hours=1)], "fifo+tune:placement=first-fit").jobs
        for order in itertools.permutations(groups)
    ]
    assert all(table.equals(found[0]) for table in found)


def test_gpu_numbers_are_the_user_s_however_nodes_are_looked_at() -> None:
    """The A100s stand first or last in the cluster; the job goes there, and failures hit the node that was meant."""
    for text, gpus, node in (
        ("1x2:type=V100+1x4:type=A100", {2, 3, 4, 5}, 0),
        ("1x4:type=A100+1x2:type=V100", {0, 1, 2, 3}, 1),
    ):
        options = Options(failures=(Failure(node, 0.0, 9 * HOUR),))
        done = run(Cluster.parse(text), [job(0, "gnmt", gpus=4), job(1, "gnmt", types="V100")], "fifo+tune", options)
        assert set(spans(done, 0)[0]["gpu_ids"]) == gpus
        assert starts(done)[1] == 9 * HOUR


def test_a_duration_is_recorded_on_the_usual_node_or_on_the_one_that_is_named() -> None:
    """Of res50's 10,000 s those on a V100 are more work than those on a K80."""
    mostly_k80 = Cluster.parse("1x2:cpus=6,memory=125GB,type=V100+4x2:cpus=6,memory=125GB,type=K80")
    work = {}
    for name in (None, "V100", "k80"):
        done = run(mostly_k80, [job(0, "res50")], "fifo+proportional", Options(recorded_on=name))
        work[name] = done.jobs["iterations"][0]
    assert work[None] == work["k80"] < work["V100"]


def test_a_faster_gpu_type_is_faster_and_is_preferred() -> None:
    times = {}
    for gpu in ("K80", "V100", "A100"):
        alone = Cluster.parse(f"1x4:cpus=48,memory=500GB,type={gpu}")
        times[gpu] = finishes(run(alone, [job(0, "res50", iterations=10_000)], "fifo+tune"))[0] or 0.0
    assert times["K80"] > times["V100"] > times["A100"]
    factor = zoo().gpu_speed("res50", "K80").factor
    assert times["K80"] / times["V100"] == pytest.approx(1 / factor)
    both = Cluster.parse("1x4:cpus=48,memory=500GB,type=K80+1x1:cpus=12,memory=125GB,type=A100")
    done = run(both, [job(0, "res50", iterations=10_000), job(1, "res50", iterations=10_000)], "fifo+tune")
    assert spans(done, 0)[0]["gpu_ids"] == [4]
    assert spans(done, 1)[0]["gpu_ids"] != [4]


def test_srtf_ranks_by_the_speed_that_the_allocation_gives() -> None:
    """2.5 h of alexnet could be 0.85 h with all its CPUs; proportional never gives them, so 2 h of gnmt are shorter."""
    jobs = [job(0, "alexnet", hours=2.5), job(1, "gnmt", hours=2)]
    assert starts(run(NODE, jobs, "srtf+proportional")) == {0: 2 * HOUR, 1: 0}


@pytest.mark.parametrize("restart_cost_s", [300.0, 600.0, 5000.0])
def test_las_makes_progress_whatever_a_restart_costs(restart_cost_s: float) -> None:
    jobs = [job(i, hours=2) for i in range(3)]
    done = run(NODE, jobs, "las+proportional", Options(restart_cost_s=restart_cost_s))
    # Each start but a job's last is followed by at least as much work as it cost.
    assert max(finish or 0.0 for finish in finishes(done).values()) <= 2 * 6 * HOUR + 3 * restart_cost_s + 600


class Idle:
    """An allocation that never starts anybody."""

    def plan(self, snapshot: Snapshot, order: Ints) -> Plan:
        nobody, no_gpus = np.empty(0, np.int64), np.empty(0, np.int32)
        return Plan(nobody, np.zeros(1, np.int64), no_gpus, np.empty((0, 4)), nobody, np.ones(len(order), np.int8))


def by_arrival(snapshot: Snapshot) -> Floats:
    """Bare keys: asked again at every round, for ever."""
    return snapshot.arrival_s


def test_a_policy_that_makes_no_progress_is_found_out() -> None:
    with pytest.raises(StallError, match=r"lazy makes no progress.*job 4 is not finished"):
        run(NODE, [job(4)], Policy("lazy", by_arrival, Idle()))


def test_a_spread_job_is_moved_only_when_that_pays_from_now_on() -> None:
    """`wide` sits on 2 + 2 GPUs until one of its neighbours ends; a move then costs more than what is left to gain."""
    sizes = {0: 6, 1: 6, 2: 4}
    jobs = [job(i, "alexnet", gpus=gpus, hours=12 if i == 2 else 9) for i, gpus in sizes.items()]
    where = cluster("2x8")
    stay = run(where, jobs, "fifo+proportional", Options(migration_cost_s=1e9))
    for cost in (0.0, 600.0, 3600.0, 7200.0, 20000.0, 40000.0):
        done = run(where, jobs, "fifo+proportional", Options(migration_cost_s=cost))
        assert (finishes(done)[2] or 0.0) <= (finishes(stay)[2] or 0.0) + 1e-6


@pytest.mark.parametrize("migration_cost_s", [0.0, 50.0])
def test_a_move_does_not_spare_a_job_the_rest_of_its_start(migration_cost_s: float) -> None:
    """One GPU is taken for good. At 300 s "new" takes one of the two of "moved", which has 100 s of its start to come
    and goes on beside it; "hungry", for which it was to make room, finds too few CPUs.
    """
    jobs = [
        job(0, "deepspeech", priority=1), job(1, "gnmt", gpus=2),
        job(2, "gnmt", at=300, priority=1), job(3, "res18", at=300, gpus=2, priority=1),
    ]  # fmt: skip
    options = Options(start_cost_s=400.0, migration_cost_s=migration_cost_s)
    done = run(cluster("1x4", "cpus=12,memory=1000GB,storage=1000MB/s"), jobs, "fifo+greedy", options)
    assert [span["ended"] for span in spans(done, 1)] == ["moved", "finished"]
    assert finishes(done)[1] == pytest.approx(400 + HOUR + migration_cost_s)


def test_an_order_is_told_of_the_longest_wait_and_not_of_the_last() -> None:
    """Job 0 waits 3000 s for job 1, and later 300 s for job 2."""
    seen: list[float] = []

    def watching(snapshot: Snapshot) -> Floats:
        seen.append(float(snapshot.longest_past_wait_s[list(snapshot.job_id).index(0)]))
        return snapshot.arrival_s

    jobs = [job(0), job(1, hours=2900 / HOUR, priority=1), job(2, at=3600, hours=200 / HOUR, priority=1)]
    run(NODE, jobs, Policy("watching", watching, Tune()))
    assert max(seen) == seen[-1] == 3000.0


def test_arrivals_go_on_until_the_last_measured_job_has_finished() -> None:
    """LAS prefers newcomers: without them the last measured jobs would end too soon."""
    few, many = (gpuyard.generate(jobs=jobs, load=0.8) for jobs in (120, 1000))
    options = Options(window=(60, 80))
    for policy in ("las+tune", "srtf+proportional", "fifo+tune"):
        short, long = (run(cluster("2x8"), workload, policy, options) for workload in (few, many))
        measured = [one.jobs.filter(one.jobs["measured"])["finish_s"].to_list() for one in (short, long)]
        assert measured[0] == measured[1]
        assert len(short.jobs) > 120
        assert short.jobs["arrival_s"].max() <= max(measured[0])


def test_a_nan_key_is_refused_by_name() -> None:
    def broken(snapshot: Snapshot) -> Floats:
        return np.where(snapshot.gpus > 1, np.nan, 0.0)

    with pytest.raises(InputError, match="gave job 7 the key NaN at 0 s"):
        run(cluster(), [job(3), job(7, gpus=2)], Policy("mine", broken, Tune()))


def test_a_policy_that_raises_is_answered_with_its_own_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def mine(snapshot):\n    return snapshot.gpus / snapshot.no_such_column\n")
    with pytest.raises(InputError) as caught:
        gpuyard.simulate("1x8", gpuyard.generate(jobs=3), f"{file}:mine")
    text = str(caught.value)
    assert text.startswith(f"{file}, row 2, field policy:")
    assert "no_such_column" in text
    assert "\n" not in text


def test_a_policy_cannot_make_jobs_faster_by_claiming_it() -> None:
    class Boastful(Tune):
        def plan(self, snapshot: Snapshot, order: Ints) -> Plan:
            plan = super().plan(snapshot, order)
            return plan._replace(expected=plan.expected * 10.0)

    jobs = [job(i, model) for i, model in enumerate(("alexnet", "res18", "gnmt"))]
    honest = run(cluster(), jobs, "fifo+tune")
    claimed = run(cluster(), jobs, Policy("boast", by_arrival, Boastful()))
    assert finishes(claimed) == finishes(honest)


@pytest.mark.parametrize("order", ["las", "srtf", "fifo"])
def test_opt_decides_the_same_whether_rounds_are_skipped_or_not(order: str) -> None:
    workload = gpuyard.generate(jobs=14, load=6, multi_gpu=True, durations="small")
    where, options = cluster("2x4", "cpus=12,memory=250GB"), Options(opt_time_limit_s=30.0)
    skipping = run(where, workload, f"{order}+opt", options)
    every_round = run(where, workload, f"{order}+opt", replace(options, skip=False))
    assert skipping.jobs.equals(every_round.jobs)


def test_a_job_states_its_work_once() -> None:
    with pytest.raises(InputError, match="iterations"):
        gpuyard.Workload.from_jobs([Job(0, 0.0, 1, "res50", iterations=10, duration_s=10)])


@pytest.mark.parametrize("policy", ["fifo+tune", "fifo+proportional", "fifo+greedy"])
def test_half_a_gpu_has_half_the_speed(policy: str) -> None:
    where = cluster("1x1", "cpus=3,memory=62.5GB")
    whole = finishes(run(where, [job(0, "gnmt", iterations=10_000)], policy))[0]
    half = finishes(run(where, [job(0, "gnmt", gpus=0.5, iterations=10_000)], policy))[0]
    assert whole is not None
    assert half == pytest.approx(2 * whole, rel=1e-3)
    # A duration that was recorded on half a GPU is what it was.
    assert finishes(run(where, [job(0, "gnmt", gpus=0.5)], "fifo+proportional"))[0] == pytest.approx(HOUR)


def test_so_it_has_where_it_needs_half_of_all_that_its_node_has() -> None:
    """Of a node's 3 CPUs, 62.5 GB and 62.5 MB/s for its GPU res50 needs all: with less of any it is slower."""
    where = cluster("1x1", "cpus=3,memory=62.5GB,storage=62.5")
    done = run(where, [job(0, gpus=0.5), job(1, gpus=0.5)], "fifo+proportional")
    assert [span["speed"] for span in spans(done)] == pytest.approx([0.5, 0.5], rel=1e-3)
    assert finishes(done) == pytest.approx({0: HOUR, 1: HOUR}, rel=1e-3)


def test_a_load_that_a_policy_cannot_serve_ends_and_is_told() -> None:
    """Sixteen GPUs cannot serve 3 jobs of 17 hours an hour: under srtf the longest would wait for ever."""
    done = run(cluster("2x8"), gpuyard.generate(jobs=300, load=3), "srtf+proportional", Options(window=(100, 200)))
    assert done.summary["unfinished"] == 0
    assert any("cannot serve this load" in note for note in done.info["notes"])
    served = run(cluster("8x8"), gpuyard.generate(jobs=300, load=3), "srtf+proportional", Options(window=(100, 200)))
    assert served.info["notes"] == []


@pytest.mark.parametrize("timeline", [True, False])
def test_use_counts_until_the_last_job_ends_and_not_until_the_round_is_over(timeline: bool) -> None:
    """400 s on one of two GPUs, and rounds of 300 s."""
    done = run(
        cluster("1x2", "cpus=6,memory=125GB"), [job(0, hours=1 / 9)], "fifo+proportional", Options(timeline=timeline)
    )
    assert done.summary["gpu_use"] == pytest.approx(0.5)
    assert done.info["end_s"] == pytest.approx(400.0)


def test_what_was_done_before_a_move_outlasts_a_failure_after_it() -> None:
    """first ends at 1000 on the A100; second moves there at 1200 with 1200 done, and falls back to these at 1500."""
    mixed = Cluster.parse("1x1:cpus=3,memory=62.5GB,type=V100+1x1:cpus=3,memory=62.5GB,type=A100")
    jobs = [Job("first", 0.0, 1, "modern", iterations=2000), Job("second", 0.0, 1, "modern", iterations=10000)]
    options = Options(checkpoint_every_s=50000.0, failures=(Failure(1, 1500.0, 20000.0),))
    done = simulate_cluster(mixed, Workload.from_jobs(jobs), "fifo+proportional", options, zoo=story_zoo())
    assert done.jobs["finish_s"].to_list() == pytest.approx([1000.0, 10300.0])


@pytest.mark.parametrize("skip", [True, False])
def test_what_a_job_leaves_for_a_faster_gpu_goes_to_those_who_wait(skip: bool) -> None:
    """a ends at 500 on the A100; at 600 b moves there, and w, which may only use a V100, gets what b leaves."""
    mixed = Cluster.parse("1x1:cpus=3,memory=62.5GB,type=A100+1x1:cpus=3,memory=62.5GB,type=V100")
    jobs = [
        Job("a", 0.0, 1, "modern", iterations=1000), Job("b", 0.0, 1, "modern", iterations=100000),
        Job("w", 0.0, 1, "steady", iterations=1000, gpu_types="V100"),
    ]  # fmt: skip
    options = Options(skip=skip)
    done = simulate_cluster(mixed, Workload.from_jobs(jobs), "fifo+proportional", options, zoo=story_zoo())
    assert done.jobs["start_s"].to_list() == [0.0, 0.0, 600.0]


def test_jobs_of_one_priority_take_turns_below_one_of_a_higher() -> None:
    jobs = [Job("low", 0.0, 1, "steady", iterations=3000), Job("high", 0.0, 1, "steady", iterations=9000, priority=1),
            Job("low2", 0.0, 1, "steady", iterations=3000)]  # fmt: skip
    two = Cluster.parse("1x2:cpus=6,memory=125GB")
    done = simulate_cluster(two, Workload.from_jobs(jobs), "las+proportional", Options(), zoo=story_zoo())
    assert done.jobs["start_s"].to_list() == [0.0, 0.0, 300.0]


def test_the_node_that_fails_is_the_one_that_was_named() -> None:
    """Inside, nodes are sorted by kind; three kinds, since of two any mistake would undo itself."""
    three = Cluster.parse("+".join(f"1x1:cpus=3,memory=62.5GB,type={name}" for name in ("V100", "A100", "T4")))
    jobs = [Job(name, 0.0, 1, "steady", iterations=600, gpu_types=name) for name in ("V100", "A100", "T4")]
    options = Options(failures=(Failure(0, 0.0, 32400.0),))
    done = simulate_cluster(three, Workload.from_jobs(jobs), "fifo+proportional", options, zoo=story_zoo())
    assert done.jobs["start_s"].to_list() == [32400.0, 0.0, 0.0]


def test_a_node_that_will_come_back_is_waited_for_however_many_decisions_that_takes() -> None:
    """tetris decides in every round. The node is down from 600 s for 2e6 s; the next round is at 2000700 s."""
    options = Options(failures=(Failure(0, 600.0, 2e6),))
    done = run(cluster("1x1", "cpus=3,memory=62.5GB"), [job(0, hours=1)], "tetris+proportional", options)
    assert finishes(done) == {0: 2004300.0}


def test_a_short_queue_must_grow_twice_in_a_row() -> None:
    watch = ArrivalWatch()
    stops = [watch.must_stop(*at) for at in [(20, 1000), (40, 2000), (40, 4000), (120, 8000)]]
    assert stops == [False] * 4


def test_why_a_job_waits_is_told_by_the_types_on_which_the_others_are() -> None:
    """At 900 s somebody starts on another type than it was admitted to, and leaves too few GPUs for the last job.

    The rounds after that, in which nothing happens, must not tell another reason.
    """
    kinds = {
        1: NodeKind(gpus=8, cpus=16, memory_gb=500, storage_mbps=160, gpu_type="V100"),
        2: NodeKind(gpus=1, cpus=2, memory_gb=30, storage_mbps=20, gpu_type="A100"),
        3: NodeKind(gpus=2, cpus=4, memory_gb=60, storage_mbps=40, gpu_type="T4"),
    }
    yard = Cluster(tuple(NodeGroup(count, kind) for count, kind in kinds.items()))
    jobs = {number: Job(number, 0.0, 1, "alexnet", duration_s=0.0) for number in range(20)}
    jobs[6] = Job(6, 0.0, 3, "alexnet", duration_s=299.0)
    jobs[12] = Job(12, 0.0, 4, "alexnet", duration_s=900.0, cpus=0.0, memory_gb=20.0)
    jobs[17] = Job(17, 0.0, 4, "res18", duration_s=299.0)
    jobs[19] = Job(19, 0.0, 8, "alexnet", duration_s=0.0)
    options = Options(placement="first-fit")
    listed = list(jobs.values())
    skipped, whole = (run(yard, listed, "fifo+greedy", replace(options, skip=skip)) for skip in (True, False))
    assert skipped.jobs.equals(whole.jobs)
