"""An empty queue is nothing unusual where jobs come one by one: every policy takes it, and does nothing."""

import pickle
from itertools import product
from pathlib import Path

import pytest
from tests.policies.scenarios.stories import node, scene
from tests.simulation.test_interpreted import interpreted

from gpuyard.policies.decide import decide
from gpuyard.policies.facts import Facts
from gpuyard.policies.named_plan import named_plan
from gpuyard.policies.registry import ALLOCATIONS, ORDERS, PLACEMENTS
from gpuyard.policies.resolve import resolve
from gpuyard.policies.snapshot import Snapshot

NOBODY = scene(node("a"))
MIXED = scene(node("a"), node("b", gpu_type="K80"), quotas={"vision": 2.0}, move_cost_s=30.0, start_cost_s=30.0)
IDLE = {"nobody": NOBODY, "nobody, on two GPU types, with costs and quotas": MIXED}


def plans(snapshot: Snapshot, starvation_s: float | None = None) -> list[dict[str, list[dict[str, object]]]]:
    """What every shipped policy decides."""
    shipped = product(ORDERS.names, ALLOCATIONS.names, PLACEMENTS.names)
    chosen = [
        resolve(f"{order}+{allocation}", placement=placement, starvation_s=starvation_s)
        for order, allocation, placement in shipped
    ]
    return [named_plan(snapshot, decide(policy, snapshot)) for policy in chosen]


def idle(found: list[dict[str, list[dict[str, object]]]]) -> bool:
    """Whether there are plans, and none of them does anything."""
    return len(found) > 50 and not any(entries for plan in found for entries in plan.values())


@pytest.mark.parametrize("who", IDLE)
def test_with_nobody_there_every_shipped_policy_does_nothing(who: str) -> None:
    assert idle(plans(IDLE[who]))
    assert idle(plans(IDLE[who], starvation_s=60.0))


def test_where_only_a_stranger_holds_something_they_do_nothing_either() -> None:
    facts = Facts(5.0)
    for each in NOBODY.facts.nodes.values():
        facts.add_node(each.name, each.kind)
    facts.occupy("somebody", [("a", 0)], cpus=1.0)
    assert idle(plans(Snapshot.of(facts)))


def test_interpreted_they_do_nothing_and_warn_of_nothing() -> None:
    program = (
        "from tests.policies.test_empty_snapshots import IDLE, idle, plans\n"
        "print([idle(plans(each)) for each in IDLE.values()])"
    )
    assert interpreted("-c", program) == "[True, True]\n"


@pytest.mark.parametrize("who", IDLE)
def test_it_goes_into_a_file_and_back(who: str, tmp_path: Path) -> None:
    snapshot, file = IDLE[who], tmp_path / "snapshot.json"
    snapshot.save(file)
    loaded = Snapshot.load(file)
    loaded.save(tmp_path / "again.json")
    assert loaded == snapshot == pickle.loads(pickle.dumps(snapshot))
    assert file.read_bytes() == (tmp_path / "again.json").read_bytes()
    assert (len(loaded.active), loaded.demand.shape, list(loaded.facts.nodes)) == (
        0,
        (0, 3),
        list(snapshot.facts.nodes),
    )
