"""The generator against Synergy's own workload, and what its options must not change."""

from __future__ import annotations

import pickle
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpuyard.core.errors import InputError
from gpuyard.core.workload import Job, Workload
from gpuyard.profiles import load_zoo
from gpuyard.traces import generate, read, record, with_arrivals
from gpuyard.traces.models import assign

from .same import assert_same, texts

GOLDEN = "synergy/golden_trace_seed42_load9_20-70-10.csv"


def test_the_defaults_give_synergys_workload_digit_by_digit(shared_data: Path) -> None:
    golden = pl.read_csv(shared_data / GOLDEN, comment_prefix="#")
    workload = generate()
    assert len(workload) == 8000
    assert workload.job_id.tolist() == golden["job_id"].to_list()
    assert workload.arrival_s.tolist() == golden["arrival_s"].to_list()
    assert workload.duration_s.tolist() == golden["duration_s"].to_list()
    assert texts(workload, "model") == golden["model"].to_list()
    assert np.isnan(workload.iterations).all()


def test_recording_it_gives_synergys_iterations(shared_data: Path, tmp_path: Path) -> None:
    assert record(generate(), tmp_path / "replay.csv") == ()
    assert_same(read(tmp_path / "replay.csv"), read(shared_data / GOLDEN))


def test_multi_gpu_changes_sizes_only() -> None:
    plain, sized = generate(5000), generate(5000, multi_gpu=True)
    assert_same(plain, sized, but=("gpus",))
    share = {size: float(np.mean(sized.gpus == size)) for size in (1, 2, 4, 8)}
    assert share == pytest.approx({1: 0.70, 2: 0.10, 4: 0.15, 8: 0.05}, abs=0.02)


def test_sizes_come_from_the_next_seeds_stream() -> None:
    rng = Random(43)
    draws = [rng.random() for _ in range(200)]
    want = [1 if u < 0.7 else 2 if u < 0.8 else 4 if u < 0.95 else 8 for u in draws]
    assert generate(200, multi_gpu=True, seed=42).gpus.tolist() == want


def test_small_durations_stop_at_500_minutes() -> None:
    small = generate(5000, durations="small")
    minutes = small.duration_s / 60
    assert 10**1.5 <= minutes.min() < minutes.max() <= 10**2.7
    assert np.mean(minutes >= 10**2.5) == pytest.approx(0.2, abs=0.02)
    assert_same(small, generate(5000), but=("duration_s",))


def test_static_jobs_arrive_a_millisecond_apart() -> None:
    assert generate(4, arrivals="static").arrival_s.tolist() == [0, 0.001, 0.002, 0.003]


def test_load_is_jobs_an_hour() -> None:
    assert generate(20000, load=4).jobs_per_hour == pytest.approx(4, rel=0.02)


def test_new_arrivals_keep_jobs_and_order() -> None:
    workload = generate(500, load=3)
    again = with_arrivals(workload, "exponential", load=9, seed=42)
    assert again.arrival_s.tolist() == generate(500).arrival_s.tolist()
    assert_same(again, workload, but=("arrival_s",))
    assert again.notes == ("arrivals are drawn: 9 jobs an hour, seed 42",)
    assert with_arrivals(workload, "static").arrival_s[1] == 0.001


OPTIONS = st.fixed_dictionaries(
    {
        "load": st.sampled_from([0.5, 9.0, 400.0]),
        "split": st.sampled_from([(20, 70, 10), (50, 0, 50), (33.3, 33.3, 33.4), (0, 0, 1)]),
        "seed": st.integers(0, 50),
        "multi_gpu": st.booleans(),
        "durations": st.sampled_from(["exponential", "small"]),
        "assignment": st.sampled_from(["overall", "random", "fair"]),
    }
)


@given(OPTIONS, st.integers(1, 60), st.integers(0, 200))
def test_a_generated_workload_goes_on_with_the_same_jobs_first(options: dict[str, Any], jobs: int, more: int) -> None:
    short = generate(jobs, **options)
    long = pickle.loads(pickle.dumps(short)).extended(jobs + more)
    assert short.endless
    assert len(long) == jobs + more
    assert_same(long, generate(jobs + more, **options))
    assert long.model[:jobs].tolist() == short.model.tolist()
    assert long.models[: len(short.models)] == short.models


def test_what_was_changed_stays_changed_when_a_workload_is_continued() -> None:
    changed = replace(generate(5), tenant=np.ones(5, dtype=np.int32), tenants=("a", "b"))
    long = changed.extended(8)
    assert texts(long, "tenant") == ["b"] * 5 + ["default"] * 3
    assert long.arrival_s.tolist() == generate(8).arrival_s.tolist()


def test_a_beginning_goes_on_and_other_parts_end() -> None:
    workload = generate(50)
    assert_same(workload.take(np.arange(10)).extended(50), workload)
    assert not workload.take(np.arange(5, 10)).endless
    assert not workload.at_once().endless
    assert not generate(50, arrivals="static").endless
    with pytest.raises(ValueError, match="ends after 50 jobs"):
        workload.at_once().extended(51)


def wide(workload: Workload) -> NDArray[np.bool_]:
    return workload.gpus > 2


def test_a_selection_goes_on_with_what_the_rule_keeps() -> None:
    short = generate(40, multi_gpu=True).select(wide, "too narrow")
    long = pickle.loads(pickle.dumps(short)).extended(30)
    whole = generate(1000, multi_gpu=True)
    kept = whole.take(np.flatnonzero(whole.gpus > 2)[: len(long)])
    assert len(long) >= 30
    assert_same(long, kept)
    assert short.notes == (f"{40 - len(short)} of 40 jobs left out: too narrow",)
    with pytest.raises(InputError, match="no job is left: too narrow"):
        generate(40).select(wide, "too narrow")


@pytest.mark.parametrize("ids", [["a", "b~", "c"], [4, 1, 9]])
def test_a_trace_with_drawn_arrivals_begins_again_after_its_last_job(ids: list[Any]) -> None:
    listed = Workload.from_jobs([Job(name, at, at + 1.0, "gnmt", iterations=5) for at, name in enumerate(ids)])
    stream = with_arrivals(listed, load=9, seed=42)
    long = pickle.loads(pickle.dumps(stream)).extended(8)
    assert long.job_id[:3].tolist() == ids
    assert len(set(long.job_id.tolist())) == 8
    assert long.gpus.tolist() == [1, 2, 3, 1, 2, 3, 1, 2]
    assert long.arrival_s.tolist() == generate(8).arrival_s.tolist()
    assert not listed.endless
    assert not with_arrivals(stream, "static").endless


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"jobs": 0}, "jobs"),
        ({"jobs": 10**12}, "jobs"),
        ({"load": 0.0}, "load"),
        ({"load": float("inf")}, "load"),
        ({"split": (0, 0, 0)}, "split"),
        ({"split": (-1, 50, 51)}, "split"),
        ({"split": (50, 50)}, "split"),
        ({"arrivals": "poison"}, "arrivals"),
        ({"durations": "long"}, "durations"),
        ({"assignment": "runnable"}, "assignment"),
    ],
)
def test_refuses_impossible_options(options: dict[str, object], field: str) -> None:
    with pytest.raises(InputError) as refused:
        generate(**options)  # type: ignore[arg-type]
    assert refused.value.field == field
    assert repr(next(iter(options.values()))) in str(refused.value)


def by_definition(count: int, split: tuple[int, int, int]) -> list[str]:
    """The deficit rule as it is written down: one job after the other, shares as exact fractions."""
    classes = list(load_zoo().by_class.values())
    target = [Fraction(share, sum(split)) for share in split]
    taken, models = [0, 0, 0], []
    for job in range(count):
        deficit = [want - (Fraction(have, job) if job else want) for want, have in zip(target, taken, strict=True)]
        pick = max((k for k in range(3) if split[k]), key=lambda k: (deficit[k], -k))
        models.append(classes[pick][taken[pick] % len(classes[pick])])
        taken[pick] += 1
    return models


@given(st.integers(0, 150), st.tuples(*[st.integers(0, 40)] * 3).filter(any))
def test_assignment_follows_the_deficit_rule(count: int, split: tuple[int, int, int]) -> None:
    assert assign(count, split) == by_definition(count, split)


def test_fair_takes_all_models_in_turn() -> None:
    names = load_zoo().default_names
    assert assign(23, mode="fair") == [*names, *names, *names[:3]]


def test_random_follows_the_split_and_the_seed() -> None:
    models = assign(20000, (20, 70, 10), "random", seed=7)
    speech = set(load_zoo().by_class["speech"])
    assert np.mean([model in speech for model in models]) == pytest.approx(0.1, abs=0.01)
    assert models == assign(20000, (20, 70, 10), "random", seed=7)
    assert models != assign(20000, (20, 70, 10), "random", seed=8)
