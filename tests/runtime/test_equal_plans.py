"""Random workloads in both worlds: equal snapshots give equal plans, whichever world they are from."""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.runtime.virtual_yard import VirtualYard

from gpuyard.core.cluster import Cluster
from gpuyard.core.workload import Job, Workload
from gpuyard.policies.controller import control
from gpuyard.policies.decide import Decision, decide
from gpuyard.policies.feasibility import infeasible
from gpuyard.policies.named_plan import named_plan
from gpuyard.policies.policy import Policy
from gpuyard.policies.registry import ALLOCATIONS, ORDERS
from gpuyard.policies.resolve import resolve
from gpuyard.policies.snapshot import Snapshot
from gpuyard.profiles import load_zoo
from gpuyard.runtime.real_cluster import LEAST_START_S, RunRules
from gpuyard.simulation.opening import open_cluster
from gpuyard.simulation.options import Options

ROUND_S = 300.0
LOOKED_AT = 5
"""Decisions of each world, spread over the run: to save and load a snapshot costs more than to decide."""
ZOO = load_zoo()
NODES = ("1x1:cpus=3", "2x4:cpus=12,memory=250GB", "1x2:cpus=24,memory=60GB,type=T4", "3x1:cpus=2,memory=40GB,type=K80")

clusters = st.lists(st.sampled_from(NODES), min_size=1, max_size=3, unique=True).map("+".join)
policies = st.builds("{}+{}".format, st.sampled_from(ORDERS.names), st.sampled_from(ALLOCATIONS.names))


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    one = st.fixed_dictionaries(
        {
            "arrival_s": st.integers(0, 12).map(lambda many: many * ROUND_S / 2),
            "gpus": st.sampled_from([0.25, 0.5, 1.0, 1.0, 2.0, 3.0, 6.0]),
            "model": st.sampled_from(["resnet50", "res18", "gnmt", "bert", "generic"]),
            "duration_s": st.integers(100, 5000).map(float),
            "tenant": st.sampled_from(["red", "blue"]),
            "priority": st.sampled_from([0, 0, 0, 1]),
            "gpu_types": st.sampled_from(["", "", "T4", "V100|K80"]),
        }
    )
    drawn: list[dict[str, Any]] = draw(st.lists(one, min_size=2, max_size=8))
    drawn[0]["arrival_s"] = 0.0
    return Workload.from_jobs(Job(number, **each) for number, each in enumerate(drawn))


def simulated(cluster: Cluster, jobs: Workload, policy: Policy) -> list[tuple[Snapshot, Decision]]:
    """What the simulator sees and decides; a start costs as much as in the other world."""
    seen: list[tuple[Snapshot, Decision]] = []

    def deciding(snapshot: Snapshot) -> Decision:
        found = decide(policy, snapshot)
        seen.append((snapshot, found))
        return found

    options = Options(round_s=ROUND_S, restart_cost_s=LEAST_START_S)
    control(open_cluster(cluster, jobs, policy, options, ZOO), deciding)
    return seen


def plans(seen: list[tuple[Snapshot, Decision]], again: Any, folder: Path) -> dict[str, Any]:
    """By what each snapshot says, the plan made of it, which is that of an equal snapshot that no world has lent."""
    found = {}
    for snapshot, decision in seen[:: max(len(seen) // LOOKED_AT, 1)]:
        snapshot.save(folder / "snapshot.json")
        plan = named_plan(snapshot, decision)
        offline = Snapshot.load(folder / "snapshot.json")
        assert named_plan(offline, again(offline)) == plan
        said = json.loads((folder / "snapshot.json").read_text())
        for job in said["jobs"]:
            if job["held_since_s"] is None:
                del job["speed"]  # of nobody who runs: the simulator puts in what an allocation will give
        found[str(said)] = plan
    return found


@settings(max_examples=30, deadline=None)
@given(clusters, workloads(), policies)
def test_equal_snapshots_give_equal_plans_in_any_world(shape: str, jobs: Workload, name: str) -> None:
    cluster, policy = Cluster.parse(shape), resolve(name)
    assume(not infeasible(jobs, cluster).any())
    with tempfile.TemporaryDirectory() as folder:
        yard = VirtualYard(cluster, ZOO, Path(folder), RunRules(ROUND_S))
        yard.run(jobs, policy)
        again = partial(decide, resolve(name))
        real, imagined = (plans(seen, again, Path(folder)) for seen in (yard.seen, simulated(cluster, jobs, policy)))
        yard.store.close()
    both = real.keys() & imagined.keys()
    assert both, "all begin alike"
    assert all(real[each] == imagined[each] for each in both)
