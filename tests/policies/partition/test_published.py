"""The published planner gives what gpulet's own gives: every placement, and whether there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.policies.partition.original import FIVE, FIVE_COLUMNS, SLO_MS, asked, gpus, known, rows, service, task_lists

from gpuyard.core.errors import InputError
from gpuyard.policies.partition import PartitionPlan
from gpuyard.policies.partition.latency import LatencyModel, Running
from gpuyard.policies.partition.published.layout import RatedTask
from gpuyard.policies.partition.published.policy import SHIPPED
from gpuyard.policies.partition.published.sizing import Sizes, residue_batch
from gpuyard.policies.partition.tail import published_rate
from gpuyard.profiles.inference import InferenceModel, gpulet_ids, inference_model

CONFIGURATIONS: dict[str, tuple[str, dict[str, Any], int]] = {
    "gpulet-int": ("elastic", {}, 4),
    "gpulet-noint": ("elastic", {"interference": False}, 4),
    "greedy_part": ("greedy", {}, 4),
    "timesharing_only": ("squishy", {"interference": False}, 4),
    "shipped-2gpu": ("elastic", {}, 2),
}
COLUMNS = {
    "gpulet_int": "gpulet-int",
    "gpulet_noint": "gpulet-noint",
    "greedy_part": "greedy_part",
    "timesharing_only": "timesharing_only",
}
LATENCY = LatencyModel(known()["RTX2080Ti"], buffer=1.1, interpolation=InferenceModel.published_ms)
SIZES = Sizes(LATENCY, (20, 40, 50, 60, 80, 100))


def placements(plan: PartitionPlan) -> list[tuple[int, int, int, str, int, float]]:
    """As a ModelList has them."""
    found, halves = [], dict.fromkeys((each.gpu for each in plan.slices), 0)
    for each in plan.slices:
        head = (each.gpu, each.thousandths // 10, halves[each.gpu])
        halves[each.gpu] += each.thousandths == 500
        found += [(*head, str(turn.service), turn.batch, each.period_s * 1000) for turn in each.turns]
        found += [] if each.turns else [(*head, "reserved", 32, 0.0)]
    return found


def test_every_placement_of_the_original(shared_data: Path) -> None:
    wanted: dict[tuple[str, str, str], list[tuple[int, int, int, str, int, float]]] = {}
    for row in rows(shared_data, "baseline_schedules.csv"):
        place = (int(row["gpu"]), int(row["partition_pct"]), int(row["dedup"]))
        entry = (*place, row["model"], int(row["batch"]), float(row["duty_cycle_ms"]))
        wanted.setdefault((row["scenario"], row["config"], row["full_search"]), []).append(entry)
    lists = task_lists(shared_data)
    runs = rows(shared_data, "baseline_runs.csv")
    assert len(runs) == 180
    for run in runs:
        key = (run["scenario"], run["config"], run["full_search"])
        name, options, count = CONFIGURATIONS[run["config"]]
        policy = SHIPPED["exhaustive" if run["full_search"] == "1" else name](**options)
        plan = policy.plan(lists[run["scenario"]], gpus(count), known())
        assert bool(plan.unserved) == (run["status"] != "ok"), key
        if run["status"] == "ok":
            found = placements(plan)
            assert [each[:5] for each in found] == [each[:5] for each in wanted[key]], key
            assert [each[5] for each in found] == pytest.approx([each[5] for each in wanted[key]], rel=1e-4), key


CROWDED = [(4, 193, 6), (5, 422, 4), (13, 441, 14)]
"""SLOs so short that a neighbour leaves a batch of none; placed by another program made after the same description."""
PLACED = {
    "elastic": [
        (0, 20, 0, "lenet6", 1), (0, 80, 0, "reserved", 32), (1, 20, 0, "lenet6", 1), (1, 80, 0, "bert", 4),
        (2, 20, 0, "lenet5", 1), (2, 80, 0, "reserved", 32),
    ],
    "exhaustive": [
        (0, 50, 0, "lenet6", 1), (0, 50, 1, "reserved", 32), (1, 50, 0, "lenet6", 1), (1, 50, 1, "bert", 4),
        (2, 50, 0, "reserved", 32), (2, 50, 1, "lenet5", 1),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", PLACED)
def test_neighbours_that_leave_no_batch(name: str) -> None:
    plan = SHIPPED[name]().plan([service(*each) for each in CROWDED], gpus(3), known())
    assert [each[:5] for each in placements(plan)] == PLACED[name]


REPAIRED: dict[str, tuple[list[tuple[int, int, float]], int, list[tuple[int, int, int, str, int]]]] = {
    "exhaustive": (  # a neighbour that takes longer than its requests gather is as full as one that is saturated
        [(3, 58, 5.0), (5, 54, 5.0)], 2,
        [(0, 50, 0, "lenet6", 1), (0, 50, 1, "reserved", 32), (1, 50, 0, "lenet4", 1), (1, 50, 1, "reserved", 32)],
    ),
    "elastic": (  # and is made larger as if it were
        [(10, 169, 62.0), (6, 71, 174.0), (12, 105, 239.0), (9, 118, 142.0), (0, 144, 5.0), (1, 198, 5.0),
         (8, 85, 202.0)], 6,
        [
            (0, 20, 0, "lenet1", 1), (0, 80, 0, "reserved", 32), (1, 20, 0, "lenet2", 1), (1, 80, 0, "reserved", 32),
            (2, 40, 0, "ssd-mobilenetv1", 9), (2, 60, 0, "densenet161", 3), (3, 40, 0, "vgg16", 9),
            (3, 60, 0, "densenet161", 17), (4, 40, 0, "googlenet", 12), (4, 60, 0, "reserved", 32),
            (5, 40, 0, "mnasnet1_0", 8), (5, 60, 0, "reserved", 32),
        ],
    ),
}  # fmt: skip
"""Task lists, GPUs, and where the original's own program puts them, with a buffer of 1.25."""


@pytest.mark.parametrize("name", REPAIRED)
def test_neighbours_that_are_repaired(name: str) -> None:
    tasks, count, wanted = REPAIRED[name]
    plan = SHIPPED[name](buffer=1.25).plan([service(*each) for each in tasks], gpus(count), known())
    assert [each[:5] for each in placements(plan)] == wanted


@pytest.mark.parametrize("name", SHIPPED)
def test_an_slo_that_nothing_meets(name: str) -> None:
    """What is left of its rate when slices run one request at a time has no batch at all."""
    plan = SHIPPED[name]().plan([service(7, 100, 1.0)], gpus(2), known())
    assert plan.unserved == {"resnet50": 100.0}


@pytest.mark.parametrize("column", COLUMNS)
def test_which_of_1023_cases_it_claims_to_serve(shared_data: Path, column: str) -> None:
    name, options, count = CONFIGURATIONS[COLUMNS[column]]
    for row in rows(shared_data, "baseline_sched_1023.csv"):
        plan = SHIPPED[name](**options).plan(asked(FIVE, row, FIVE_COLUMNS), gpus(count), known())
        assert bool(plan.unserved) == (row[column] == "0"), row


@pytest.mark.parametrize("column", COLUMNS)
def test_which_of_1000_cases_with_nine_models(shared_data: Path, column: str) -> None:
    name, options, count = CONFIGURATIONS[COLUMNS[column]]
    for row in rows(shared_data, "baseline_sched_9model_sample1000.csv"):
        services = asked(SLO_MS, row, [f"r_m{number}" for number in SLO_MS])
        plan = SHIPPED[name](**options).plan(services, gpus(count), known())
        assert bool(plan.unserved) == (row[column] == "0"), row


def task(number: int, rate: int, slo_ms: float) -> RatedTask:
    name = gpulet_ids()[number]
    return RatedTask(number, name, inference_model(name), rate, slo_ms)


def test_latencies(shared_data: Path) -> None:
    for row in rows(shared_data, "testvec_latency.csv"):
        where = (inference_model(gpulet_ids()[int(row["model_id"])]), int(row["batch"]), int(row["partition_pct"]))
        assert LATENCY.raw_ms(*where) == pytest.approx(float(row["raw_ms"]), rel=1e-3)
        assert LATENCY.alone_ms(*where) == pytest.approx(float(row["effective_ms"]), rel=1e-3)


def test_interference(shared_data: Path) -> None:
    for row in rows(shared_data, "testvec_interference.csv"):
        own, other = (
            Running(
                inference_model(gpulet_ids()[int(row[f"{who}_model"])]),
                int(row[f"{who}_batch"]),
                int(row[f"{who}_part"]),
            )
            for who in ("my", "other")
        )
        alpha = float(row["alpha_raw"])
        assert LATENCY.factor(own, [other]) == pytest.approx(max(alpha, 1.0), rel=1e-3)


def test_saturated_slices_and_knees(shared_data: Path) -> None:
    for row in rows(shared_data, "testvec_saturated.csv"):
        one = task(int(row["model_id"]), 1, float(row["slo_ms"]))
        found = SIZES.saturation(one, int(row["partition_pct"]))
        assert found.batch == int(row["max_batch"])
        assert found.throughput == pytest.approx(float(row["saturated_throughput_rps"]), rel=1e-3)
        assert SIZES.knee(one) == int(row["max_efficient_partition_pct"])


def test_batches_that_gather_in_time(shared_data: Path) -> None:
    for row in rows(shared_data, "testvec_residue.csv"):
        one = task(int(row["model_id"]), int(row["rate_in"]), float(row["slo_ms"]))
        assert residue_batch(SIZES.alone(one, int(row["max_part"])), one, 1.1) == int(row["max_batch"]), row
        if int(row["max_batch"]):
            assert one.rate == int(row["rate_after"]), row


def test_planned_rates(shared_data: Path) -> None:
    table = rows(shared_data, "poisson_p99_rate.csv")
    (given, planned), *_ = [tuple(row)[:2] for row in table]
    assert table
    for row in table:
        assert published_rate(int(row[given])) == int(row[planned])


@pytest.mark.parametrize("rate", [0.5, 4, 12.5])
def test_rates_that_it_cannot_count_are_refused(rate: float) -> None:
    with pytest.raises(InputError, match=r"field rate: .* Leave out --faithful"):
        SHIPPED["elastic"]().plan([service(7, rate)], gpus(1), known())
