"""`gpuyard logs -f` prints all that a job wrote, to its very end."""

from pathlib import Path

import pytest

from gpuyard.cli import logs
from gpuyard.runtime import addresses


class Found:
    """A scheduler that runs."""

    def __init__(self, state: Path) -> None:
        self.state = str(state)


def test_what_was_written_between_the_last_look_and_the_end_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "jobs" / "mine" / "log"
    log.parent.mkdir(parents=True)
    log.write_text("first\n")

    def over(_job: str, _state: Path | None) -> bool:
        with log.open("a") as file:
            file.write("last words\n")
        return True

    monkeypatch.setattr(addresses, "find_scheduler", lambda _state: Found(tmp_path))
    monkeypatch.setattr(logs, "_over", over)
    logs.logs("mine", state=tmp_path, follow=True)
    assert capsys.readouterr().out == "first\nlast words\n"
