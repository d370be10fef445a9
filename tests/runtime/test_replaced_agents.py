"""Of each node only the newest agent counts: one that lives on, on a node that was taken for lost, denies nothing."""

import subprocess
from pathlib import Path
from typing import Any

from tests.runtime.test_between_machines import scheduler
from tests.runtime.test_processes import PATIENCE_S, children, eventually

from gpuyard.runtime.addresses import find_scheduler
from gpuyard.runtime.asking import queue_of, submit
from gpuyard.runtime.fleet import LocalFleet
from gpuyard.runtime.service import AttachedAgents


def test_an_agent_that_counts_no_more_is_told_to_end_and_not_let_in_again() -> None:
    agents = AttachedAgents()
    first = agents.attach("node", agents.next_number("node"))
    assert first is not None
    assert agents.hears("node", first)
    second = agents.next_number("node")
    assert not agents.hears("node", first)
    assert [first.get().WhichOneof("parameter_choice"), first.get()] == ["shutdown", None]
    assert agents.attach("node", second - 1) is None
    link = agents.attach("node", second)
    assert link is not None
    agents.detach("node", first)
    assert agents.hears("node", link)


def test_another_scheduler_knows_which_agent_counts() -> None:
    before = AttachedAgents()
    number = before.next_number("node")
    after = AttachedAgents(before.newest)
    assert after.attach("node", number + 1) is None
    assert after.attach("node", number) is not None


class Forgetful(LocalFleet):
    """Takes an agent for dead that is not, as Ray does when it has lost its own process on a machine that is there."""

    def forget(self, node: str) -> "subprocess.Popen[bytes]":
        del self._known[node]
        return self._children.pop(node)


def test_an_agent_that_was_taken_for_lost_ends_and_costs_a_job_one_attempt(tmp_path: Path) -> None:
    state, fleet = tmp_path / "state", Forgetful()

    def job() -> Any:
        return queue_of(find_scheduler(state)).jobs[0]

    with scheduler(state, fleet):
        submit(find_scheduler(state), [{"job_id": "wide", "model": "resnet50", "duration_s": 1e6, "gpus": 2}], "")
        eventually(lambda: job().done_steps > 0)
        agent = fleet.handles()["node1"][0]
        ranks = children(agent)
        assert ranks
        lost = fleet.forget("node1")
        assert lost.wait(PATIENCE_S) == 0
        assert not any(Path(f"/proc/{each}").exists() for each in ranks)
        eventually(lambda: job().attempt == 2 and job().done_steps > 0)
        assert not children(agent)
        assert children(fleet.handles()["node1"][0])
