"""Plans from grants by name: for allocations in plain Python."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from tests.policies.scenarios.stories import node, runs, scene, told, waits

from gpuyard.core.arrays import Ints
from gpuyard.core.errors import InputError
from gpuyard.core.grants import Grant, Part
from gpuyard.policies.granting import plan_of_grants
from gpuyard.policies.order.fifo import fifo
from gpuyard.policies.plan import Plan
from gpuyard.policies.policy import Policy
from gpuyard.policies.snapshot import Snapshot

WORLD = scene(
    node("a"), node("b"), runs("stays", "a0", cpus=1.0), runs("moves", "a1 a2", at=1), runs("stops", "a3", at=2),
    waits("starts", 2, at=3), waits("half", 0.5, at=4), waits("wide", 8, at=5),
)  # fmt: skip
STAYS = Grant("stays", WORLD.facts.jobs["stays"].holds.parts)  # type: ignore[union-attr]


class Fixed:
    """Answers with these grants, whatever it is asked."""

    def __init__(self, grants: Iterable[Grant], waiting: dict[str, str]) -> None:
        self.grants, self.waiting = tuple(grants), waiting

    def plan(self, snapshot: Snapshot, order: Ints) -> Plan:
        return plan_of_grants(snapshot, order, self.grants, self.waiting)  # type: ignore[arg-type]


def answer(*grants: Grant, **waiting: str) -> Any:
    return told(Policy("mine", fifo, Fixed(grants, waiting)), WORLD)


def on(holder: str, *places: tuple[str, int], share: int = 1000, **amounts: float) -> Grant:
    return Grant(holder, tuple(Part(name, gpu, share, amounts=amounts) for name, gpu in places))


def test_who_has_a_grant_gets_it_and_all_others_stop_or_wait() -> None:
    found = answer(
        STAYS, on("moves", ("b", 3), ("a", 1), cpus=2.0), on("starts", ("a", 2), ("a", 3)),
        on("half", ("b", 0), share=500, memory_gb=8.0), wide="fragments",
    )  # fmt: skip
    assert found.gets == {"stays": "a0", "moves": "b3 a1", "starts": "a2 a3", "half": "b0"}
    assert found.amounts == {
        "stays": (1.0, 10.0, 0.0), "moves": (4.0, 0.0, 0.0), "starts": (0.0, 0.0, 0.0), "half": (0.0, 8.0, 0.0),
    }  # fmt: skip
    assert found.stops == {"stops"}
    assert found.waits == {"stops": "gpus", "wide": "fragments"}


def test_without_grants_all_stop() -> None:
    assert answer().stops == {"stays", "moves", "stops"}


@pytest.mark.parametrize(
    ("ask", "rule"),
    [
        (lambda: answer(on("who", ("a", 0))), "'who' names a job that is not there"),
        (lambda: answer(on("starts", ("a", 0), ("c", 0))), "'c' names a node that is not there"),
        (lambda: answer(on("starts", ("a", 0), ("a", 4))), "4 gives job starts a GPU that node a does not have"),
        (lambda: answer(on("half", ("a", 0))), "1000 gives job half other than 500 thousandths of a GPU"),
        (lambda: answer(on("starts", ("a", 0))), "give each job as many GPUs as it needs"),
        (
            lambda: answer(Grant("starts", (Part("b", 0, amounts={"cpus": 1.0}), Part("b", 1)))),
            "must give job starts the same beside each of its GPUs",
        ),
        (lambda: answer(wide="fragment"), "'fragment' is not a reason to wait. Did you mean 'fragments'?"),
    ],
    ids=range(7),
)
def test_grants_that_no_plan_can_hold_are_refused(ask: Callable[[], Any], rule: str) -> None:
    with pytest.raises(InputError) as refusal:
        ask()
    assert rule in str(refusal.value)
