"""Jobs of which nobody knows how much work they are: what a simulation takes them for."""

from __future__ import annotations

from gpuyard.core.arrays import Floats
from gpuyard.core.errors import InputError
from gpuyard.core.units import LARGEST
from gpuyard.policies.facts import NOBODY, Facts
from gpuyard.policies.jobs import Jobs
from gpuyard.simulation.options import Options


def work_of(jobs: Jobs, done: Floats, unknown_duration_s: float | None) -> Floats:
    """The work after which each job ends; of one that nobody knows, what takes so long from now on with its share.

    Policies are not told: to them it is the longest of all, as in the world that it comes from.
    """
    work = jobs.iterations.copy()
    if unknown_duration_s is not None:
        unknown = work >= LARGEST
        left = unknown_duration_s * jobs.share_speed / jobs.iteration_s
        work[unknown] = (done + left)[unknown]
    return work


def refuse_endless(facts: Facts, options: Options) -> None:
    """Refuse a simulation that would not end: InputError names the first job whose work nobody knows."""
    if options.until_s is not None or options.unknown_duration_s is not None:
        return
    for name, fact in facts.jobs.items():
        if fact.job.iterations >= LARGEST and fact.job.tenant != NOBODY:
            raise InputError(
                f"says nothing of how much work job {name} is, so nobody knows when it ends", file=options.snapshot,
                field="iterations", hint="Add --unknown-duration TIME, or --until TIME",
            )  # fmt: skip
