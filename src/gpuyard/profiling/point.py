"""Runs a command at one point: so many CPUs, so much memory, its own data or one batch again and again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from gpuyard.client.data import CPUS, MEMORY_GB
from gpuyard.client.measuring import RECORD, SYNTHETIC_BATCH, WINDOW_STEPS, WINDOWS
from gpuyard.core.errors import GpuyardError, InputError
from gpuyard.profiling.optimistic import Measurement

PLENTY_GB = 1e6
"""Room for any data."""
LOOK_S = 0.05
"""How often the record is looked at."""
LEAVE_S = 10.0
"""What a command may still do when its steps are measured, before it is ended."""
TAIL_BYTES = 4096
PLACEHOLDER = "{cpus}"
"""A word of a command in which it stands gets the number of CPUs: for scripts whose workers are an option."""


class PointFailedError(GpuyardError):
    """The command did not take the steps that were to be measured."""


@dataclass(frozen=True)
class PointRunner:
    """How a command is measured."""

    command: Sequence[str]
    steps: int = 50
    repeats: int = 3
    timeout_s: float = 600.0
    watch: Callable[[float], None] = lambda _: None
    """Is told from time to time which part of a point is done."""

    def __call__(self, cpus: int, *, synthetic: bool = False, memory_gb: float = PLENTY_GB) -> Measurement:
        """Run the command until the steps are measured; it is ended in any case."""
        with tempfile.TemporaryDirectory(prefix="gpuyard-") as folder:
            record = Path(folder) / "record.json"
            settings = {RECORD: record, WINDOWS: self.repeats, WINDOW_STEPS: self.steps}
            settings |= {CPUS: cpus, MEMORY_GB: memory_gb, SYNTHETIC_BATCH: "1" if synthetic else ""}
            environment = os.environ | {name: str(value) for name, value in settings.items()}
            words = [word.replace(PLACEHOLDER, str(cpus)) for word in self.command]
            with _started(words, environment, cpus) as process:
                assert process.stdout is not None, "its output is a pipe"
                tail = _Tail(process.stdout)
                ended = self._wait(process, record)
            found = _read(record)
            if not self._is_complete(found):
                raise PointFailedError(self._what_went_wrong(ended, found, tail))
            return Measurement(tuple(found["step_s"]), found["epoch_steps"], **found["traffic"])

    def _wait(self, process: subprocess.Popen[bytes], record: Path) -> int | None:
        """Wait until it ends or the steps are measured; returns the exit code, None if it goes on for too long."""
        until, windows = time.monotonic() + self.timeout_s, self.repeats + 1
        while True:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(LOOK_S)
            found = _read(record)
            if self._is_complete(found):
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(LEAVE_S)
                return None
            if found:
                self.watch(min(1.0, found["steps"] / (windows * found["window_steps"])))
            if time.monotonic() > until:
                return None

    def _is_complete(self, found: dict[str, Any]) -> bool:
        return len(found.get("step_s", ())) >= self.repeats

    def _what_went_wrong(self, code: int | None, found: dict[str, Any], tail: _Tail) -> str:
        name = " ".join(self.command)
        if code:
            return f"{name} failed ({_exit_text(code)}): {tail.text() or 'it printed nothing'}"
        how = "ended" if code == 0 else f"went on for {self.timeout_s:g} s (--timeout)"
        if not found:
            wrap = "wrap its loader, 'for batch in gpuyard.client.steps(loader):'"
            return f"{name} {how} and never called gpuyard.client.steps: {wrap}"
        needed = (self.repeats + 1) * found["window_steps"]
        hint = "Let it train longer, or measure fewer (--steps, --repeats)"
        if found["steps"] < found["window_steps"] or code is None:
            hint += ". Call steps once, before the first epoch" if code == 0 else ", or give it more time"
        return (
            f"{name} {how} after {found['steps']} steps, and {needed} are needed: {self.repeats + 1} times "
            f"{found['window_steps']}, of which the first is a warm-up. {hint}"
        )


@contextmanager
def _started(words: list[str], environment: dict[str, str], cpus: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command on so many CPUs, in a group of its own, and end the group whatever happens."""
    ours = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(ours)[:cpus])  # a child starts with what its parent's thread has
    try:
        process = subprocess.Popen(  # noqa: S603 - the user's own command
            words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise InputError(f"cannot be started: {error.strerror}", field="command", value=words[0]) from None
    finally:
        os.sched_setaffinity(0, ours)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class _Tail:
    """The end of what a program prints: read on and on, or it would wait; kept small, however much it is."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._end = b""
        self._thread = threading.Thread(target=self._follow, args=[stream], daemon=True)
        self._thread.start()

    def _follow(self, stream: IO[bytes]) -> None:
        with stream:
            while chunk := os.read(stream.fileno(), TAIL_BYTES):
                self._end = (self._end + chunk)[-TAIL_BYTES:]

    def text(self) -> str:
        """Return the last lines, when the program has ended."""
        self._thread.join(LEAVE_S)
        return " | ".join(self._end.decode(errors="replace").strip().splitlines()[-3:])


def _exit_text(code: int) -> str:
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _read(record: Path) -> dict[str, Any]:
    """What the program has told so far; nothing before it told anything."""
    with suppress(FileNotFoundError):
        content: dict[str, Any] = json.loads(record.read_text())
        return content
    return {}
