"""A simulation of shared GPUs that goes on from a snapshot: its first plan is that of `decide`, and all tasks end."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import examples, zoo

from gpuyard import simulate
from gpuyard.core.cluster import NodeKind
from gpuyard.core.errors import InputError
from gpuyard.core.grants import GrantState
from gpuyard.core.workload import Job
from gpuyard.policies.decide_shared import SharedDecider
from gpuyard.policies.facts import Facts
from gpuyard.policies.multiplex.interference import InterferenceModel, Observation, Usage
from gpuyard.policies.registry import MULTIPLEXERS
from gpuyard.policies.resolve import resolve
from gpuyard.policies.shared_snapshots import shared_snapshot
from gpuyard.policies.sharing_facts import SharingFacts, TaskUse
from gpuyard.policies.snapshot_files import read_facts, write_facts
from gpuyard.results import Run
from gpuyard.simulation.chosen_snapshot import chosen_snapshot
from gpuyard.simulation.multiplex.engine import open_shared_cluster
from gpuyard.simulation.node_order import NodeOrder
from gpuyard.simulation.options import Options

NODE = NodeKind(gpus=2, cpus=12, memory_gb=250, gpu_memory_gb=16)
LOUD, QUIET = Usage("loud", 0.9, 0.6), Usage("quiet", 0.2, 0.1)
KNOWN = InterferenceModel().learn(Observation((LOUD, QUIET), (0, 1), 0.4), Observation((LOUD, LOUD), (0, 1), 1.6))
NAMES = [name for name in MULTIPLEXERS.names if name != "pairwise"]


def facts(*tasks: tuple[str, Usage, float, tuple[str, int] | None], hours: float = 1.0) -> Facts:
    """A node with two GPUs and tasks of this use and memory, each on its GPU or waiting."""
    found = Facts(1000.0)
    found.add_node("a", NODE)
    uses: dict[Any, TaskUse] = {}
    company = [place for *_, place in tasks]
    for number, (name, usage, memory, place) in enumerate(tasks):
        found.add_job(Job(name, float(number), 1, "generic", iterations=3600.0 * hours))
        uses[name] = TaskUse(usage, memory)
        if place is not None:
            share = int(1000 / company.count(place)) / 1000
            found.hold(name, [place], share=share, gpu_memory_gb=memory, cpus=1.0, memory_gb=10.0)
    found.sharing = SharingFacts("interference", uses, KNOWN)
    return found


def going_on(found: Facts, path: Path, multiplex: str = "interference", **options: Any) -> Run:
    """The run that goes on from these facts, as a file says them."""
    write_facts(found, path)
    chosen = Options(snapshot=str(path), multiplex=multiplex, round_s=60.0, **options)
    return simulate(policy="fifo+proportional", options=chosen)


TASKS = st.lists(
    st.tuples(st.sampled_from([LOUD, QUIET]), st.sampled_from([2.0, 5.0, 9.0]), st.sampled_from([None, 0, 1])),
    min_size=1, max_size=7,
)  # fmt: skip


@settings(max_examples=examples(30), deadline=None)
@given(TASKS, st.sampled_from(NAMES))
def test_the_first_plan_is_that_of_decide_and_all_tasks_end(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[Usage, float, int | None]], name: str
) -> None:
    free, tasks = {0: 16.0, 1: 16.0}, []
    for number, (usage, memory, gpu) in enumerate(drawn):
        there = gpu if gpu is not None and free[gpu] >= memory else None
        if there is not None:
            free[there] -= memory
        tasks.append((f"t{number}", usage, memory, None if there is None else ("a", there)))
    path = tmp_path_factory.getbasetemp() / "shared.json"
    write_facts(facts(*tasks), path)
    policy, found = resolve("fifo+proportional"), read_facts(path)
    decider = SharedDecider(policy, MULTIPLEXERS.find(name), zoo())
    expected = decider(shared_snapshot(found, zoo())).plan
    options = Options(snapshot=str(path), multiplex=name, round_s=60.0)
    found, cluster, workload, options, known_models = chosen_snapshot(options, zoo())
    nodes = NodeOrder(cluster, keep=True)
    world, deciding = open_shared_cluster(nodes, workload, policy, options, known_models, found)
    assert world.wait(None)
    last = deciding(world.snapshot())
    assert (last.plan.places, last.plan.waits) == (expected.places, expected.waits)
    world.apply(last)
    while world.wait(last):
        last = deciding(world.snapshot())
        world.apply(last)
        world.ledger.check()
    assert all(at < float("inf") for at in world.tally.finish)


def finish(run: Run) -> dict[Any, Any]:
    """When each task is done."""
    return dict(zip(run.jobs["job_id"], run.jobs["finish_s"], strict=True))


def test_tasks_slow_each_other_down_as_what_they_say_of_themselves_lets_expect(tmp_path: Path) -> None:
    """Loud beside quiet takes 1 + 0.49 * (0.2 + 0.1) times as long, and quiet beside loud 1 + 0.49 * 1.5."""
    together = facts(("l", LOUD, 8.0, ("a", 0)), ("q", QUIET, 3.0, ("a", 0)), hours=1.0)
    ended = finish(going_on(together, tmp_path / "now.json", "exclusive"))
    alone_s = finish(going_on(facts(("l", LOUD, 8.0, ("a", 0))), tmp_path / "one.json", "exclusive"))["l"] - 1000.0
    first = ended["l"] - 1000.0
    assert first < ended["q"] - 1000.0
    assert first >= 1.147 * alone_s * (1 - 1e-9)  # beside the other all the time, with half of its CPUs


def test_who_has_gpus_of_its_own_keeps_them_and_a_note_says_so(tmp_path: Path) -> None:
    found = facts(("q", QUIET, 3.0, None), ("r", QUIET, 14.0, None))
    found.add_job(Job("whole", 0.0, 1, "generic", iterations=9.0))
    found.hold("whole", [("a", 0)])
    run = going_on(found, tmp_path / "now.json", "first-fit")
    assert set(run.timeline["gpu_ids"].explode()) == {1}
    assert set(finish(run)) == {"q", "r"}
    assert "1 of the snapshot's jobs ask for GPUs of their own" in run.info["notes"][0]


def test_it_ends_at_the_horizon_and_use_counts_from_the_snapshot(tmp_path: Path) -> None:
    found = facts(("q", QUIET, 3.0, ("a", 0)), hours=100.0)
    run = going_on(found, tmp_path / "now.json", until_s=1800.0)
    assert finish(run) == {"q": None}
    assert run.info["end_s"] == 2800.0
    assert run.summary["gpu_use"] == pytest.approx(0.5)


def test_work_that_nobody_knows_ends_as_the_option_says(tmp_path: Path) -> None:
    found = facts(("q", QUIET, 3.0, ("a", 0)))
    found.jobs["q"] = replace(found.jobs["q"], job=Job("q", 0.0, 1, "generic").counted())
    run = going_on(found, tmp_path / "now.json", unknown_duration_s=1800.0)
    assert finish(run)["q"] == pytest.approx(2800.0, abs=61)


def test_what_was_learnt_is_known_to_the_policy(tmp_path: Path) -> None:
    """The quiet one goes beside the quiet one, as nothing but the snapshot tells."""
    here = (("l", LOUD, 8.0, ("a", 0)), ("q", QUIET, 8.0, ("a", 1)), ("new", LOUD, 4.0, None))
    found = facts(*here)
    run = going_on(found, tmp_path / "now.json", "placement-only", until_s=60.0)
    started = run.timeline.filter(run.timeline["job_id"] == "new")
    assert started["gpu_ids"].to_list() == [[1]]
    swapped = InterferenceModel().learn(
        *[Observation((LOUD, QUIET), (0, 1), 2.5)] * 9, *[Observation((LOUD, LOUD), (0, 1), 0.0)] * 9
    )
    found.sharing = SharingFacts("interference", found.sharing.tasks, swapped)
    run = going_on(found, tmp_path / "now.json", "placement-only", until_s=60.0)
    started = run.timeline.filter(run.timeline["job_id"] == "new")
    assert started["gpu_ids"].to_list() == [[0]]


def test_tasks_on_the_way_out_are_refused(tmp_path: Path) -> None:
    found = facts(("q", QUIET, 3.0, None))
    found.hold("q", [("a", 0)], state=GrantState.RELEASING)
    with pytest.raises(InputError, match="no multiplex policy was at work there"):
        going_on(found, tmp_path / "now.json")
