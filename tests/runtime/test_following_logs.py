"""`gpuyard logs` prints all that a job wrote; with -f from before its first word to its very end."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuyard.cli import logs
from gpuyard.core.errors import InputError
from gpuyard.runtime import addresses


class Found:
    """A scheduler that runs."""

    def __init__(self, state: Path) -> None:
        self.state = str(state)


def under(state: Path, monkeypatch: pytest.MonkeyPatch, *happens: Callable[[], object]) -> None:
    """Each time that it is asked whether the job is over, the next of these happens; after the last one it is."""
    left = list(happens)

    def over(_job: str, _state: Path | None) -> bool:
        left.pop(0)()
        return not left

    monkeypatch.setattr(addresses, "find_scheduler", lambda _state: Found(state))
    monkeypatch.setattr(logs, "_over", over)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    found = tmp_path / "jobs" / "mine"
    found.mkdir(parents=True)
    return found


def test_what_was_written_between_the_last_look_and_the_end_is_printed(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "log").write_text("first\n")
    under(tmp_path, monkeypatch, lambda: (home / "log").write_text("first\nlast words\n"))
    logs.logs("mine", state=tmp_path, follow=True)
    assert capsys.readouterr().out == "first\nlast words\n"


def test_a_job_that_has_not_begun_yet_is_waited_for(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    under(tmp_path, monkeypatch, lambda: None, lambda: None, lambda: (home / "log").write_text("at last\n"))
    logs.logs("mine", state=tmp_path, follow=True)
    assert capsys.readouterr().out == "at last\n"
    with pytest.raises(InputError, match="has written nothing, or is no job"):
        logs.logs("other", state=tmp_path)


def test_all_processes_of_a_job_are_heard(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in (("log", "é\n"), ("log.10", "b\n"), ("log.2", "c\n")):
        (home / name).write_text(text)

    def more() -> None:
        (home / "log.10").write_text("b\nmore\n")

    under(tmp_path, monkeypatch, more)
    logs.logs("mine", state=tmp_path, follow=True)
    whole = "==> process 0 <==\né\n==> process 2 <==\nc\n==> process 10 <==\nb\n"
    assert capsys.readouterr().out == whole + "more\n"
