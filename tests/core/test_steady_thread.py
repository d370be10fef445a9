"""A thread goes on whatever fails in it, says so, and does not say it all the time."""

from __future__ import annotations

import pytest
from tests.kube.waiting import until

from gpuyard.core import steady_thread
from gpuyard.core.errors import InputError
from gpuyard.core.steady_thread import FAILING_S, SAY_AGAIN_S, SAY_S, SteadyThread


class Yard:
    """A step that fails as it is told to, and a clock."""

    def __init__(self) -> None:
        self.now, self.steps, self.said = 0.0, 0, list[str]()
        self.fails: BaseException | None = None
        self.thread = SteadyThread("sweeping", self.sweep, 0.0, self.said.append, lambda: self.now)

    def sweep(self) -> None:
        self.steps += 1
        if self.fails is not None:
            raise self.fails


@pytest.mark.parametrize(
    "failure", [KeyError("metadata"), OSError(28, "full"), InputError("is no broom"), MemoryError()]
)
def test_whatever_fails_the_next_step_is_done(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    monkeypatch.setattr(steady_thread, "AGAIN_S", 0.0)
    yard = Yard()
    yard.fails = failure
    yard.thread.start()
    until(lambda: yard.steps > 3)
    assert len(yard.said) == 1
    yard.now = FAILING_S
    until(lambda: "sweeping" in yard.thread.trouble())
    yard.fails = None
    until(lambda: not yard.thread.trouble())
    yard.thread.stop()
    yard.thread.join()
    assert not yard.thread.gone  # it was wanted


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_who_ended_unasked_is_found_out() -> None:
    yard = Yard()
    assert not yard.thread.gone  # it has not begun
    yard.fails = SystemExit()
    yard.thread.start()
    until(lambda: yard.thread.gone)
    assert yard.thread.trouble() == "sweeping: the thread has ended"


def test_the_same_is_said_now_and_then_and_something_else_sooner() -> None:
    yard = Yard()
    said = []
    for now, text in [(0, "a"), (1, "a"), (1, "b"), (SAY_S, "b"), (SAY_S + 1, "b"), (SAY_S + SAY_AGAIN_S, "b")]:
        yard.now, yard.fails = now, InputError(text)
        assert not yard.thread.step()
        said.append(len(yard.said))
    assert said == [1, 1, 1, 2, 2, 3]
    assert yard.said[0] == "sweeping failed and is tried again: a"


def test_who_does_well_in_between_is_in_no_trouble() -> None:
    yard = Yard()
    for now in range(0, 500, 40):
        yard.now, yard.fails = float(now), InputError("a") if now % 80 else None
        yard.thread.step()
        assert not yard.thread.trouble()
    yard.fails = InputError("a")
    yard.thread.step()
    yard.now += FAILING_S - 1
    yard.thread.step()
    assert not yard.thread.trouble()
    yard.now += 1
    assert yard.thread.trouble() == "sweeping: a"
