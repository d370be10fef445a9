"""A process of a job on this node: started in a session of its own, ended with all that it has started."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread

from gpuyard.client.session import ATTEMPT, JOB, RANK, SOCKET
from gpuyard.runtime.process_ids import end_all_with

LAST_LINES = 10
LONGEST_LINE = 200
LONGEST_TAIL = 4000
_SETPRIV = shutil.which("setpriv")


class RankProcess:
    """One process, its log, and what to do when it has ended."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], directory: str, log: Path,
        ended: Callable[[int], None],
    ) -> None:  # fmt: skip
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._log_begins = output.tell()
            self._process = subprocess.Popen(  # noqa: S603 - the command of a job, as its owner wrote it; no shell
                [*_tied_to_parent(), *command],
                env=dict(environment), cwd=directory or None, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self._ended = ended
        self._marks = {name: environment[name] for name in (SOCKET, JOB, ATTEMPT, RANK) if name in environment}
        self._watch = Thread(target=self._wait, name=f"wait-{self._process.pid}", daemon=True)

    def watch(self) -> None:
        """Call back when it has ended."""
        self._watch.start()

    @property
    def pid(self) -> int:
        """Its process, and its process group."""
        return self._process.pid

    def end(self) -> None:
        """Ask it to end."""
        _signal_group(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it and all that it has started, at once."""
        _signal_group(self.pid, signal.SIGKILL)

    def tail(self) -> str:
        """The last lines of what it wrote, which may be much."""
        try:
            with self.log.open("rb") as file:
                length = file.seek(0, os.SEEK_END)
                file.seek(max(self._log_begins, length - LONGEST_TAIL))
                lines = file.read().decode(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(line[:LONGEST_LINE] for line in lines[-LAST_LINES:]).strip()

    def _wait(self) -> None:
        code = self._process.wait()
        self.kill()  # what it started and left behind would hold on to its GPU
        if self._marks:
            end_all_with(self._marks)  # that which has left its session, too
        self._ended(code)


def _tied_to_parent() -> tuple[str, ...]:
    """Words before a command by which the kernel ends it when the agent that started it dies."""
    return (_SETPRIV, "--pdeathsig", "KILL", "--") if _SETPRIV else ()


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
