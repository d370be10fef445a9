"""What each job gets beside its GPUs, and where it goes: small stories."""

from typing import Any

import pytest
from tests.builders import cluster, column, finishes, job, run, spans, starts

from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError, StallError
from gpuyard.core.workload import Job
from gpuyard.results import Run
from gpuyard.simulation.options import Options

HOUR = 3600.0


def first_span(where: Cluster, jobs: list[Job], policy: str, job_id: int, **options: Any) -> dict[str, Any]:
    return dict(spans(run(where, jobs, policy, Options(**options)), job_id)[0])


HUNGRY_AND_MODEST = [job(0, "alexnet"), *(job(i, "gnmt") for i in range(1, 8))]


def test_proportional_gives_everybody_its_share_used_or_not() -> None:
    for job_id, speed in ((0, 1.0), (1, 1.0)):
        got = first_span(cluster(), HUNGRY_AND_MODEST, "fifo+proportional", job_id)
        assert (got["cpus"], got["memory_gb"], got["speed"]) == (3.0, 62.5, speed)


def test_tune_gives_the_cpus_that_language_models_leave_to_the_hungry() -> None:
    got = first_span(cluster(), HUNGRY_AND_MODEST, "fifo+tune", 0)
    assert (got["cpus"], got["memory_gb"], got["speed"]) == (12.0, 125.0, 2.94)
    assert first_span(cluster(), HUNGRY_AND_MODEST, "fifo+tune", 1)["speed"] == 1.0


def test_tune_never_takes_a_job_below_its_share() -> None:
    everybody_hungry = [job(i, "alexnet") for i in range(8)]
    for job_id in range(8):
        got = first_span(cluster(), everybody_hungry, "fifo+tune", job_id)
        assert got["speed"] >= 1.0
        assert got["cpus"] >= 3.0


def test_greedy_leaves_gpus_idle_for_want_of_cpus() -> None:
    """Two alexnets take all 24 CPUs; six GPUs idle, and the third waits for resources."""
    jobs = [job(i, "alexnet", hours=2) for i in range(3)]
    done = run(cluster(), jobs, "fifo+greedy")
    begun = starts(done)
    assert (begun[0], begun[1]) == (0, 0)
    assert begun[2] is not None
    assert begun[2] > 0
    assert column(done, "wait_resources_s")[2] == begun[2]
    assert starts(run(cluster(), jobs, "fifo+tune"))[2] == 0


def test_greedy_passes_over_whom_it_cannot_serve() -> None:
    jobs = [job(0, "alexnet"), job(1, "alexnet"), job(2, "alexnet"), job(3, "gnmt", hours=0.1)]
    begun = starts(run(cluster(options="cpus=25,memory=500GB"), jobs, "fifo+greedy"))
    assert begun[3] == 0
    assert begun[2] != 0


def test_only_what_exceeds_the_share_is_reduced() -> None:
    """A job that wants many CPUs and little memory keeps its little memory."""
    jobs = [job(0, "generic", cpus=20, memory_gb=10), *(job(i, "deepspeech") for i in range(1, 8))]
    got = first_span(cluster(), jobs, "fifo+tune", 0)
    assert got["memory_gb"] == 10.0
    assert got["cpus"] == 3.0


def test_leftovers_are_handed_back_when_a_neighbour_leaves() -> None:
    jobs = [job(0, "alexnet", hours=10), *(job(i, "alexnet", hours=1) for i in range(1, 8))]
    mine = spans(run(cluster(), jobs, "fifo+tune"), 0)
    speeds = [span["speed"] for span in mine]
    assert speeds[0] < speeds[-1] == 2.94
    assert [span["ended"] for span in mine[:-1]] == ["resized"] * (len(mine) - 1)


def test_the_surplus_goes_where_it_buys_most_speed() -> None:
    """Nine CPUs to spare: res18 turns 6 of them into 1.4 more speed, res50 would make 0.15 of one."""
    jobs = [job(0, "res50"), job(1, "res18"), *(job(i, "deepspeech") for i in range(2, 5)), job(5, "gnmt")]
    node = cluster("1x8", "cpus=22,memory=500GB")
    assert first_span(node, jobs, "fifo+tune", 1)["speed"] == 2.4
    assert first_span(node, jobs, "fifo+tune", 0)["speed"] == 1.0


def test_memory_binds() -> None:
    """m5 doubles its speed with memory; on a node that has little of it the CPUs alone do not help."""
    rich = first_span(cluster("1x8", "cpus=48,memory=1500GB,storage=1500"), [job(0, "m5")], "fifo+tune", 0)
    poor = first_span(cluster("1x8", "cpus=48,memory=64GB,storage=1500"), [job(0, "m5")], "fifo+tune", 0)
    assert rich["speed"] == 2.5
    assert poor["speed"] < rich["speed"]
    assert poor["memory_gb"] <= 64.0


def gpus_of(where: Cluster, jobs: list[Job], placement: str, policy: str = "fifo+proportional") -> dict[int, list[int]]:
    done = run(where, jobs, policy, Options(placement=placement))
    return {row["job_id"]: row["gpu_ids"] for row in reversed(spans(done))}


def test_first_fit_takes_the_first_node_with_room() -> None:
    jobs = [job(0, gpus=1), job(1, gpus=2)]
    assert gpus_of(cluster("2x4", "cpus=12,memory=250GB"), jobs, "first-fit") == {0: [0], 1: [1, 2]}


def test_consolidating_takes_the_fullest_node_that_holds_the_whole_job() -> None:
    jobs = [job(0, gpus=2), job(1, gpus=3), job(2, at=1, gpus=1)]
    where = cluster("2x4", "cpus=12,memory=250GB")
    found = gpus_of(where, jobs, "consolidating")
    assert found[0] == [0, 1]
    assert found[1] == [4, 5, 6]
    assert found[2] == [7]


def test_best_fit_puts_wishes_together_that_a_node_can_grant() -> None:
    """The second hungry job goes where the first is not; the modest ones fill up."""
    jobs = [job(0, "alexnet"), job(1, "alexnet"), *(job(i, "gnmt") for i in range(2, 6))]
    found = gpus_of(cluster("2x4", "cpus=14,memory=250GB"), jobs, "best-fit", "fifo+tune")
    assert found[0][0] // 4 != found[1][0] // 4


def test_a_job_that_spans_nodes_is_slower() -> None:
    got = first_span(cluster("2x4", "cpus=12,memory=250GB"), [job(0, "res18", gpus=8)], "fifo+proportional", 0)
    assert got["speed"] == pytest.approx(0.8)


def a_pair_that_finds_one_gpu_on_each_node(**options: Any) -> Run:
    """Eight single-GPU jobs fill two nodes; when one ends on each of them, a job of two GPUs can start."""
    early = [job(i, "generic", hours=1 if i in (3, 7) else 9) for i in range(8)]
    pair = job(8, "res18", at=1, gpus=2, hours=1)
    where = cluster("2x4", "cpus=12,memory=250GB")
    return run(where, [*early, pair], "fifo+tune", Options(placement="first-fit", **options))


def nodes_of(span: dict[str, Any]) -> set[int]:
    return {gpu // 4 for gpu in span["gpu_ids"]}


def test_a_single_gpu_job_makes_room_so_that_a_wide_one_is_not_spread() -> None:
    done = a_pair_that_finds_one_gpu_on_each_node()
    (pair,) = spans(done, 8)
    assert len(nodes_of(pair)) == 1
    assert sum(column(done, "moves").values()) == 1
    assert (pair["cpus"], pair["speed"]) == (10.0, 1.53)  # with all that the one who left has given up


def test_nobody_is_moved_when_moving_costs_more_than_it_gains() -> None:
    done = a_pair_that_finds_one_gpu_on_each_node(migration_cost_s=5 * HOUR)
    (pair,) = spans(done, 8)
    assert len(nodes_of(pair)) == 2
    assert sum(column(done, "moves").values()) == 0
    assert pair["speed"] == pytest.approx(0.8 * 1.75)


def test_slices_share_a_gpu_and_its_share_of_the_node() -> None:
    jobs = [job(0, gpus=0.5), job(1, gpus=0.25), job(2, gpus=0.25), job(3, gpus=0.5)]
    done = run(cluster("1x2", "cpus=6,memory=125GB"), jobs, "fifo+proportional")
    where = {row["job_id"]: row["gpu_ids"] for row in spans(done)}
    assert where[0] == where[1] == where[2] == [0]
    assert where[3] == [1]
    assert spans(done, 0)[0]["cpus"] == 1.5


def test_a_job_only_runs_on_the_types_it_names() -> None:
    mixed = Cluster.parse("1x2:cpus=6,memory=125GB,type=V100+1x2:cpus=6,memory=125GB,type=A100")
    jobs = [job(0, gpus=2, types="A100"), job(1, at=1, types="A100"), job(2, at=2, types="V100|A100")]
    done = run(mixed, jobs, "fifo+proportional")
    where = {row["job_id"]: row["gpu_ids"] for row in spans(done)}
    assert where[0] == [2, 3]
    assert where[2][0] in (0, 1)
    assert starts(done)[1] == HOUR
    assert column(done, "wait_gpus_s")[1] > 0


def test_a_job_never_spans_gpu_types() -> None:
    mixed = Cluster.parse("1x2:cpus=6,memory=125GB,type=V100+1x2:cpus=6,memory=125GB,type=A100")
    with pytest.raises(InputError, match="3 GPUs for job 0 are more than the 2"):
        run(mixed, [job(0, gpus=3)])


def test_a_quota_holds_a_tenant_back_while_gpus_are_free() -> None:
    jobs = [job(i, tenant="red") for i in range(3)] + [job(3, tenant="blue")]
    done = run(cluster(), jobs, "fifo+tune", Options(quota={"red": 2}))
    third = starts(done)[2]
    assert third is not None
    assert starts(done) == {0: 0, 1: 0, 2: third, 3: 0}
    assert third >= (finishes(done)[0] or 0)
    assert column(done, "wait_quota_s")[2] == starts(done)[2]


def test_a_quota_that_lets_nobody_in_stalls_and_says_who_waits() -> None:
    with pytest.raises(StallError, match="job 7"):
        run(cluster(), [job(7, tenant="red")], "fifo+tune", Options(quota={"red": 0.5}))


def test_a_wish_that_no_node_can_ever_grant_is_cut_to_what_a_node_has() -> None:
    finish = finishes(run(cluster(), [job(0, "generic", cpus=100)], "fifo+greedy"))
    assert finish[0] is not None


@pytest.mark.parametrize("gpus", [9, 1000])
def test_a_job_wider_than_the_cluster_is_refused(gpus: int) -> None:
    with pytest.raises(InputError, match="job 5 are more than the 8 that the cluster has"):
        run(cluster(), [job(5, gpus=gpus)])
