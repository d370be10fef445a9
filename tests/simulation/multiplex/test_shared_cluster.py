"""Tasks that share GPUs in the simulated cluster: how long they take, with which batch sizes, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.simulation.multiplex.small_cluster import PROFILES, shared_run, tasks

from gpuyard import Options, generate, simulate
from gpuyard.core.cluster import NodeKind
from gpuyard.core.errors import InputError, LedgerError
from gpuyard.core.workload import Job
from gpuyard.policies.allocate.tune import Tune
from gpuyard.policies.shared_amounts import TunedAmounts, proportional_amounts
from gpuyard.profiles import load_zoo
from gpuyard.reports.time_series import series

COSTS: dict[str, Any] = {"restart_cost_s": 120.0, "start_cost_s": 60.0, "checkpoint_cost_s": 30.0}


@pytest.mark.parametrize(
    ("order", "options"),
    [
        ("fifo", {}),
        ("fifo", {"quota": {"default": 3.0}}),
        ("srtf", COSTS),
        ("fifo", {"failure_rate": 60.0, "repair_time_s": 30 * 3600.0}),
    ],
)
def test_where_nobody_shares_all_is_as_without_a_multiplex_policy(order: str, options: dict[str, Any]) -> None:
    """Two programs for the same physics: orders, costs, quotas and failures mean the same in both."""
    workload = generate(jobs=30, load=40, seed=3)
    plain, exclusive = (
        simulate(
            "2x4:cpus=12,memory=250GB",
            workload,
            f"{order}+proportional",
            Options(multiplex=name, placement="first-fit", **options),
        )
        for name in ("none", "exclusive")
    )
    assert np.allclose(plain.jobs["finish_s"], exclusive.jobs["finish_s"], rtol=1e-12)
    assert np.allclose(plain.jobs["held_s"], exclusive.jobs["held_s"], rtol=1e-9)
    assert plain.jobs["preemptions"].to_list() == exclusive.jobs["preemptions"].to_list()
    assert plain.jobs["restarts"].to_list() == exclusive.jobs["restarts"].to_list()
    for name in ("mean_jct_h", "gpu_use", "cpu_use", "memory_allocated"):
        assert exclusive.summary[name] == pytest.approx(plain.summary[name])


def test_two_tasks_slow_each_other_down_for_as_long_as_both_are_there(tmp_path: Path) -> None:
    """300 s of big beside small take 450 s; small has 100 s left then, of which it has done 450 / 1.2."""
    run = shared_run(tmp_path, tasks(("big", 0, 300), ("small", 0, 475)), "first-fit")
    assert run.jobs["finish_s"].to_list() == pytest.approx([450.0, 550.0])
    assert run["shared_gpus"]["tasks"].to_list() == [["0", "1"], ["1"]]
    assert run["shared_gpus"]["batches"].to_list() == [[64, 128], [128]]
    assert run.summary["gpu_use"] == pytest.approx(1.0)


def test_a_third_task_slows_down_one_upon_the_other(tmp_path: Path) -> None:
    run = shared_run(tmp_path, tasks(*[("small", 0, 100)] * 3), "first-fit")
    assert run.jobs["finish_s"].to_list() == pytest.approx([121.0] * 3)


def test_who_came_later_begins_when_it_is_placed(tmp_path: Path) -> None:
    run = shared_run(tmp_path, tasks(("big", 0, 300), ("big", 100, 100)), "first-fit",
                     cluster="1x1:gpu_memory=14GB")  # fmt: skip
    # 100 s alone, then both at 1/1.9 until the second is done, then 100 s alone.
    assert run.jobs["finish_s"].to_list() == pytest.approx([100 + 190 + 100, 100 + 190])


def test_a_model_whose_memory_nobody_knows_has_a_gpu_to_itself(tmp_path: Path) -> None:
    run = shared_run(tmp_path, tasks(("unmeasured", 0, 50), ("small", 0, 50)), "first-fit")
    assert run.jobs["finish_s"].to_list() == pytest.approx([50.0, 100.0])


def test_memory_is_never_exceeded_and_sizes_are_tuned_for_those_who_share(tmp_path: Path) -> None:
    mixed = tasks(*[(model, 40.0 * n, 900.0) for n, model in enumerate(["big", "small", "small", "big", "small"] * 2)])
    cluster = "2x1:cpus=24,memory=500GB,gpu_memory=12GB"
    tuned, plain = (
        shared_run(tmp_path, mixed, name, cluster=cluster, policy="fifo+tune")
        for name in ("interference", "placement-only")
    )
    per_sample = {"big": 6000 / 96, "small": 1500 / 192}
    fixed = {"big": 2000, "small": 1500}
    model_of = {str(job): model for job, model in tuned.jobs.select("job_id", "model").iter_rows()}
    for there, batches in tuned["shared_gpus"].select("tasks", "batches").iter_rows():
        models = [model_of[each] for each in there]
        memory = sum((fixed[m] + per_sample[m] * size) * bool(size) for m, size in zip(models, batches, strict=True))
        assert memory * 2**20 <= 12e9 + 1
    assert tuned.summary["unfinished"] == plain.summary["unfinished"] == 0
    alone = tuned["shared_gpus"].filter(pl.col("tasks").list.len() == 1)
    assert set(alone["batches"].list.first()) <= {64, 128}
    searches = tuned["searches"]
    assert searches.height > 0
    assert (searches["end_s"] > searches["start_s"]).all()
    assert searches["measurements"].max() <= 15  # type: ignore[operator]
    assert plain["searches"].height == 0
    assert tuned.summary["mean_jct_h"] < plain.summary["mean_jct_h"]


def test_equal_inputs_give_equal_tables(tmp_path: Path) -> None:
    workload = tasks(*[("big" if n % 3 else "small", 30.0 * n, 200.0) for n in range(9)])
    runs = [shared_run(tmp_path, workload, "interference", cluster="1x2:gpu_memory=12GB") for _ in range(2)]
    for name, frame in runs[0].tables.items():
        assert frame.equals(runs[1][name]), name


def test_tasks_on_a_node_that_fails_go_back_to_their_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "outages.csv").write_text("node,at,down\n0,500s,100s\n")
    run = shared_run(tmp_path, tasks(("small", 0, 600), ("small", 0, 600)), "first-fit",
                     failures=str(tmp_path / "outages.csv"), checkpoint_every_s=300.0)  # fmt: skip
    left = 600 * 1.1 - 300
    assert run.jobs["finish_s"].to_list() == pytest.approx([600 + left] * 2)
    assert run.jobs["restarts"].to_list() == [1, 1]


def test_iadeep_s_newcomer_stays_with_the_last_size_that_was_sampled(tmp_path: Path) -> None:
    run = shared_run(tmp_path, tasks(("big", 0, 900), ("small", 5, 300)), "iadeep")
    tried = [batches[-1] for batches in run["shared_gpus"]["batches"].to_list() if len(batches) == 2]
    assert tried == [80, 96, 112, 128, 144, 144]  # the last of them for good
    assert run["searches"]["measurements"].to_list() == [5]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"policy": "fifo+greedy"}, "cannot be joined with a multiplex policy"),
        ({"multiplex": "interferense"}, "is not a multiplex policy"),
        ({"multiplex": "interference:caution=much"}, "is not a number"),
        ({"cluster": "1x1:gpu_memory=3GB"}, "takes 6.29 GB of GPU memory"),
        ({"observations": "nowhere.json"}, "cannot be read|no such file"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"multiplex": "interference"} | change
    with pytest.raises(InputError, match=said):
        shared_run(tmp_path, tasks(("big", 0, 10)), **given)


def test_options_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InputError, match="the original shares no GPUs"):
        Options(multiplex="first-fit", faithful=True)
    with pytest.raises(InputError, match="none is named"):
        Options(observations="seen.json")


def test_jobs_of_several_gpus_cannot_share() -> None:
    with pytest.raises(InputError, match=r"asks for; GPUs are shared by jobs of one GPU each.*--gpus 1:1"):
        simulate("1x4", generate(jobs=40, multi_gpu=True), options=Options(multiplex="first-fit"))


def test_a_run_without_sharing_says_nothing_of_it() -> None:
    run = simulate("1x4", generate(jobs=3))
    assert not {"multiplex", "observations"} & set(run.info["options"])
    assert set(run.tables) == {"jobs", "timeline"}


OWN = """
from gpuyard.policies.multiplex import MultiplexPlan, Sharing

class FirstGpu:
    def plan(self, gpus):
        return MultiplexPlan({task.name: Sharing(gpus.gpus[0].node, 0, 1.0) for task in gpus.tasks})

class Forgets:
    def plan(self, gpus):
        return MultiplexPlan()

class Generous:
    def plan(self, gpus):
        return MultiplexPlan({task.name: Sharing(gpus.gpus[0].node, 0, 9.0) for task in gpus.tasks})
"""


def test_a_policy_of_one_s_own_decides_and_what_it_gets_wrong_is_named(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    two = tasks(("small", 0, 100), ("small", 0, 100))
    run = shared_run(tmp_path, two, f"{tmp_path}/own.py:FirstGpu")
    assert run.jobs["finish_s"].to_list() == pytest.approx([110.0, 110.0])
    assert run.summary["policy"] == "fifo+proportional+FirstGpu"
    with pytest.raises(InputError, match="its plan says nothing of task 0"):
        shared_run(tmp_path, two, f"{tmp_path}/own.py:Forgets")
    with pytest.raises(LedgerError, match=r"task 1.*3 GB of it are free"):
        shared_run(tmp_path, two, f"{tmp_path}/own.py:Generous")


def test_what_goes_with_a_gpu_is_divided_among_those_who_share_it(tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text(PROFILES)
    zoo = load_zoo([tmp_path / "models.yaml"])
    kind = NodeKind(gpus=2, cpus=12, memory_gb=250)
    jobs = {name: Job(name, 0.0, 1, model, iterations=1.0) for name, model in zip("abc", ["big", "small", "small"],
            strict=True)}  # fmt: skip
    gpus = {"a": 0, "b": 0, "c": 1}
    equal = proportional_amounts(kind, jobs, gpus)
    assert [equal[name][0] for name in "abc"] == [3.0, 3.0, 6.0]
    tuned = TunedAmounts(Tune(), zoo)(kind, jobs, gpus)
    assert [tuned[name][0] for name in "abc"] == [0.5, 1.5, 3.0]  # what half a GPU, or a whole one, can use
    for resource, total in enumerate(kind.amounts):
        assert sum(amounts[resource] for amounts in tuned.values()) <= total + 1e-9


def test_a_gpu_that_several_share_counts_once_in_a_report(tmp_path: Path) -> None:
    run = shared_run(tmp_path, tasks(("small", 0, 100), ("small", 0, 100), ("small", 50, 100)), "first-fit")
    assert series(run).gpus_held == pytest.approx(1.0)


@pytest.mark.parametrize(("model", "most"), [("big", 1.1), ("small", 0.5)])
def test_tasks_of_which_nothing_was_measured_are_never_piled_up(tmp_path: Path, model: str, most: float) -> None:
    eight = tasks(*[(model, 0.0, 3600.0)] * 8)
    roomy = {"cluster": "1x1:cpus=32,memory=500GB,gpu_memory=80GB", "round_s": 60.0}
    shared, alone = (
        shared_run(tmp_path, eight, name, **roomy).summary["mean_jct_h"]  # type: ignore[arg-type]
        for name in ("interference", "exclusive")
    )
    assert shared <= most * alone


def test_a_search_goes_by_what_is_left_of_a_task_now_and_not_by_what_was_left_when_it_came(tmp_path: Path) -> None:
    two, roomy = [("big", 0.0, 3600.0), ("big", 0.0, 36000.0)], "1x1:cpus=24,memory=500GB,gpu_memory=40GB"
    ends = shared_run(tmp_path, tasks(*two), "tuning-only", cluster=roomy).jobs["finish_s"].min()
    late = tasks(*two, ("small", float(ends) - 60.0, 36000.0))  # type: ignore[arg-type]
    searches = shared_run(tmp_path, late, "tuning-only", cluster=roomy).tables["searches"]
    of_three = searches.filter(pl.col("tasks") == 3)
    assert of_three["measurements"].to_list() == [1]
