"""Who goes first: small stories, one for each order."""

import pytest
from tests.builders import cluster, column, finishes, job, run, starts
from tests.policies.scenarios.stories import in_order, node, scene, told, waits

from gpuyard.core.workload import Job
from gpuyard.simulation.options import Options

HOUR = 3600.0


def who_runs_first(order: str, jobs: list[Job], gpus: int = 1) -> list[int]:
    """Jobs by their first start on one small node; ties by number."""
    begun = starts(run(cluster(f"1x{gpus}", f"cpus={3 * gpus},memory={62.5 * gpus}GB"), jobs, f"{order}+proportional"))
    return sorted(begun, key=lambda job_id: (begun[job_id], job_id))


LONG_THEN_SHORT = [job(0, hours=5), job(1, at=400, hours=3), job(2, at=500, hours=1)]


@pytest.mark.parametrize(
    ("story", "order", "jobs", "first"),
    [
        ("first come, first served", "fifo", LONG_THEN_SHORT, [0, 1, 2]),
        ("the shortest goes before, and interrupts", "srtf", LONG_THEN_SHORT, [0, 2, 1]),
        ("among waiting jobs the shortest", "srtf", [job(0, hours=3), job(1, hours=2), job(2, hours=1)], [2, 1, 0]),
        ("new jobs have the least service", "las", [job(0, hours=9), job(1, at=400, hours=9)], [0, 1]),
        (
            "the one whose wait is the largest part of its length is worst off",
            "ftf",
            [job(0, hours=2), job(1, at=10, hours=4), job(2, at=20, hours=0.5)],
            [0, 2, 1],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_who_runs_first(story: str, order: str, jobs: list[Job], first: list[int]) -> None:
    assert who_runs_first(order, jobs) == first


def test_srtf_interrupts_a_long_job_for_a_short_one() -> None:
    done = run(cluster("1x1", "cpus=3,memory=62.5GB"), LONG_THEN_SHORT, "srtf+proportional")
    assert finishes(done) == {2: 600 + HOUR, 1: 600 + 4 * HOUR, 0: 9 * HOUR}
    assert done.jobs["preemptions"].to_list() == [1, 0, 0]


def test_srtf_counts_hours_at_the_speed_a_job_can_reach() -> None:
    """2.5 h of alexnet at its share are 1.5 h with the CPUs its neighbour leaves: less than 2 h of gnmt."""
    jobs = [job(0, "generic", hours=20, priority=1), job(1, "gnmt", hours=2), job(2, "alexnet", hours=2.5)]
    begun = starts(run(cluster("1x2", "cpus=14,memory=250GB"), jobs, "srtf+tune"))
    assert (begun[0], begun[2]) == (0, 0)
    assert begun[1] != 0


def test_fifo_never_interrupts() -> None:
    done = run(cluster("1x1", "cpus=3,memory=62.5GB"), LONG_THEN_SHORT, "fifo+proportional")
    assert finishes(done) == {0: 5 * HOUR, 1: 8 * HOUR, 2: 9 * HOUR}
    assert done.jobs["preemptions"].sum() == 0


def test_srsf_weighs_time_with_gpus() -> None:
    jobs = [job(0, gpus=4, hours=1), job(1, gpus=1, hours=3)]
    node = cluster("1x4", "cpus=12,memory=250GB")
    assert starts(run(node, jobs, "srsf+proportional"))[1] == 0
    assert starts(run(node, jobs, "srtf+proportional"))[0] == 0
    begun = starts(run(node, jobs, "srsf+proportional"))
    assert begun[0] == 3 * HOUR


def test_las_lets_equals_take_turns() -> None:
    done = run(cluster("1x1", "cpus=3,memory=62.5GB"), [job(0, hours=2), job(1, hours=2)], "las+proportional")
    finish = finishes(done)
    assert finish[0] is not None
    assert finish[1] is not None
    assert abs(finish[1] - finish[0]) <= 300
    assert min(column(done, "preemptions").values()) > 5


def test_las_counts_gpu_time_not_time() -> None:
    """After an hour on four GPUs a job has had more than one that has run for two hours on one."""
    jobs = [job(0, gpus=4, hours=2), job(1, at=3601, gpus=4, hours=1)]
    done = run(cluster("1x4", "cpus=12,memory=250GB"), jobs, "las+proportional")
    assert starts(done)[1] == 3900
    assert done.jobs["preemptions"][0] >= 1


def test_ftf_serves_the_worst_off_first_and_not_the_best_off() -> None:
    """The original sorts the wrong way round; in the corrected one a short job that waits overtakes a long one."""
    jobs = [job(0, hours=2), job(1, at=10, hours=10), job(2, at=20, hours=1)]
    node = cluster("1x1", "cpus=3,memory=62.5GB")
    fair = finishes(run(node, jobs, "ftf+proportional"))
    original = finishes(run(node, jobs, "ftf+proportional", Options(faithful=True)))
    assert fair[2] is not None
    assert original[2] is not None
    assert fair[2] < 5 * HOUR < original[2]


def test_drf_fills_up_the_tenant_who_has_least() -> None:
    """Red asks first and for much; still blue's jobs start beside it, one for one."""
    jobs = [job(i, tenant="red", hours=2) for i in range(4)] + [job(i, tenant="blue", hours=2) for i in range(4, 8)]
    node = cluster("1x4", "cpus=12,memory=250GB")
    begun = starts(run(node, jobs, "drf+proportional"))
    assert [job_id for job_id in begun if begun[job_id] == 0] == [0, 1, 4, 5]
    assert [job_id for job_id, at in starts(run(node, jobs, "fifo+proportional")).items() if at == 0] == [0, 1, 2, 3]


@pytest.mark.parametrize("gpus", [6, 10, 29])
def test_drf_lets_equal_tenants_go_by_arrival(gpus: int) -> None:
    """Job by job in turns: no tenant is ahead for what adding up parts of a cluster rounds."""
    arrivals = [(f"{tenant}{n}", tenant, 3.0 * n + late) for late, tenant in enumerate("cba") for n in range(6)]
    jobs = [waits(name, tenant=tenant, at=at) for name, tenant, at in arrivals]
    snapshot = scene(node("a", gpus), *jobs)
    names = in_order(snapshot, told("drf+proportional", snapshot).decision)
    assert names == [f"{tenant}{n}" for n in range(6) for tenant in "cba"]


def test_drf_compares_dominant_resources() -> None:
    """Red's jobs want many CPUs, blue's only GPUs: blue gets two GPUs for each of red's."""
    red = [job(i, "alexnet", tenant="red", hours=2) for i in range(4)]
    blue = [job(i, "gnmt", tenant="blue", hours=2) for i in range(4, 10)]
    begun = starts(run(cluster("1x6", "cpus=24,memory=500GB,storage=500"), red + blue, "drf+proportional"))
    at_once = [job_id for job_id, at in begun.items() if at == 0]
    assert sum(job_id < 4 for job_id in at_once) < sum(job_id >= 4 for job_id in at_once)


def test_tetris_prefers_what_fits_well_and_ends_soon() -> None:
    jobs = [job(0, hours=20), job(1, hours=1)]
    assert who_runs_first("tetris", jobs) == [1, 0]
    small_and_whole = [job(0, gpus=1, hours=1), job(1, gpus=4, hours=1)]
    begun = starts(run(cluster("1x4", "cpus=12,memory=250GB"), small_and_whole, "tetris+proportional"))
    assert sorted(begun.values()) == [0, HOUR]  # type: ignore[type-var]


@pytest.mark.parametrize("order", ["fifo", "srtf", "srsf", "las", "ftf", "drf", "tetris"])
def test_later_jobs_fill_what_earlier_ones_cannot_use(order: str) -> None:
    """A whole-node job cannot start beside a running one; single-GPU jobs behind it do not wait for it."""
    jobs = [job(0, gpus=3, hours=3, priority=2), job(1, gpus=4, hours=2, priority=1), job(2, hours=2)]
    begun = starts(run(cluster("1x4", "cpus=12,memory=250GB"), jobs, f"{order}+proportional"))
    assert (begun[0], begun[2]) == (0, 0)
    assert begun[1] == 3 * HOUR


@pytest.mark.parametrize("order", ["fifo", "srtf", "srsf", "las", "ftf", "drf", "tetris"])
def test_priority_comes_before_everything_else(order: str) -> None:
    jobs = [job(0, hours=1), job(1, hours=5, at=10, priority=1), job(2, hours=9, at=20, priority=2)]
    node = cluster("1x1", "cpus=3,memory=62.5GB")
    finish = finishes(run(node, jobs, f"{order}+proportional"))
    assert sorted(finish, key=lambda job_id: finish[job_id] or 0) == [2, 1, 0]


STARVED = [job(0, hours=1500), job(1, hours=900), job(2, hours=950, at=60)]
"""Two long jobs of high rank by SRTF keep a longer one out."""


def test_nobody_is_raised_unasked() -> None:
    done = run(cluster("1x1", "cpus=3,memory=62.5GB"), STARVED, "srtf+proportional")
    assert starts(done)[0] == (900 + 950) * HOUR
    assert done.info["starved_starts"] == 0


def test_with_the_rule_a_job_that_has_waited_a_thousand_hours_goes_first() -> None:
    limit_s = 1000 * HOUR
    done = run(cluster("1x1", "cpus=3,memory=62.5GB"), STARVED, "srtf+proportional", Options(starvation_s=limit_s))
    began = starts(done)[0]
    assert began is not None
    assert limit_s < began <= limit_s + 600
    assert done.info["starved_starts"] >= 1
    assert done.jobs["preemptions"].to_list()[2] == 1
