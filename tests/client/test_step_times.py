"""Steps are timed as long as they take, also where a program runs ahead of its GPU."""

from hypothesis import given
from hypothesis import strategies as st

from gpuyard.client.step_times import MOST_STEPS, WINDOW, BoundaryTimes


class QueuedGpu:
    """A GPU that is still at work when steps have been launched; time passes only for whoever launches or waits."""

    def __init__(self, longest_queue: int) -> None:
        self.now, self.free_at, self.longest = 0.0, 0.0, longest_queue
        self.ends: list[float] = []

    def launch(self, launch_s: float, step_s: float) -> None:
        self.now += launch_s
        self.free_at = max(self.free_at, self.now) + step_s
        self.ends.append(self.free_at)
        if len(self.ends) > self.longest:  # the queue is full: the program waits for room
            self.now = max(self.now, self.ends[-1 - self.longest])

    def wait(self) -> None:
        self.now = max(self.now, self.free_at)


@given(st.floats(0.001, 0.02), st.integers(1, 100), st.floats(0.001, 0.02), st.integers(0, 30))
def test_with_a_wait_the_mean_is_what_steps_take_and_nothing_of_the_steps_before(
    step_s: float, longest: int, before_s: float, before: int
) -> None:
    gpu = QueuedGpu(longest)
    for _ in range(before):
        gpu.launch(0.0001, before_s)
    times = BoundaryTimes(gpu.wait, clock=lambda: gpu.now)
    times.begin()
    for _ in range(3 * WINDOW):
        gpu.launch(0.0001, step_s)
        times.step()
    taken = times.take(1)
    assert len(taken) == 3 * WINDOW
    assert abs(sum(taken) / len(taken) - step_s) <= 0.0001  # and the first launch of each window


def test_without_a_wait_a_program_that_runs_ahead_measures_its_launches() -> None:
    gpu = QueuedGpu(1000)
    times = BoundaryTimes(clock=lambda: gpu.now)
    times.begin()
    for _ in range(20):
        gpu.launch(0.0001, 0.01)
        times.step()
    assert max(times.take(5)) < 0.001


def test_what_is_no_step_is_no_part_of_one() -> None:
    gpu = QueuedGpu(1)
    times = BoundaryTimes(clock=lambda: gpu.now)
    for _ in range(2):
        for _ in range(4):
            gpu.launch(0.01, 0.0)
            times.step()  # the first one after a pause began before it could be seen
        times.pause()
        gpu.now += 100.0
    assert [round(each, 9) for each in times.take(1)] == [0.01] * 6


def test_no_more_steps_are_kept_than_somebody_may_want() -> None:
    times = BoundaryTimes(clock=lambda: 0.0)
    for _ in range(MOST_STEPS + 10):
        times.step()
    assert len(times.take(1)) == MOST_STEPS
