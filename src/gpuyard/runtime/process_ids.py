"""Which process a number stood for: numbers are given again, but not with the same start."""

from __future__ import annotations

from pathlib import Path


def started(pid: int) -> int:
    """When a process was started, in ticks of the machine; 0 if it is not there."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def is_still(pid: int, start: int) -> bool:
    """Whether a process is the one that it was."""
    return started(pid) == start != 0
