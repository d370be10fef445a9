"""Jobs run on as many CPUs as they were granted, and no CPU is given twice."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.test_processes import eventually

from gpuyard.client.control import messages
from gpuyard.runtime.addresses import AgentSettings
from gpuyard.runtime.agent import NodeAgent
from gpuyard.runtime.cpu_sets import CpuSets, cpus_of_nodes, move_session, starting_on, usable_cpus
from gpuyard.traces import read_cluster

SHOW = "import os, sys; print(sorted(os.sched_getaffinity(0)), flush=True); sys.stdin.readline()"
AGAIN = "; print(sorted(os.sched_getaffinity(0)), flush=True)"


def test_nodes_have_cpus_of_their_own_where_the_machine_has_enough() -> None:
    cluster = read_cluster("2x1:cpus=2,memory=10GB")
    assert cpus_of_nodes(cluster, [0, 2, 4, 6, 8]) == {"node0": [0, 2], "node1": [4, 6]}
    assert cpus_of_nodes(cluster, [0, 2, 4]) == {}


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 2000)), max_size=12))
def test_what_is_given_is_as_much_as_was_granted_and_never_more_than_there_is(asked: list[tuple[str, int]]) -> None:
    sets, grants = CpuSets(range(8)), dict[str, int]()
    for holder, part in asked:
        cpus = sets.give(holder, part / 1000)
        grants[holder] = part
        assert part <= 1000 * len(cpus)
        used = Counter[int]()
        for parts in sets._given.values():
            used.update(parts)
        assert max(used.values(), default=0) <= 1000
        assert {name: sum(parts.values()) for name, parts in sets._given.items()} == grants


def test_whole_cpus_are_shared_with_nobody_and_who_gets_more_keeps_what_it_has() -> None:
    sets = CpuSets([4, 5, 6, 7])
    assert sets.give("half", 0.5) == {4}
    assert sets.give("two", 2.0) == {5, 6}
    assert sets.give("other half", 0.5) == {4}
    sets.take_back("half")
    assert sets.give("two", 3.0) == {5, 6, 7}
    assert sets.give("two", 1.0) == {5}


def test_without_cpus_nobody_is_held_to_any() -> None:
    assert CpuSets([]).give("job", 3.0) == set()


def test_processes_start_on_their_cpus_and_move_while_they_run() -> None:
    first, last = usable_cpus()[0], usable_cpus()[-1]
    with starting_on({first}):
        child = subprocess.Popen(
            [sys.executable, "-c", SHOW + AGAIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip
    assert os.sched_getaffinity(0) == set(usable_cpus())
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stdout.readline() == f"[{first}]\n"
    move_session(child.pid, {last})
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.stdout.readline() == f"[{last}]\n"
    child.communicate()


def test_a_process_is_told_the_cpus_that_it_runs_on(tmp_path: Path) -> None:
    last, kinds = usable_cpus()[-1], messages()
    agent = NodeAgent(AgentSettings("node0", 1, str(tmp_path), 0.1, 3600.0, cpus=[last]))
    tells = "import os; print(os.environ['SYNERGY_CPUS_ALLOCATED'], os.sched_getaffinity(0))"
    start = kinds["Start"](
        job="job", attempt=1, ranks=[0], gpus=[0], command=[sys.executable, "-c", tells], log=str(tmp_path / "log"),
        lease=kinds["Lease"](cpus=1.0),
    )  # fmt: skip
    agent._start(start)
    eventually(lambda: not agent.ranks)
    assert (tmp_path / "log").read_text() == f"{last} {{{last}}}\n"
