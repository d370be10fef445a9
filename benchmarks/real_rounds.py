"""What a round of real jobs costs the scheduler: a thousand jobs on a thousand GPUs, and a round with no change."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from threading import Condition

from benchmarks.limits import Figure
from benchmarks.measure import cpu_seconds
from gpuyard.client.session import RankName
from gpuyard.core.workload import Job
from gpuyard.policies.decide import Decision, decide
from gpuyard.policies.policy import Policy
from gpuyard.policies.resolve import resolve
from gpuyard.profiles import load_zoo
from gpuyard.runtime.launching import JobStarts
from gpuyard.runtime.new_jobs import NewJob
from gpuyard.runtime.real_cluster import RealCluster, RunRules
from gpuyard.runtime.reports import RankProgress
from gpuyard.runtime.service import AttachedAgents
from gpuyard.runtime.settling import Patience
from gpuyard.runtime.store import RunStore
from gpuyard.traces import read_cluster

CLUSTER = "250x4:cpus=12,memory=250GB"
JOBS = 1000
MODELS = ("resnet50", "gnmt", "lstm", "transformer")
POLICIES = ("las+tune", "srtf+proportional")
SETTLING_ROUNDS = 3
"""In which starts come to their end."""
QUIET_ROUNDS = 7


def run(jobs: int = JOBS, cluster: str = CLUSTER) -> list[Figure]:
    """Measure the first round, in which everybody is started, and the least of some in which nothing changes."""
    figures = []
    for name in POLICIES:
        with tempfile.TemporaryDirectory() as folder:
            first, quiet = _rounds(resolve(name), jobs, cluster, Path(folder))
        told = f"real jobs: {name}, {jobs} on as many GPUs"
        figures += [
            Figure(f"{told}, all start", first, "CPU s", most=1.0, portable=False),
            Figure(f"{told}, nothing changes", 1e3 * quiet, "CPU ms", most=20.0, portable=False),
        ]
    return figures


class _Asleep(Exception):  # noqa: N818 - nothing went wrong
    """The world waits: there was nothing to decide."""


class _RoundClock:
    """Shows the time that it is given; nobody waits by it."""

    speed = 1.0
    time_s = 0.0

    def now(self) -> float:
        return self.time_s

    def wait(self, _changed: Condition, _until: float) -> None:
        raise _Asleep


def _rounds(policy: Policy, jobs: int, cluster: str, folder: Path) -> tuple[float, float]:
    """CPU seconds to decide for all jobs and tell the agents, and to find that there is nothing to change."""
    agents, clock, rules = AttachedAgents(), _RoundClock(), RunRules()
    world = RealCluster(
        read_cluster(cluster), RunStore(folder / "run.db"), load_zoo(), clock, agents,
        JobStarts(folder, 1.0, 1800.0), rules, Patience(),
    )  # fmt: skip
    for node in world.cluster.node_names:
        agents.attach(node, agents.next_number(node))
        world.attempts.joined(node, (), (), 0.0)
    world.add(NewJob(Job(str(number), 0.0, 1, MODELS[number % len(MODELS)], duration_s=1e5)) for number in range(jobs))
    assert world.wait(None)
    decide(policy, world.snapshot())  # compiles, or loads what is compiled
    controller = _Controller(world, policy)
    first = cpu_seconds(controller.decide)
    quiet = []
    for number in range(1, SETTLING_ROUNDS + QUIET_ROUNDS + 1):
        clock.time_s = number * rules.round_s
        _all_do_steps(world, clock.time_s)
        quiet.append(cpu_seconds(controller.round))
    return first, min(quiet[SETTLING_ROUNDS:])


def _all_do_steps(world: RealCluster, now: float) -> None:
    """Processes tell that they have done as many steps as was to be expected."""
    for name, record in world.records.items():
        assert record.attempt is not None
        steps = 1 + int(now / record.attempt.step_s)
        told = RankProgress(RankName(name, record.attempt.number, 0), step=steps, working=True)
        world.attempts.progressed(told, now)


class _Controller:
    """What the controller does, one round at a time."""

    def __init__(self, world: RealCluster, policy: Policy) -> None:
        self._world, self._policy = world, policy
        self._last: Decision | None = None

    def decide(self) -> None:
        self._last = decide(self._policy, self._world.snapshot())
        self._world.apply(self._last)

    def round(self) -> None:
        with suppress(_Asleep):
            if self._world.wait(self._last):
                self.decide()
