"""The training side: checkpoints whole or not there, steps counted once, and nothing without a scheduler."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.client import Checkpoints, steps
from gpuyard.client.control import messages
from gpuyard.client.session import AgentSession
from gpuyard.client.trainer import StepTimer
from gpuyard.runtime.addresses import RunningScheduler, SchedulerAddress
from gpuyard.runtime.process_ids import started
from gpuyard.runtime.service import next_word


def text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content)


def test_without_a_scheduler_steps_is_the_loader_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUYARD_AGENT", raising=False)
    loader = [1, 2, 3]
    assert steps(loader, save=print, load=print) is loader


def test_the_newest_checkpoint_is_loaded_and_two_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.newest() == (0, None)
    for step in (5, 10, 15):
        checkpoints.write(step, text(str(step)))
    step, path = checkpoints.newest()
    assert path is not None
    assert (step, path.read_text()) == (15, "15")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["step-000000000010", "step-000000000015"]


@pytest.mark.parametrize("damage", ["cut", "changed", "no manifest", "manifest is no JSON", "file gone"])
def test_a_damaged_checkpoint_is_passed_over(damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2):
        checkpoints.write(step, text(f"state {step}"))
    folder = tmp_path / "step-000000000002"
    if damage == "cut":
        (folder / "state").write_text("sta")
    elif damage == "changed":
        (folder / "state").write_text("state 3")
    elif damage == "no manifest":
        (folder / "manifest.json").unlink()
    elif damage == "manifest is no JSON":
        (folder / "manifest.json").write_text("{")
    else:
        (folder / "state").unlink()
    step, path = checkpoints.newest()
    assert path is not None
    assert (step, path.read_text()) == (1, "state 1")
    assert "is damaged" in capsys.readouterr().err


def test_a_full_disk_leaves_the_checkpoint_before_and_nothing_half_written(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.write(1, text("one"))

    def full(path: Path) -> None:
        path.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        checkpoints.write(2, full)
    assert checkpoints.newest()[0] == 1
    assert [each.name for each in tmp_path.iterdir()] == ["step-000000000001"]


def test_a_state_may_be_a_folder(tmp_path: Path) -> None:
    def save(path: Path) -> None:
        (path / "deep").mkdir(parents=True)
        (path / "deep" / "weights").write_bytes(b"\0" * 10)

    Checkpoints(tmp_path).write(3, save)
    step, path = Checkpoints(tmp_path).newest()
    assert path is not None
    assert (step, (path / "deep" / "weights").stat().st_size) == (3, 10)


@given(
    st.lists(st.tuples(st.floats(0.001, 50.0), st.floats(0.01, 5.0)), max_size=8),
    st.floats(0.01, 5.0),
)
def test_no_part_of_a_step_is_lost_or_done_twice_when_its_length_changes(
    changes: list[tuple[float, float]], first: float
) -> None:
    timer, now, length, work = StepTimer(0, 0.0, first), 0.0, first, 0.0
    for passed, other in changes:
        work += passed / length
        now += passed
        timer.change(now, other)
        length = other
        assert timer.steps_at(now) == pytest.approx(work, abs=1.0)
        assert timer.steps_at(now) <= work + 1e-6
    assert timer.done_at(int(work) + 1) == pytest.approx(
        now + (int(work) + 1 - work) * length, abs=1e-3 * length + 1e-6
    )


def test_messages_keep_their_numbers() -> None:
    """Other versions read them: a number, once given, stays."""
    lease = messages()["Lease"](stop=True, limit=7, cpus=1.5, memory_gb=2.0, step_s=0.25)
    assert lease.SerializeToString().hex() == "080110071900000000000" + "0f83f21000000000000004029000000000000d03f"
    assert json.dumps([field.number for field in lease.DESCRIPTOR.fields]) == "[1, 2, 3, 4, 5, 6, 7, 8]"


def test_a_scheduler_is_not_taken_for_another_process_that_has_its_number() -> None:
    here, address = os.getpid(), SchedulerAddress("unix:/nowhere")
    assert RunningScheduler("state", here, started(here), address).lives
    assert not RunningScheduler("state", here, started(here) + 1, address).lives


def test_an_agent_hears_something_even_if_there_is_nothing_to_say() -> None:
    link: SimpleQueue[object] = SimpleQueue()
    assert next_word(link, 0.01).WhichOneof("parameter_choice") is None
    link.put("a word")
    assert next_word(link, 60.0) == "a word"
    link.put(None)
    assert next_word(link, 60.0) is None


@pytest.mark.parametrize(
    ("stop", "limit", "step", "until", "leaves"),
    [
        (False, -1, 5, 100, False),
        (True, -1, 5, 5, True),
        (True, 8, 5, 8, False),
        (True, 8, 8, 8, True),
        (False, 8, 8, 8, False),
    ],
)
def test_a_process_goes_on_to_its_limit_and_leaves_exactly_there(
    stop: bool, limit: int, step: int, until: int, leaves: bool
) -> None:
    session = object.__new__(AgentSession)  # not joined to anybody
    session.total_steps, session.step, session.lease = 100, step, messages()["Lease"](stop=stop, limit=limit)
    assert (session.go_until(), session.must_leave()) == (until, leaves)
