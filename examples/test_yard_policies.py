"""How to test a policy: the few things that are worth asking of any."""

from __future__ import annotations

import numpy as np
import pytest
from yard_policies import Frugal, NobodyStops, narrow_first, patient

import gpuyard
from gpuyard.policies.allocate.tune import Tune
from gpuyard.policies.policy import Policy
from gpuyard.profiles import ladder, load_zoo

MINE = [
    Policy("narrow-first+tune", narrow_first, Tune()),
    Policy("patient+tune", patient, Tune()),
    Policy("patient+frugal", patient, Frugal()),
    Policy("patient+nobody-stops", patient, NobodyStops()),
]


@pytest.mark.parametrize("policy", MINE, ids=lambda policy: policy.name)
def test_every_job_finishes_and_skipping_rounds_changes_nothing(policy: Policy) -> None:
    """Wrong rates show here: a run that skips rounds would differ from one that looks at each."""
    workload = gpuyard.generate(jobs=80, load=3, multi_gpu=True)
    skipping = gpuyard.simulate("2x8", workload, policy)
    every_round = gpuyard.simulate("2x8", workload, policy, gpuyard.Options(skip=False))
    assert skipping.summary["unfinished"] == 0
    assert skipping.jobs.equals(every_round.jobs)


def test_narrow_first_runs_the_narrow_job_first() -> None:
    """A scenario of two jobs that want the same GPU tells more than a large trace."""
    wide = gpuyard.Job("wide", 0, 8, "gnmt", duration_s=3600)
    narrow = gpuyard.Job("narrow", 0, 1, "gnmt", duration_s=3600)
    run = gpuyard.simulate("1x8", gpuyard.Workload.from_jobs([wide, narrow]), MINE[0])
    started = dict(run.jobs.select("job_id", "start_s").iter_rows())
    assert started["narrow"] < started["wide"]


def test_frugal_takes_the_first_step_that_is_fast_enough() -> None:
    """An allocation is a function of a ladder: no simulation is needed to test it."""
    share = np.array([3, 62.5, 62.5])
    steps = ladder(load_zoo().profile("mobilenet"), (3, 62.5, 62.5))
    assert steps[:, 3].tolist() == [1.0, 1.3, 1.49, 1.55]
    assert Frugal().amounts(steps, share).tolist() == [5, 62.5, 62.5]
