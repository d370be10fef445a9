"""The tuner of one GPU: its phases by hand, and what holds whatever happens in whatever order."""

from collections.abc import Callable
from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.policies.multiplex.batch_grid import BatchRange
from gpuyard.policies.multiplex.batch_search import MOST_MEASUREMENTS
from gpuyard.policies.multiplex.gpu_tuner import PATIENCE_S, SAMPLE_STEPS, GpuTuner, Phase
from gpuyard.policies.multiplex.shared_task import Sample, SharedTask

StepTime = Callable[[str, dict[str, int]], float]


def task(
    name: str, own: int = 64, *, gb: float = 1.0, remaining_s: float | None = None, weight: float = 1.0
) -> SharedTask:
    """A task that takes `gb` with its own batch size, half of it for samples."""
    batches = BatchRange.around(own, fixed_gb=gb / 2, sample_gb=gb / 2 / own)
    return SharedTask(name, batches, alone_s=0.1, weight=weight, remaining_s=remaining_s)


def sample(tuner: GpuTuner, step_s: float = 0.1, steps: int = SAMPLE_STEPS) -> Sample:
    """What a task reports of the wish that is in force."""
    return Sample(tuner.wish.generation, steps, step_s, error_s=0.0005)


def phase(tuner: GpuTuner) -> Phase:
    """Its phase now, which a type checker would believe to be what it was before."""
    return tuner.phase


def fixed(name: str, sizes: dict[str, int]) -> float:
    """Steps take as long whatever the batch: large ones win."""
    return 0.1


def drive(tuner: GpuTuner, step_s: StepTime, *, silent: frozenset[str] = frozenset(), now: float = 0.0) -> float:
    """Let tasks do what is due, and report, until the GPU is at rest; returns when that is."""
    while tuner.phase is not Phase.STABLE:
        generation = tuner.wish.generation
        for name, _ in tuner.due.items():
            if name not in silent and tuner.wish.generation == generation:
                tuner.acknowledge(name, generation, now)
                if phase(tuner) is not Phase.STABLE and tuner.wish.generation == generation:
                    step = step_s(name, dict(tuner.wish.batches))
                    tuner.report(name, Sample(generation, SAMPLE_STEPS, step, 0.0005), now)
        now += 1.0
        tuner.time_passed(now)
    return now


def test_a_task_alone_is_tuned_too_and_then_left_in_peace() -> None:
    tuner = GpuTuner(capacity_gb=16)
    tuner.join(task("a"), 0.0)
    assert phase(tuner) is Phase.SETTLE
    assert tuner.wish.batches == {"a": 64}
    drive(tuner, fixed)
    assert tuner.wish.batches == {"a": 128}
    tuner.time_passed(1e6)
    assert phase(tuner) is Phase.STABLE


def test_sizes_of_two_move_the_right_way_each() -> None:
    tuner = GpuTuner(capacity_gb=16)
    tuner.join(task("grows"), 0.0)
    tuner.join(task("shrinks"), 0.0)
    drive(tuner, lambda name, sizes: fixed(name, sizes) if name == "grows" else 0.1 * (sizes[name] / 64) ** 2)
    assert tuner.wish.batches == {"grows": 128, "shrinks": 32}


def test_weights_say_whose_degradation_counts() -> None:
    def contested(name: str, sizes: dict[str, int]) -> float:
        return 0.1 if name == "large" else 0.1 * (sizes["large"] / 64) ** 0.5

    for weight, expected in ((10.0, 128), (0.05, 64)):
        tuner = GpuTuner(capacity_gb=16)
        tuner.join(task("large", weight=weight), 0.0)
        tuner.join(SharedTask("small", BatchRange(64, 64, 64, 0.0, 0.0), alone_s=0.1), 0.0)
        drive(tuner, contested)
        assert (tuner.wish.batches["large"] >= expected) == (expected == 128), weight


def test_samples_of_another_generation_or_of_too_few_steps_do_not_count() -> None:
    tuner = GpuTuner(capacity_gb=16)
    tuner.join(task("a"), 0.0)
    tuner.report("a", sample(tuner, steps=SAMPLE_STEPS - 1), 0.0)
    tuner.report("a", Sample(tuner.wish.generation - 1, SAMPLE_STEPS, 0.1, 0.0), 0.0)
    tuner.report("stranger", sample(tuner), 0.0)
    assert phase(tuner) is Phase.SETTLE
    tuner.report("a", sample(tuner), 0.0)
    assert phase(tuner) is Phase.EXPLORE


def test_somebody_new_begins_it_anew() -> None:
    tuner = GpuTuner(capacity_gb=16)
    tuner.join(task("a"), 0.0)
    tuner.report("a", sample(tuner), 0.0)
    assert phase(tuner) is Phase.EXPLORE
    generation = tuner.wish.generation
    tuner.join(task("b", 8), 1.0)
    assert phase(tuner) is Phase.SETTLE
    assert tuner.wish.generation > generation
    assert tuner.wish.batches["b"] == 8


def test_when_all_have_left_there_is_nothing_to_do() -> None:
    tuner = GpuTuner(capacity_gb=16)
    tuner.join(task("a"), 0.0)
    tuner.leave("a", 1.0)
    assert phase(tuner) is Phase.STABLE
    assert tuner.wish.batches == {}


def test_what_was_measured_in_the_same_company_is_not_measured_again() -> None:
    tuner = GpuTuner(capacity_gb=16)
    tuner.join(task("a"), 0.0)
    first = measurements(tuner)
    assert first >= 3
    tuner.join(task("b"), 100.0)
    tuner.leave("b", 101.0)
    assert measurements(tuner) <= 2
    assert tuner.wish.batches == {"a": 128}


def measurements(tuner: GpuTuner) -> int:
    """How many samples the task "a" is asked for until the GPU is at rest."""
    count = 0
    while tuner.phase is not Phase.STABLE:
        count += tuner.phase is not Phase.APPLY
        tuner.acknowledge("a", tuner.wish.generation, 0.0)
        tuner.report("a", sample(tuner), 0.0)
    return count


def test_whoever_is_silent_is_left_out_and_keeps_its_size() -> None:
    tuner = GpuTuner(capacity_gb=16)
    for name in ("a", "silent"):
        tuner.join(task(name), 0.0)
    ended = drive(tuner, fixed, silent=frozenset({"silent"}))
    assert tuner.wish.batches == {"a": 128, "silent": 64}
    assert PATIENCE_S <= ended < 2 * PATIENCE_S


def test_whoever_falls_silent_while_sizes_are_tried_keeps_the_one_that_it_took() -> None:
    tuner = GpuTuner(capacity_gb=16)
    for name in ("a", "b"):
        tuner.join(task(name), 0.0)
        tuner.report(name, sample(tuner), 0.0)
    tuner.report("a", sample(tuner), 0.0)
    assert phase(tuner) is Phase.EXPLORE
    while tuner.wish.batches["b"] == 64:
        for name in ("a", "b"):
            tuner.report(name, sample(tuner), 1.0)
    tuner.acknowledge("b", tuner.wish.generation, 1.0)
    tuner.report("a", sample(tuner), 1.0)
    taken = tuner.wish.batches["b"]
    tuner.time_passed(1.0 + PATIENCE_S)
    assert phase(tuner) is Phase.SETTLE
    drive(tuner, fixed, silent=frozenset({"b"}), now=2.0 + PATIENCE_S)
    assert tuner.wish.batches == {"a": 128, "b": taken}


def test_where_nobody_answers_it_ends_as_well() -> None:
    tuner = GpuTuner(capacity_gb=16)
    for name in ("a", "b"):
        tuner.join(task(name), 0.0)
    tuner.time_passed(PATIENCE_S - 1)
    assert phase(tuner) is Phase.SETTLE
    tuner.time_passed(PATIENCE_S)
    assert phase(tuner) is Phase.STABLE


def test_where_all_fall_silent_while_sizes_are_tried_they_go_back_to_what_they_had() -> None:
    tuner = GpuTuner(capacity_gb=16)
    tuner.join(task("a"), 0.0)
    while tuner.wish.batches["a"] == 64:
        tuner.report("a", sample(tuner), 0.0)
    tuner.time_passed(PATIENCE_S)
    assert (tuner.phase, dict(tuner.wish.batches)) == (Phase.STABLE, {"a": 64})


def test_tuning_takes_no_more_time_than_it_is_worth() -> None:
    tuner = GpuTuner(capacity_gb=16)
    tuner.join(task("a", remaining_s=500.0), 0.0)  # two percent of it are ten seconds
    tuner.report("a", sample(tuner), 5.0)
    assert phase(tuner) is Phase.EXPLORE
    tuner.report("a", sample(tuner), 11.0)
    assert phase(tuner) is Phase.APPLY


def test_the_task_that_ends_first_says_how_long_tuning_may_take() -> None:
    tuner = GpuTuner(capacity_gb=16)
    for name, remaining_s in (("a", 500.0), ("b", 1e6)):
        tuner.join(task(name, remaining_s=remaining_s), 0.0)
    for now in (5.0, 11.0):
        for name in ("a", "b"):
            tuner.report(name, sample(tuner), now)
    assert tuner.phase is Phase.APPLY


@pytest.mark.parametrize(
    ("when_it_came_s", "now_s", "then"),
    [(1e6, 200.0, Phase.APPLY), (200.0, 1e6, Phase.EXPLORE), (200.0, None, Phase.EXPLORE)],
)
def test_how_long_tuning_may_take_goes_by_what_is_left_now(
    when_it_came_s: float, now_s: float | None, then: Phase
) -> None:
    tuner = GpuTuner(capacity_gb=16)
    tuner.join(task("a", remaining_s=when_it_came_s), 0.0)
    tuner.goes_on("a", now_s)
    tuner.goes_on("nobody", 0.0)
    tuner.report("a", sample(tuner), 5.0)
    assert phase(tuner) is then


def test_one_sample_with_a_large_error_does_not_decide() -> None:
    tuner = GpuTuner(capacity_gb=16)
    tuner.join(task("a"), 0.0)
    lucky: set[int] = set()  # the first size that is tried: it seems to take half of its time, and is unsure by as much
    while phase(tuner) is not Phase.STABLE:
        batch = tuner.wish.batches["a"]
        if phase(tuner) is Phase.EXPLORE:
            lucky = lucky or {batch}
        step_s = 0.1 * (batch / 64) ** 0.2 * (0.5 if batch in lucky else 1.0)
        tuner.acknowledge("a", tuner.wish.generation, 0.0)
        error_s = 0.5 * step_s if batch in lucky else 0.0005
        tuner.report("a", Sample(tuner.wish.generation, 5, step_s, error_s), 0.0)
    assert lucky
    assert tuner.wish.batches["a"] == 128


def test_of_many_tasks_the_newest_three_are_tuned() -> None:
    tuner = GpuTuner(capacity_gb=16)
    for name in "abcde":
        tuner.join(task(name), 0.0)
    drive(tuner, fixed)
    assert [tuner.wish.batches[name] for name in "ab"] == [64, 64]
    assert all(tuner.wish.batches[name] > 64 for name in "cde")


def test_a_size_that_ran_out_of_memory_is_not_tried_again() -> None:
    tuner = GpuTuner(capacity_gb=16)
    tuner.join(task("a"), 0.0)
    for _ in range(4 * MOST_MEASUREMENTS):
        if tuner.phase is Phase.EXPLORE and tuner.wish.batches["a"] > 80:
            tuner.out_of_memory("a", tuner.wish.generation, 0.0)
        else:
            tuner.acknowledge("a", tuner.wish.generation, 0.0)
            tuner.report("a", sample(tuner), 0.0)
    assert (tuner.phase, dict(tuner.wish.batches)) == (Phase.STABLE, {"a": 76})
    tuner.join(task("b", gb=0.0), 1.0)
    tuner.leave("b", 2.0)
    while tuner.phase is not Phase.STABLE:
        assert tuner.wish.batches["a"] <= 80
        tuner.acknowledge("a", tuner.wish.generation, 2.0)
        tuner.report("a", sample(tuner), 2.0)


def test_a_size_that_runs_out_of_memory_only_later_is_given_up_for_the_next_best() -> None:
    tuner = GpuTuner(capacity_gb=16)
    for name in ("a", "b"):
        tuner.join(task(name), 0.0)
    drive(tuner, fixed)
    assert dict(tuner.wish.batches) == {"a": 128, "b": 128}
    tuner.out_of_memory("a", tuner.wish.generation, 1.0)
    seen = [64]

    def fixed_and_seen(name: str, sizes: dict[str, int]) -> float:
        seen.append(sizes["a"])
        return fixed(name, sizes)

    assert phase(tuner) is not Phase.STABLE
    drive(tuner, fixed_and_seen)
    assert 64 < tuner.wish.batches["a"] <= max(seen) < 128
    assert tuner.wish.batches["b"] == 128


def test_a_size_that_no_longer_fits_when_somebody_comes_goes_back_to_the_task_s_own() -> None:
    tuner = GpuTuner(capacity_gb=16)
    tuner.join(task("a"), 0.0)
    drive(tuner, fixed)
    tuner.join(task("b"), 1.0)
    assert (tuner.phase, tuner.wish.batches["a"]) == (Phase.SETTLE, 128)
    tuner.out_of_memory("a", tuner.wish.generation, 1.0)
    assert (tuner.phase, tuner.wish.batches["a"]) == (Phase.SETTLE, 64)
    drive(tuner, fixed)
    assert tuner.wish.batches["a"] < 128


def test_that_its_own_size_does_not_fit_is_a_task_s_own_affair() -> None:
    tuner = GpuTuner(capacity_gb=16)
    tuner.join(task("a"), 0.0)
    before = tuner.wish
    tuner.out_of_memory("a", before.generation, 1.0)
    tuner.out_of_memory("unknown", before.generation, 1.0)
    assert tuner.wish is before


def test_where_everything_ran_out_of_memory_sizes_are_what_they_were() -> None:
    tuner = GpuTuner(capacity_gb=16)
    tuner.join(task("a"), 0.0)
    tuner.report("a", sample(tuner), 0.0)
    while tuner.phase is Phase.EXPLORE:
        tuner.out_of_memory("a", tuner.wish.generation, 0.0)
    assert (tuner.phase, dict(tuner.wish.batches)) == (Phase.APPLY, {"a": 64})


def test_somebody_new_gets_the_memory_only_when_others_have_left_it() -> None:
    tuner = GpuTuner(capacity_gb=3.0)
    tuner.join(task("a", gb=2.0), 0.0)  # 3 GB with a batch of 128
    drive(tuner, fixed)
    assert tuner.wish.batches == {"a": 128}
    tuner.join(task("b", gb=1.0), 100.0)
    assert tuner.wish.batches == {"a": 64, "b": 64}
    assert tuner.due == {"a": 64}
    tuner.acknowledge("a", tuner.wish.generation, 101.0)
    assert tuner.due == {"a": 64, "b": 64}


def test_where_own_sizes_do_not_fit_nothing_is_tuned() -> None:
    tuner = GpuTuner(capacity_gb=3.0)
    for name in ("a", "b"):
        tuner.join(task(name, gb=2.0), 0.0)
        tuner.acknowledge(name, tuner.wish.generation, 0.0)
    tuner.time_passed(PATIENCE_S)
    assert phase(tuner) in (Phase.STABLE, Phase.SETTLE)
    assert tuner.wish.batches == {"a": 64, "b": 64}


EVENTS = st.lists(
    st.tuples(st.sampled_from(["join", "leave", "follow", "report", "oom", "time"]), st.sampled_from("abcd")),
    max_size=120,
)


@settings(max_examples=60, deadline=None)
@given(EVENTS, st.floats(2.5, 12.0))
def test_whatever_happens_memory_holds_and_it_comes_to_rest(events: list[tuple[str, str]], capacity_gb: float) -> None:
    """Tasks follow what is due, late and in any order; who has begun keeps its memory until it takes another size."""
    tuner, now = GpuTuner(capacity_gb), 0.0
    known: dict[str, SharedTask] = {}
    sizes: dict[str, int] = {}
    for event, name in events:
        now += 7.0
        if event == "join" and name not in known:
            wanted = task(name, gb=1.0 + "abcd".index(name))
            if sum(each.batches.memory_gb(64) for each in (*known.values(), wanted)) <= capacity_gb:
                known[name] = wanted
                tuner.join(wanted, now)
        elif event == "leave" and name in known:
            del known[name]
            sizes.pop(name, None)
            tuner.leave(name, now)
        elif event in ("follow", "report") and name in tuner.due:
            sizes[name] = tuner.due[name]
            if event == "follow":
                tuner.acknowledge(name, tuner.wish.generation, now)
            else:
                tuner.report(name, sample(tuner, 0.1 + 0.05 * log(sizes[name])), now)
        elif event == "oom":
            tuner.out_of_memory(name, tuner.wish.generation, now)
        elif event == "time":
            tuner.time_passed(now)
        assert sum(known[each].batches.memory_gb(size) for each, size in sizes.items()) <= capacity_gb + 1e-9
        assert tuner.wish.batches.keys() == known.keys()
    for _ in range(2 + len(known)):
        now += PATIENCE_S
        tuner.time_passed(now)
    assert phase(tuner) is Phase.STABLE


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_wish_is_never_changed_once_it_was_given(name: str) -> None:
    tuner = GpuTuner(capacity_gb=16)
    tuner.join(task(name), 0.0)
    wish = tuner.wish
    tuner.report(name, sample(tuner), 0.0)
    assert wish.batches == {name: 64}
    assert tuner.wish.generation == wish.generation + 1
