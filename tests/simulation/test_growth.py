"""A workload that goes on arriving: it does not matter how much of it was known at the start."""

from dataclasses import dataclass, replace

import pytest
from tests.builders import cluster, job, workload, zoo

from gpuyard.core.workload import Workload
from gpuyard.simulation.engine import simulate_cluster
from gpuyard.simulation.options import Options


@dataclass(frozen=True)
class Stream:
    """A job every ten minutes, of twelve to thirty-six, on one GPU or two."""

    def jobs(self, count: int) -> Workload:
        """The first so many of them."""
        jobs = (
            job(i, ("alexnet", "gnmt")[i % 2], at=600.0 * i, gpus=1 + i % 2, hours=0.2 + 0.2 * (i % 3))
            for i in range(count)
        )
        return replace(workload(*jobs), continuation=self)


@pytest.mark.parametrize("policy", ["srtf+tune", "fifo+tune", "ftf+tune"])
def test_jobs_that_become_known_later_change_nothing(policy: str) -> None:
    options = Options(window=(0, 10))
    few, many = (
        simulate_cluster(cluster("1x4", "cpus=12,memory=250GB"), Stream().jobs(known), policy, options, zoo=zoo())
        for known in (10, 100)
    )
    assert (len(few.jobs) > 10, few.info["notes"]) == (True, [])
    assert few.jobs.equals(many.jobs.head(len(few.jobs)))
    assert few.timeline.equals(many.timeline)
    assert few.info["decisions"] == many.info["decisions"]


@dataclass(frozen=True)
class Overload:
    """A job every ten minutes on one GPU: two of six minutes, then one of two hours, which srtf would never run."""

    def jobs(self, count: int) -> Workload:
        """The first so many of them."""
        jobs = (job(i, "gnmt", at=600.0 * i, hours=2.0 if i % 3 == 2 else 0.1) for i in range(count))
        return replace(workload(*jobs), continuation=self)


def test_jobs_go_on_arriving_however_the_queue_grows_where_nobody_waits_for_ever() -> None:
    """Whoever has waited for 10 h goes first, so that the measured jobs end; the ones to come are still to arrive."""
    options = Options(window=(0, 10), starvation_s=36000.0)
    few, many = (
        simulate_cluster(cluster("1x1", "cpus=3,memory=62.5GB"), Overload().jobs(known), "srtf+proportional", options,
                         zoo=zoo())
        for known in (10, 400)
    )  # fmt: skip
    assert few.jobs["finish_s"].head(10).to_list() == many.jobs["finish_s"].head(10).to_list()
    assert not any("arrivals ended" in note for note in few.info["notes"])
    unlimited = simulate_cluster(
        cluster("1x1", "cpus=3,memory=62.5GB"), Overload().jobs(10), "srtf+proportional", Options(window=(0, 10)),
        zoo=zoo(),
    )  # fmt: skip
    assert any("arrivals ended" in note for note in unlimited.info["notes"])
