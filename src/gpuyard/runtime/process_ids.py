"""Which process a number stood for: numbers are given again, but not with the same start. And whom a process left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

LOOKS = 20
"""How often those who are being ended are looked for, as one may start another one meanwhile."""
BETWEEN_LOOKS_S = 0.01


def started(pid: int) -> int:
    """When a process was started, in ticks of the machine; 0 if it is not there."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def is_still(pid: int, start: int) -> bool:
    """Whether a process is the one that it was."""
    return started(pid) == start != 0


def end_all_with(variables: Mapping[str, str]) -> None:
    """End at once every process that was started with these variables, and so all that it started, wherever it went.

    Whoever makes itself a daemon leaves its session and its parent, but not its environment.
    """
    marks = {f"{name}={value}".encode() for name, value in variables.items()}
    for _ in range(LOOKS):
        found = [pid for pid in _numbers() if pid != os.getpid() and marks <= _environment(pid)]
        if not found:
            return
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(BETWEEN_LOOKS_S)


def _numbers() -> Iterator[int]:
    return (int(each.name) for each in Path("/proc").glob("[0-9]*"))


def _environment(pid: int) -> set[bytes]:
    """As it was when the process began; nothing of one that has ended, or is somebody else's."""
    try:
        return set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return set()
