"""Real jobs that share GPUs under a multiplex policy go where the simulator puts them, and take as long."""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runtime.virtual_yard import VirtualYard
from tests.simulation.multiplex.small_cluster import PROFILES, shared_run, tasks

from gpuyard.client.control import messages
from gpuyard.client.session import RankName
from gpuyard.client.shared_batch import BatchWish
from gpuyard.core.errors import InputError
from gpuyard.core.workload import Job, Workload
from gpuyard.policies.multiplex.interference import Observation, Usage
from gpuyard.policies.resolve import resolve
from gpuyard.profiles import load_zoo
from gpuyard.results import Run
from gpuyard.runtime.commands import ChangeLease, LeaseTerms
from gpuyard.runtime.new_jobs import NewJob
from gpuyard.runtime.real_cluster import RunRules
from gpuyard.runtime.records import JobState
from gpuyard.runtime.reports import RankProgress
from gpuyard.runtime.run_folder import make_run
from gpuyard.runtime.wire import command_message, wish_of
from gpuyard.simulation.multiplex.physics import Physics
from gpuyard.traces import read_cluster

CLUSTER = "2x2:cpus=24,memory=500GB,gpu_memory=16GB"
GPU_GB, ROUND_S = 16.0, 10.0
POLICY = "fifo+proportional"
MIXED = tasks(*((("big", "small", "small")[n % 3], 40.0 * n, 303.7 + 37.3 * n) for n in range(11)))
UNTUNED = (
    "exclusive", "first-fit", "best-fit", "utilisation", "random:seed=3", "pairwise", "kernelest", "placement-only",
)  # fmt: skip


def yard_of(folder: Path, multiplex: str, cluster: str = CLUSTER, **more: Any) -> VirtualYard:
    (folder / "models.yaml").write_text(PROFILES)
    zoo = load_zoo([folder / "models.yaml"])
    return VirtualYard(
        read_cluster(cluster), zoo, folder, RunRules(ROUND_S), multiplex=multiplex, tell_every_s=2.0, **more
    )  # fmt: skip


def worlds(folder: Path, workload: Workload, multiplex: str, policy: str = POLICY) -> tuple[Run, VirtualYard]:
    simulated = shared_run(folder, workload, multiplex, policy, CLUSTER, round_s=ROUND_S)
    yard = yard_of(folder, multiplex)
    yard.run_shared(workload, resolve(policy))
    return simulated, yard


def completion_s(yard: VirtualYard) -> float:
    return float(np.mean([float(each.finish_s or 0.0) - each.job.arrival_s for each in yard.world.records.values()]))


def gpu_by_job(rows: Sequence[dict[str, Any]]) -> dict[int, list[int]]:
    """Where each job was first."""
    return {row["job_id"]: row["gpu_ids"] for row in sorted(rows, key=lambda row: -row["start_s"])}


@pytest.mark.parametrize(
    ("multiplex", "policy"),
    [*((name, POLICY) for name in UNTUNED), ("kernelest", "las+tune"), ("best-fit", "srtf+tune")],
)
def test_tasks_go_where_the_simulator_puts_them_and_end_when_it_says(
    multiplex: str, policy: str, tmp_path: Path
) -> None:
    simulated, yard = worlds(tmp_path, MIXED, multiplex, policy)
    assert gpu_by_job(yard.store.rows("spans")) == gpu_by_job(simulated["timeline"].to_dicts())
    for row in simulated.jobs.iter_rows(named=True):
        record = yard.world.records[str(row["job_id"])]
        assert record.start_s == pytest.approx(row["start_s"], abs=ROUND_S)  # or who ends with a round ends after it
        assert record.finish_s == pytest.approx(row["finish_s"], abs=2 * ROUND_S)


@pytest.mark.parametrize("multiplex", ["tuning-only", "interference"])
def test_batch_sizes_are_tuned_as_in_the_simulator(multiplex: str, tmp_path: Path) -> None:
    """What is measured there has noise, and here the clock of processes that tell once a second."""
    simulated, yard = worlds(tmp_path, MIXED, multiplex)
    assert completion_s(yard) / 3600 == pytest.approx(simulated.summary["mean_jct_h"], rel=0.1)
    companies = yard.store.rows("companies")
    sizes = {size for row in companies for size in row["batches"]}
    assert sizes > {64, 128}  # more than their own
    check_memory(yard, companies)
    for row in companies:  # nothing is tried for ever: a search is over in a minute or so
        assert not row["tuning"] or row["end_s"] - row["start_s"] < 60.0


def check_memory(yard: VirtualYard, companies: list[dict[str, Any]]) -> None:
    """With the batch sizes that they had, those on a GPU never took more than its memory."""
    physics = Physics(yard.zoo, ("big", "small"), GPU_GB)
    model = {record.name: record.job.model for record in yard.world.records.values()}
    for row in companies:
        sizes = zip(row["tasks"], row["batches"], strict=True)
        assert sum(physics.batches[model[name]].memory_gb(size) for name, size in sizes) <= GPU_GB + 1e-9, row


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("multiplex", ["interference", "best-fit"])
def test_whoever_dies_books_agree_and_every_gpu_comes_to_rest(multiplex: str, seed: int, tmp_path: Path) -> None:
    yard = yard_of(tmp_path, multiplex, start_s=5.0, save_s=2.0)
    yard.agents.save_every_s = 60.0
    chance = random.Random(seed)

    def strike() -> None:
        if chance.random() < 0.6 and yard.agents.ranks:
            yard.agents.kill(chance.choice(sorted(yard.agents.ranks, key=str)))
        elif chance.random() < 0.5:
            yard.agents.lose(chance.choice(yard.cluster.node_names), back_after_s=chance.uniform(1.0, 100.0))
        if yard.clock.now() < 1500.0:
            yard.clock.at(yard.clock.now() + chance.expovariate(1 / 80.0), strike)

    yard.clock.at(100.0, strike)
    for _ in range(5):
        yard.clock.at(yard.clock.now() + chance.uniform(50.0, 400.0), yard.die)
        if yard.run_until_death(MIXED, resolve(POLICY)):
            break
        before, held = yard, yard.world.attempts.held.grants()
        yard = yard.successor()
        kept = {grant.holder: grant.parts for grant in yard.world.attempts.held.grants()}
        assert kept == {
            record.name: record.attempt.grant.parts for record in yard.world.records.values() if record.attempt
        }
        assert kept.items() <= {grant.holder: grant.parts for grant in held}.items()  # or it was not kept, nor told
        assert before.company is not None
        assert yard.company is not None
        assert len(yard.company.means.model.observations) <= len(before.company.means.model.observations)
    else:
        yard.run_shared(MIXED, resolve(POLICY))
    assert {record.state for record in yard.world.records.values()} == {JobState.FINISHED}
    starts = Counter((command.job, command.attempt) for command in yard.agents.starts)
    assert set(starts.values()) == {1}
    check_nobody_has_too_much_memory(yard)
    assert yard.company is not None
    assert not any(gpu.tuning for gpu in yard.company.gpus(yard.cluster.node_names))


def check_nobody_has_too_much_memory(yard: VirtualYard) -> None:
    """From what processes held: with their own batch sizes they fit into each GPU at any moment."""
    physics = Physics(yard.zoo, ("big", "small"), GPU_GB)
    own = {model: physics.batches[model].memory_gb(physics.batches[model].own) for model in ("big", "small")}
    changes: defaultdict[int, list[tuple[float, int, float]]] = defaultdict(list)
    for row in yard.store.rows("spans"):
        (gpu,) = row["gpu_ids"]
        needs = own[yard.world.records[str(row["job_id"])].job.model]
        changes[gpu] += [(row["start_s"], 1, needs), (row["end_s"], -1, needs)]
    for here in changes.values():
        taken = 0.0
        for _, sign, needs in sorted(here):  # at one instant, what ends comes first
            taken += sign * needs
            assert taken <= GPU_GB + 1e-6


def test_what_was_learnt_of_mixes_outlives_the_scheduler(tmp_path: Path) -> None:
    yard = yard_of(tmp_path, "interference")
    yard.clock.at(450.0, yard.die)
    assert not yard.run_until_death(MIXED, resolve(POLICY))
    assert yard.company is not None
    learnt = yard.company.means.model.observations
    later = yard.successor()
    assert later.company is not None
    assert learnt
    recalled = later.company.means.model.observations
    assert {each.mix for each in recalled} == {each.mix for each in learnt}
    beside = {("big", "small"): 0.5, ("big", "big"): 0.9, ("small", "big"): 0.2, ("small", "small"): 0.1}
    for each in recalled:
        mine, *others = each.mix
        factors = [1 + beside[mine.model, other.model] * other.batch**0.5 for other in others]
        assert each.slowdown + 1 == pytest.approx(np.prod(factors), rel=0.02)  # as the profile says


def test_what_was_measured_in_another_company_does_not_count(tmp_path: Path) -> None:
    """Whoever comes or goes, all on that GPU have other terms; what is told under older ones is not learnt."""
    yard = yard_of(tmp_path, "first-fit", "1x1:cpus=24,memory=500GB,gpu_memory=16GB")
    company, terms = yard.company, list[dict[str, int]]()
    assert company is not None

    def look() -> None:
        terms.append({name.job: rank.lease.terms for name, rank in yard.agents.ranks.items()})

    def tell_late() -> None:
        late = RankProgress(
            RankName("0", 1, 0), 1, working=True, terms=terms[0]["0"], measured_steps=500, measured_s=1e6
        )
        yard.world.post(partial(yard.world.attempts.progressed, late))

    for at_s, what in ((5.0, look), (10.2, tell_late), (15.0, look), (25.0, look)):
        yard.clock.at(at_s, what)
    yard.run_shared(tasks(("small", 0, 100), ("small", 10, 100), ("small", 20, 100)), resolve(POLICY))
    assert terms[0]["0"] < terms[1]["0"] < terms[2]["0"]
    assert terms[1]["1"] < terms[2]["1"]
    assert company.means.model.observations
    assert all(each.slowdown < 1.0 for each in company.means.model.observations)


def test_a_mix_is_recalled_as_it_was_written(tmp_path: Path) -> None:
    yard = yard_of(tmp_path, "interference")
    assert yard.company is not None
    mix = (Usage("big", 0.9, 0.5, 2.0), Usage("small", 0.2, 0.1, 1.0))
    yard.company.recall([{"mix": [list(each) for each in mix], "slowdown": 0.5, "error": 0.01, "gpu": "V100"}])
    assert yard.company.means.model.observations == (Observation(mix, (0,), 0.5, 0.01, "V100"),)


@pytest.mark.parametrize(
    ("job", "field"),
    [(Job("wide", 0.0, 2, "big", iterations=10), "gpus"), (Job("part", 0.0, 0.5, "big", iterations=10), "gpus"),
     (Job("huge", 0.0, 1, "big", iterations=10), "model")],
)  # fmt: skip
def test_who_can_share_no_gpu_is_refused_when_it_comes(job: Job, field: str, tmp_path: Path) -> None:
    cluster = "1x1:cpus=24,memory=500GB,gpu_memory=" + ("4GB" if field == "model" else "16GB")
    yard = yard_of(tmp_path, "first-fit", cluster)
    with pytest.raises(InputError) as refused:
        yard.world.add([NewJob(job)])
    assert refused.value.field == field
    assert not yard.world.records


def test_a_program_is_told_what_is_wished_of_its_batch_size(tmp_path: Path) -> None:
    """What it says comes with the progress of its process; its lease answers. It keeps within its own memory."""
    yard = yard_of(tmp_path, "tuning-only", "1x1:cpus=24,memory=500GB,gpu_memory=16GB")
    yard.world.add(NewJob(Job(name, 0.0, 1, "big", command="train", iterations=1e6)) for name in ("a", "b"))
    assert yard.company is not None
    said = {"task": "-", "own": 64, "smallest": 32, "largest": 128, "fixed_gb": 1.0, "sample_gb": 0.05, "rule": "none"}

    def talk() -> None:
        for rank in list(yard.agents.ranks.values()):
            told = dict(said)
            wish = rank.lease.wish
            if wish is not None:
                told["applied"] = [wish.round, wish.generation]
                told["sample"] = {"steps": 10, "step_s": 0.1 + wish.batch / 1e5, "error_s": 1e-4}
            message = RankProgress(rank.name, said=yard_message(told))
            yard.world.post(partial(yard.world.attempts.progressed, message))
        yard.clock.at(yard.clock.now() + 0.5, talk)

    yard.clock.at(1.0, talk)
    yard.clock.at(60.0, yard.world.end)
    seen: list[BatchWish | None] = []
    yard.clock.at(50.0, lambda: seen.extend(rank.lease.wish for rank in yard.agents.ranks.values()))
    yard.run_shared(Workload.from_jobs([]), resolve(POLICY))
    room_gb = 6000 * 2**20 / 1e9
    assert len(seen) == 2
    for wish in seen:
        assert wish is not None
        assert 64 < wish.batch <= (room_gb - 1.0) / 0.05 + 1e-9  # a step takes hardly longer with a larger one


def yard_message(said: dict[str, Any]) -> str:
    return json.dumps(said)


def test_a_wish_travels_with_the_lease() -> None:
    for wish in (None, BatchWish("r", 3, 96, 1.5)):
        told = command_message(ChangeLease("a", 1, LeaseTerms(terms=7, wish=wish)))
        lease = messages()["ToAgent"].FromString(told.SerializeToString()).change.lease
        assert (lease.terms, wish_of(lease)) == (7, wish)


def test_the_run_folder_says_who_shared_which_gpu(tmp_path: Path) -> None:
    _, yard = worlds(tmp_path, MIXED, "first-fit")
    run = make_run(yard.world, yard.zoo, policy="p", load=None, timing={}, shares=True)
    assert max(map(len, run["shared_gpus"]["tasks"].to_list())) > 1
    assert 0 < run.summary["gpu_use"] <= 1
