"""Partition and multiplex policies: found by name, asked with plain values, and carried out through the ledger."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuyard.core.cluster import Cluster, NodeKind
from gpuyard.core.errors import InputError, LedgerError
from gpuyard.core.grants import WHOLE, GrantState, Part
from gpuyard.core.ledger import Ledger
from gpuyard.core.service import Service
from gpuyard.policies.multiplex import GpuFact, MultiplexPlan, SharedGpus, Sharing, TaskFact
from gpuyard.policies.multiplex.interference import Usage
from gpuyard.policies.partition import PartitionPlan, Slice, Turn
from gpuyard.policies.registry import MULTIPLEXERS, PARTITIONS
from gpuyard.profiles import load_zoo

HALVES = """
from dataclasses import dataclass
from gpuyard.policies.partition import PartitionPlan, Slice, Turn

@dataclass(frozen=True)
class Halves:
    '''Two services on each half of the first GPU; the others find no place.'''

    def plan(self, services, cluster, zoo):
        node = cluster.node_names[0]
        turns = [Turn(each.service_id, 1, 0.01) for each in services]
        halves = [Slice(node, 0, 500, 2.0, tuple(turns[at : at + 2]), 0.02) for at in (0, 2)]
        return PartitionPlan(tuple(halves), {each.service_id: each.rate_per_s for each in services[4:]})
"""

TOGETHER = """
from dataclasses import dataclass
from gpuyard.policies.multiplex import MultiplexPlan, Sharing

@dataclass(frozen=True)
class Together:
    def plan(self, gpus):
        node = gpus.gpus[0].node
        return MultiplexPlan({task.name: Sharing(node, 0, task.gpu_memory_gb, batch=32) for task in gpus.tasks})
"""


def one_gpu() -> Ledger:
    ledger = Ledger()
    ledger.add_node("a", NodeKind(gpus=1, cpus=8, memory_gb=64, gpu_memory_gb=16))
    return ledger


def test_a_partition_of_one_s_own_is_found_asked_and_carried_out(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(HALVES)
    policy = PARTITIONS.find(f"{tmp_path}/mine.py:Halves")
    services = [Service(name, "resnet50", rate_per_s=10.0, slo_ms=50.0) for name in "vwxyz"]
    plan = policy.plan(services, Cluster.parse("1x1"), load_zoo())
    assert plan.unserved == {"z": 10.0}
    ledger = Ledger()
    ledger.add_node(Cluster.parse("1x1").node_names[0], NodeKind(gpus=1, cpus=8, memory_gb=64))
    plan.take(ledger)
    assert [(grant.parts[0].thousandths, grant.tasks) for grant in ledger.grants()] == [
        (500, ("v", "w")),
        (500, ("x", "y")),
    ]
    ledger.check()


def test_slices_that_do_not_fit_are_refused_by_the_ledger() -> None:
    thirds = tuple(Slice("a", 0, 400, 1.0, (), 1.0) for _ in range(3))
    with pytest.raises(LedgerError, match="200 thousandths"):
        PartitionPlan(thirds).take(one_gpu())


@pytest.mark.parametrize(("period_s", "answer_s"), [(0.04, 0.07), (0.02, 0.06)])
def test_an_answer_takes_a_period_and_all_turns(period_s: float, answer_s: float) -> None:
    """Turns that take longer than the period make it as long as they are."""
    each = Slice("a", 0, WHOLE, 1.0, (Turn("v", 1, 0.01), Turn("w", 4, 0.02)), period_s)
    assert each.answer_s == pytest.approx(answer_s)


def test_a_multiplexer_of_one_s_own_is_found_asked_and_carried_out(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TOGETHER)
    policy = MULTIPLEXERS.find(f"{tmp_path}/mine.py:Together")
    tasks = tuple(TaskFact(name, Usage("resnet50", 0.9, 0.5), 8.0) for name in ("x", "y"))
    plan = policy.plan(SharedGpus((GpuFact("a", 0, "V100", 16.0),), tasks))
    ledger = one_gpu()
    plan.take(ledger)
    assert {grant.holder: grant.parts[0].gpu_memory_gb for grant in ledger.grants()} == {"x": 8.0, "y": 8.0}
    ledger.check()


def test_tasks_that_share_a_gpu_share_its_time_and_not_its_memory() -> None:
    ledger = one_gpu()
    MultiplexPlan({"x": Sharing("a", 0, 10.0), "y": Sharing("a", 0, 6.0)}).take(ledger)
    with pytest.raises(LedgerError, match="0 GB of it are free"):
        MultiplexPlan({"z": Sharing("a", 0, 1.0)}).take(ledger)
    MultiplexPlan({"x": Sharing("a", 0, 4.0), "z": Sharing("a", 0, 6.0)}).take(ledger)
    ledger.check()


def test_a_change_that_does_not_fit_leaves_everything_as_it_was() -> None:
    ledger = one_gpu()
    ledger.grant("x", [Part("a", 0, 400, 4.0, {"cpus": 2.0})], state=GrantState.RESERVED, tasks=["t"])
    ledger.grant("y", [Part("a", 0, 500, 4.0)])
    before = ledger.grant_of("x")
    with pytest.raises(LedgerError, match="500 thousandths"):
        ledger.change("x", [Part("a", 0, 600)])
    assert ledger.grant_of("x") == before
    ledger.change("x", [Part("a", 0, 500, 12.0, {"cpus": 8.0})])
    assert ledger.grant_of("x") == ledger.grants()[1]
    assert ledger.grants()[1].parts[0].amounts == {"cpus": 8.0}
    assert (ledger.grants()[1].state, ledger.grants()[1].tasks) == (GrantState.RESERVED, ("t",))
    with pytest.raises(LedgerError, match="holds nothing"):
        ledger.change("nobody", [Part("a", 0)])
    ledger.check()


def test_a_plan_takes_the_place_of_the_last_one_or_changes_nothing() -> None:
    ledger = one_gpu()
    halves = PartitionPlan(tuple(Slice("a", 0, 500, 8.0, (Turn(name, 1, 0.01),), 0.02) for name in "xy"))
    halves.take(ledger)
    whole = PartitionPlan((Slice("a", 0, 1000, 16.0, (Turn("x", 1, 0.01), Turn("y", 2, 0.01)), 0.02),))
    whole.take(ledger, instead_of=halves)
    (grant,) = ledger.grants()
    assert (grant.gpus, grant.tasks) == (1.0, ("x", "y"))
    too_much = PartitionPlan((*halves.slices, *halves.slices[:1]))
    with pytest.raises(LedgerError, match="0 thousandths"):
        too_much.take(ledger, instead_of=whole)
    assert ledger.grants() == (grant,)
    halves.take(ledger, instead_of=whole)
    halves.take(ledger, instead_of=halves)
    assert [grant.tasks for grant in ledger.grants()] == [("x",), ("y",)]
    ledger.check()


def test_tasks_can_change_places_and_those_who_wait_give_theirs_up() -> None:
    ledger = Ledger()
    for name in "ab":
        ledger.add_node(name, NodeKind(gpus=1, cpus=8, memory_gb=64, gpu_memory_gb=16))
    MultiplexPlan({"x": Sharing("a", 0, 10.0), "y": Sharing("b", 0, 10.0)}).take(ledger)
    MultiplexPlan({"x": Sharing("b", 0, 10.0), "y": Sharing("a", 0, 10.0)}).take(ledger)
    assert {grant.holder: grant.nodes for grant in ledger.grants()} == {"x": ("b",), "y": ("a",)}
    MultiplexPlan({"z": Sharing("a", 0, 16.0)}, waits={"y": "gpus", "nobody": "gpus"}).take(ledger)
    assert {grant.holder: grant.nodes for grant in ledger.grants()} == {"x": ("b",), "z": ("a",)}


def test_a_change_whose_parts_are_wrong_leaves_what_was_there() -> None:
    ledger = one_gpu()
    ledger.grant("x", [Part("a", 0, 500)])
    with pytest.raises(InputError, match="thousandths"):
        ledger.change("x", (Part("a", 0, thousandths) for thousandths in (400, 4000)))
    assert ledger.grant_of("x") is not None
    with pytest.raises(LedgerError, match="'nobody' holds nothing"):
        ledger.carry_out([], released=["x", "nobody"])
    assert ledger.grant_of("x") is not None


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Turn("x", 0, 0.01),
        lambda: Turn("x", 1, -0.01),
        lambda: Slice("a", 0, 5000, 1.0, (), 0.1),
        lambda: Slice("a", 0, 500, -1.0, (), 0.1),
        lambda: Service("x", "resnet50", rate_per_s=True, slo_ms=10.0),
    ],
)
def test_what_no_gpu_can_do_is_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(InputError):
        wrong()


def test_something_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def order(snapshot):\n    return snapshot.arrival_s\n")
    with pytest.raises(InputError, match="is not a partition policy"):
        PARTITIONS.find(f"{tmp_path}/mine.py:order")


def test_a_task_may_have_a_part_of_a_gpu_to_itself() -> None:
    ledger = one_gpu()
    MultiplexPlan({"x": Sharing("a", 0, 1.0, thousandths=600), "y": Sharing("a", 0, 1.0)}).take(ledger)
    assert {grant.holder: grant.gpus for grant in ledger.grants()} == {"x": 0.6, "y": 0.0}
    with pytest.raises(LedgerError, match="400 thousandths"):
        MultiplexPlan({"z": Sharing("a", 0, 1.0, thousandths=500)}).take(ledger)
