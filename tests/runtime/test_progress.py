"""Whatever a start costs, and under whatever order: every workload ends."""

import random
from pathlib import Path

import pytest
from tests.runtime.virtual_yard import VirtualYard

from gpuyard.core.workload import Job, Workload
from gpuyard.policies.registry import ALLOCATIONS, ORDERS
from gpuyard.policies.resolve import resolve
from gpuyard.profiles import load_zoo
from gpuyard.runtime.real_cluster import RunRules
from gpuyard.runtime.records import JobState
from gpuyard.runtime.settling import Patience
from gpuyard.traces import read_cluster

ROUND_S = 300.0
PATIENT = Patience(beat_s=10.0, leave_s=1e6, begin_s=1e6)
LONGEST_S = 7 * 24 * 3600.0
"""All that the workloads below could take if every start took twenty rounds and bought little work."""


def run_with_starts_of(rounds: tuple[float, float], policy: str, seed: int, folder: Path) -> VirtualYard:
    """Run a workload whose starts take so many rounds each, and whose stops take up to three."""
    chance = random.Random(seed)
    yard = VirtualYard(
        read_cluster("2x2:cpus=12,memory=250GB"), load_zoo(), folder, RunRules(ROUND_S), patience=PATIENT,
        save_s=chance.uniform(0.0, 3.0) * ROUND_S,
    )  # fmt: skip
    yard.agents.start_cost = lambda: chance.uniform(*rounds) * ROUND_S

    def too_long() -> None:
        done = {name: (each.done_steps, each.total_steps) for name, each in yard.world.records.items()}
        raise AssertionError(f"it would go on for ever: {done}")

    yard.clock.at(LONGEST_S, too_long)
    yard.run(workload_of(chance), resolve(policy))
    return yard


def workload_of(chance: random.Random) -> Workload:
    """Some jobs more than fit at once, of all widths, that come within a few rounds."""
    models = ("resnet50", "gnmt", "lstm", "transformer")
    return Workload.from_jobs(
        Job(f"job{number}", chance.uniform(0.0, 2000.0), chance.choice((1, 1, 2, 4)), chance.choice(models),
            duration_s=chance.uniform(100.0, 6000.0))
        for number in range(6)
    )  # fmt: skip


@pytest.mark.parametrize("allocate", ALLOCATIONS.names)
@pytest.mark.parametrize("order", ORDERS.names)
def test_every_workload_ends_whatever_a_start_costs(order: str, allocate: str, tmp_path: Path) -> None:
    for seed, rounds in enumerate([(1.0, 3.0), (0.0, 20.0)]):
        folder = tmp_path / str(seed)
        folder.mkdir()
        yard = run_with_starts_of(rounds, f"{order}+{allocate}", seed, folder)
        assert {record.state for record in yard.world.records.values()} == {JobState.FINISHED}
