"""Any world can show GPUs on which several jobs run together, and GPUs that are promised while somebody leaves them."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import examples
from tests.policies.scenarios.stories import Known, Node, leaves, node, runs, scene, told, waits

from gpuyard.core.cluster import NodeKind
from gpuyard.core.errors import GpuyardError, InputError, LedgerError
from gpuyard.core.grants import GrantState, Part
from gpuyard.core.ledger import Ledger
from gpuyard.core.workload import Job
from gpuyard.policies.decide import decide
from gpuyard.policies.facts import Facts
from gpuyard.policies.named_plan import named_plan, planned_grants
from gpuyard.policies.resolve import resolve
from gpuyard.policies.snapshot import Snapshot

ALLOCATIONS = ["proportional", "tune", "greedy", "opt"]


def beside(known: Known, share: float, **more: Any) -> Known:
    """The same job, with a share of its GPUs."""
    return known._replace(amounts=known.amounts | {"share": share} | more)


def reserved(known: Known) -> Known:
    """The same job, which has yet to start."""
    return known._replace(state=GrantState.RESERVED)


def pair() -> list[Node | Known]:
    """Two jobs of a GPU each that run together on the first of two."""
    x, y = beside(runs("x", "a0"), 0.5, gpu_memory_gb=20.0), beside(runs("y", "a0"), 0.5, gpu_memory_gb=12.0)
    return [node("a", 2), x, y]


def test_a_snapshot_of_jobs_that_run_together_is_saved_and_loaded_again(tmp_path: Path) -> None:
    facts = Facts(0.0)
    facts.add_node("a", NodeKind(gpus=2, cpus=8, memory_gb=64))
    for name in ("x", "y"):
        facts.add_job(Job(name, 0.0, 2, "resnet50", iterations=100.0))
    facts.hold("x", [("a", 0), ("a", 1)], share=0.3, gpu_memory_gb=[20.0, 4.0], cpus=2.0)
    facts.hold("y", [("a", 0), ("a", 1)], share=0.6)
    facts.occupy("pod", [("a", 1), ("a", 0)], share=[0.1, 0.05], gpu_memory_gb=12.0)
    snapshot = Snapshot.of(facts)
    snapshot.save(tmp_path / "now.json")
    again = Snapshot.load(tmp_path / "now.json")
    assert again == snapshot
    for name in ("x", "y", "pod"):
        assert again.facts.jobs[name].holds == facts.jobs[name].holds
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "now.json").read_bytes()


def test_a_file_says_shares_only_where_the_job_s_size_does_not(tmp_path: Path) -> None:
    scene(node("a", 2), runs("whole", "a0"), runs("half", "a1", share=0.5)).save(tmp_path / "now.json")
    jobs = {job["job_id"]: job["holds"]["gpus"] for job in json.loads((tmp_path / "now.json").read_text())["jobs"]}
    assert jobs == {"whole": [{"node": "a", "gpu": 0}], "half": [{"node": "a", "gpu": 1}]}


def together(*holdings: dict[str, Any]) -> Snapshot:
    """Jobs of a GPU each that all hold something of the same one, with 32 GB."""
    facts = Facts(0.0)
    facts.add_node("a", NodeKind(gpus=1, gpu_memory_gb=32.0))
    for number, holding in enumerate(holdings):
        facts.add_job(Job(number, 0.0, 1, "resnet50", iterations=9))
        facts.hold(number, [("a", 0)], **holding)
    return Snapshot.of(facts)


REFUSED: dict[str, tuple[list[dict[str, Any]], str]] = {
    "more than a GPU": (
        [{"share": 0.5}, {"share": 0.501}],
        "'a:0' is held by jobs 0, 1, which together need more than",
    ),
    "more than its memory": (
        [{"share": 0.1, "gpu_memory_gb": 20.0}, {"share": 0.1, "gpu_memory_gb": 13.0}],
        "'job 1' cannot take 100 thousandths of GPU 0, 13 GB of its memory, .* 900 thousandths and 12 GB of it are fr",
    ),
    "no share": ([{"share": -0.5}], "field holds, share: -0.5 must be a finite number"),
    "more than all": ([{"share": 1.5}], "field holds, share: 1.5 is beyond 1"),
    "a share that is none": ([{"share": "half"}], "field holds, share: 'half' must be a finite number"),
    "memory that is none": ([{"gpu_memory_gb": -1.0}], "field holds, gpu_memory_gb: -1.0 must be a finite number"),
    "shares of other GPUs": ([{"share": [0.5, 0.5]}], "must be one number, or one for each of 1 GPUs"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused(case: str) -> None:
    holdings, says = REFUSED[case]
    with pytest.raises(GpuyardError, match=says):
        together(*holdings)


def test_a_job_that_is_decided_about_has_the_same_share_of_each_gpu() -> None:
    with pytest.raises(InputError, match=r"holds of job x: .* must be the same share of each GPU, unless it is releas"):
        scene(node("a", 2), beside(runs("x", "a0 a1"), [0.5, 0.4]))  # type: ignore[arg-type]


STORIES: dict[str, tuple[list[Node | Known], dict[str, str], dict[str, str], set[str]]] = {
    "a GPU of two is taken": ([*pair(), waits("w")], {"w": "a1"}, {}, set()),
    "a second job finds nothing": ([*pair(), waits("w"), waits("v", at=1)], {"w": "a1"}, {"v": "gpus"}, set()),
    "who has half of a GPU needs no more": (
        [node("a", 1), beside(runs("x", "a0"), 0.5), waits("w", at=1), waits("s", 0.5, at=2)],
        {"s": "a0"}, {"w": "gpus"}, set()),
    "a slice finds what is left": (
        [node("a", 1), beside(runs("x", "a0"), 0.3), beside(runs("y", "a0"), 0.3), waits("s", 0.4, at=1)],
        {"s": "a0"}, {}, set()),
    "and no more than that": (
        [node("a", 1), beside(runs("x", "a0"), 0.3), beside(runs("y", "a0"), 0.3), waits("s", 0.41, at=1)],
        {}, {"s": "gpus"}, set()),
    "who goes first puts both in their place": (
        [node("a", 1), beside(runs("x", "a0", at=1), 0.5), beside(runs("y", "a0", at=1), 0.5), waits("w")],
        {"w": "a0"}, {"x": "gpus", "y": "gpus"}, {"x", "y"}),
    "a slice that holds more than it asked for is as large as that": (
        [node("a", 1), beside(runs("x", "a0", share=0.25), 0.75), waits("s", 0.5, at=1)], {}, {"s": "gpus"}, set()),
    "who leaves has its share": (
        [node("a", 1), beside(leaves("x", "a0"), 0.75), waits("s", 0.25, at=1), waits("t", 0.1, at=2)],
        {"s": "a0"}, {"t": "gpus"}, set()),
    "what somebody leaves is the next's": (
        [node("a", 2), leaves("old", "a0"), reserved(runs("next", "a0", at=1)), waits("w", at=2)],
        {"w": "a1"}, {}, set()),
    "and nothing is stopped for the next": (
        [node("a", 2), leaves("old", "a0"), runs("z", "a1", at=5), reserved(runs("next", "a0", at=1))],
        {}, {}, set()),
    "who goes before the next gets its promise": (
        [node("a", 1), leaves("old", "a0"), reserved(runs("next", "a0", at=1)), waits("w")],
        {"w": "a0"}, {"next": "gpus"}, {"next"}),
    "of what it leaves, what nobody is promised cannot be had yet": (
        [node("a", 1), leaves("old", "a0"), reserved(beside(runs("next", "a0"), 0.5)), waits("s", 0.25, at=1)],
        {}, {"s": "gpus"}, set()),
}  # fmt: skip


@pytest.mark.parametrize("allocate", ALLOCATIONS)
@pytest.mark.parametrize("story", STORIES)
def test_who_gets_what(story: str, allocate: str) -> None:
    parts, gets, waiting, stops = STORIES[story]
    plan = told(f"fifo+{allocate}", scene(*parts))
    new = {job: gpus for job, gpus in plan.gets.items() if job in gets or job not in ("x", "y", "next", "z")}
    assert (new, plan.waits, plan.stops) == (gets, waiting, stops)


@pytest.mark.parametrize(("quota", "gets", "waiting"), [(2.0, {"w": "a1"}, {}), (1.5, {}, {"w": "quota"})])
def test_a_tenant_holds_as_much_as_its_shares(quota: float, gets: dict[str, str], waiting: dict[str, str]) -> None:
    plan = told("fifo+proportional", scene(*pair(), waits("w", at=1), quotas={"t": quota}))
    assert (plan.gets, plan.waits) == (gets, waiting)


def test_what_a_tenant_is_leaving_and_is_promised_counts_once() -> None:
    parts: list[Node | Known] = [node("a", 2), leaves("old", "a0 a1"), reserved(runs("next", "a0 a1", at=1))]
    assert told("fifo+proportional", scene(*parts, quotas={"t": 2.0})).stops == set()


def test_of_the_cpus_of_who_leaves_those_are_had_by_nobody_that_nobody_is_promised() -> None:
    """Old has 8 of 9 CPUs beside two GPUs; next is promised 3 of them, so that others divide 9 - 6 at most."""
    old, successor = leaves("old", "a0 a1", cpus=8.0), reserved(runs("next", "a0", "even", cpus=3.0, at=1))
    world = scene(node("a", 3), old, successor, waits("w", model="even", at=2))
    plan = told("fifo+proportional", world)
    assert {job: amounts[0] for job, amounts in plan.amounts.items()} == {"next": 1.5, "w": 1.5}
    holds = world.facts.jobs["old"].holds
    assert holds is not None
    assert sum(part.amounts["cpus"] for part in holds.parts) == 8.0


@pytest.mark.parametrize("allocate", ["proportional", "tune", "greedy"])
def test_a_wide_job_that_shares_its_gpus_finds_others_to_share(allocate: str) -> None:
    """Somebody else needs the V100s; of the T4s one is half taken."""
    v, t = node("v", 2), node("t", 2, gpu_type="T4")
    wide, x = beside(runs("wide", "v0 v1", at=1), 0.5), beside(runs("x", "t0"), 0.5)
    plan = told(f"fifo+{allocate}", scene(v, t, wide, x, waits("urgent", 2, types="V100")))
    assert (plan.gets["urgent"], plan.gets["wide"], plan.stops) == ("v0 v1", "t0 t1", set())
    full = told(f"fifo+{allocate}", scene(v, t, wide, x, waits("urgent", 2, types="V100"), waits("t", types="T4")))
    assert (full.gets["t"], full.stops) == ("t1", {"wide"})


def test_work_that_was_recorded_is_the_same_work_with_a_share() -> None:
    """An hour on a whole GPU with 4 CPUs: of half a GPU it takes two, and needs 2 CPUs."""
    facts = Facts(0.0)
    facts.add_node("a", NodeKind(gpus=2, cpus=8, memory_gb=64))
    facts.add_job(Job("alone", 0.0, 1, "generic", duration_s=3600.0, cpus=4.0))
    facts.add_job(Job("beside", 0.0, 1, "generic", duration_s=3600.0, cpus=4.0))
    facts.hold("beside", [("a", 0)], share=0.5, cpus=2.0)
    snapshot = Snapshot.of(facts)
    assert snapshot.iterations[0] == snapshot.iterations[1]
    assert snapshot.remaining_s.tolist() == pytest.approx([3600.0, 7200.0])
    assert snapshot.demand[:, 0].tolist() == pytest.approx([4.0, 2.0])
    assert snapshot.gpus.tolist() == [1.0, 0.5]
    assert snapshot.facts.jobs["beside"].job.cpus == 4.0


@pytest.mark.parametrize(("held", "rest"), [(11.0, 3.0), (3.0, 3.0), (1.0, 3.0)])
def test_who_got_more_of_another_policy_goes_back_to_its_share_when_others_need_theirs(
    held: float, rest: float
) -> None:
    plan = told("fifo+proportional", scene(node("a", 4), runs("x", "a0", cpus=held), waits("w", at=1)))
    assert plan.amounts["w"][0] == rest
    assert plan.amounts.get("x", (held,))[0] == min(held, 3.0)


def test_who_stays_keeps_its_share_and_its_gpu_memory() -> None:
    hungry = beside(runs("x", "a0", "hungry", cpus=0.5), 0.5, gpu_memory_gb=20.0)
    snapshot = scene(node("a", 1), hungry)
    decision = decide(resolve("fifo+tune"), snapshot)
    [grant] = planned_grants(snapshot, decision)
    assert grant.parts[0].thousandths == 500
    assert grant.parts[0].gpu_memory_gb == 20.0
    assert named_plan(snapshot, decision)["change"][0]["gpus"] == [{"node": "a", "gpu": 0, "share": 0.5}]


NODES = {"a": NodeKind(gpus=3, cpus=9, memory_gb=190), "b": NodeKind(gpus=2, cpus=6, memory_gb=125)}
PLACES = [(name, gpu) for name, kind in NODES.items() for gpu in range(kind.gpus)]


@st.composite
def shared_worlds(draw: st.DrawFn) -> tuple[Facts, Ledger]:
    """Facts of any states, shares and memory that ledgers let them have, and the ledger of what is promised.

    What is releasing is not promised any more, and what is reserved is not there yet: so there are two ledgers.
    """
    facts, promised, present = Facts(100.0), Ledger(), Ledger()
    for name, kind in NODES.items():
        facts.add_node(name, kind)
        promised.add_node(name, kind)
        present.add_node(name, kind)
    for number in range(draw(st.integers(1, 10))):
        size = draw(st.sampled_from([1, 1, 2, 0.5, 0.25, 3]))
        facts.add_job(Job(number, float(draw(st.integers(0, 9))), size, "resnet50", iterations=1e4))
        if draw(st.booleans()):
            continue
        places = draw(st.permutations(PLACES))[: max(int(size), 1)]
        share, memory = draw(st.sampled_from([1.0, 0.5, 0.5, 0.3, 0.01])), draw(st.sampled_from([0.0, 6.0, 20.0]))
        cpus, state = draw(st.sampled_from([0.0, 0.25, 1.0, 4.0])) * len(places), draw(st.sampled_from(GrantState))
        beside = {"cpus": cpus / len(places)}
        parts = [Part(name, gpu, round(share * 1000), memory, beside) for name, gpu in places]
        counted = {GrantState.RESERVED: [promised], GrantState.RELEASING: [present]}.get(state, [promised, present])
        if not all(fits(ledger, parts) for ledger in counted):
            continue
        for ledger in counted:
            ledger.grant(number, parts)
        facts.hold(number, places, share=share, gpu_memory_gb=memory, state=state, cpus=cpus)
    return facts, promised


def fits(ledger: Ledger, parts: list[Part]) -> bool:
    """Whether somebody new could have these parts."""
    try:
        ledger.grant("anybody", parts)
    except LedgerError:
        return False
    ledger.release("anybody")
    return True


@settings(max_examples=examples(60), deadline=None)
@given(world=shared_worlds(), allocate=st.sampled_from(ALLOCATIONS), order=st.sampled_from(["fifo", "srtf", "las"]))
def test_every_plan_fits_into_the_world_that_it_was_made_for(
    world: tuple[Facts, Ledger], allocate: str, order: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    facts, promised = world
    snapshot = Snapshot.of(facts)
    file = tmp_path_factory.mktemp("shared") / "now.json"
    snapshot.save(file)
    again = Snapshot.load(file)
    assert again == snapshot
    decision = decide(resolve(f"{order}+{allocate}"), snapshot)
    assert named_plan(again, decide(resolve(f"{order}+{allocate}"), again)) == named_plan(snapshot, decision)
    stopped = [snapshot.job_id_of(int(job)) for job in decision.plan.stopped]
    promised.carry_out(planned_grants(snapshot, decision), released=stopped)
    promised.check()
