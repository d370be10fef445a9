"""The progress line."""

import io

from gpuyard.cli.progress import Progress, line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def run(stream: io.StringIO, *, quiet: bool = False, seconds: float = 8.0) -> str:
    clock = Clock()
    with Progress(8, "runs", quiet=quiet, stream=stream, clock=clock) as progress:
        for step in range(1, 9):
            clock.now = step * seconds / 8
            progress.update(step)
    return stream.getvalue()


def test_it_shows_how_far_how_fast_and_how_long_still() -> None:
    assert line(3, 8, 2.0, "runs") == "3 of 8 runs  38%  1.5/s  0:03 left"
    assert line(0, 8, 2.0, "runs") == "0 of 8 runs  0%  0.0/min  starting"
    assert line(10, 10_000, 10.0, "jobs") == "10 of 10,000 jobs  0%  1.0/s  2:46:30 left"


def test_long_work_shows_a_line_and_takes_it_away() -> None:
    text = run(Terminal())
    assert "5 of 8 runs  62%  1.0/s  0:03 left" in text
    assert text.endswith("\r\x1b[K")


def test_work_within_two_seconds_shows_nothing() -> None:
    assert run(Terminal(), seconds=1.9) == ""


def test_nothing_is_shown_when_nobody_watches_or_quiet_is_asked() -> None:
    assert run(io.StringIO()) == ""
    assert run(Terminal(), quiet=True) == ""
