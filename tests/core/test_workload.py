"""What must hold for jobs, whoever made them."""

import math
from dataclasses import replace
from typing import Any

import pytest

from gpuyard.core.errors import InputError
from gpuyard.core.workload import Job, Workload

GOOD = Job("a", 0.0, 1, "res18", duration_s=60.0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"gpus": 0.0004}, "field gpus: 0.0004 must be a whole number of GPUs, or a fraction of one GPU from 0.001"),
        ({"gpus": math.nan}, "field gpus: nan"),
        ({"arrival_s": math.inf}, "field arrival_s: inf"),
        ({"duration_s": math.inf}, "field duration_s: inf must be a finite number"),
        ({"duration_s": math.nan}, "a job needs iterations or duration_s"),
        ({"iterations": 5.0}, "field duration_s: 60.0 is the job's work, and so is iterations. Keep one of the two"),
        ({"memory_gb": math.inf}, "field memory_gb: inf must be a finite number"),
    ],
)
def test_a_job_that_breaks_a_rule_is_named_with_its_row(change: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as refused:
        Workload.from_jobs([replace(GOOD, job_id="b"), replace(GOOD, **change)])
    assert "row 2" in str(refused.value)
    assert says in str(refused.value)


def test_a_command_ends_by_itself_and_need_not_say_how_long_it_is() -> None:
    unmeasured = replace(GOOD, duration_s=math.nan, command="train")
    jobs = Workload.from_jobs([GOOD, replace(unmeasured, job_id="b")])
    assert jobs.unmeasured.tolist() == [False, True]
    assert jobs.job(1).endless


def test_the_least_slice_is_a_thousandth() -> None:
    assert Workload.from_jobs([replace(GOOD, gpus=0.001)]).gpus.tolist() == [0.001]
