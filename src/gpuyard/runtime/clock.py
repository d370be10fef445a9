"""The clock of a run: seconds since it began, which pass `speed` times as fast as those of the machine."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition
from typing import Protocol

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class RunClock(Protocol):
    """Tells the time of a run, and waits for it."""

    speed: float

    def now(self) -> float:
        """Seconds of the run."""

    def wait(self, changed: Condition, until: float) -> None:
        """Wait, with the condition held, until it is notified or the clock shows `until`."""


def _boot_id() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


@dataclass(frozen=True)
class Anchor:
    """When a run began, by the machine's clocks; kept, so that a run that goes on in another process shows one time.

    The monotonic clock counts from the machine's start, whatever anybody does to the time of day; that is used only
    where the machine was started anew in between.
    """

    monotonic_s: float = field(default_factory=time.monotonic)
    wall_s: float = field(default_factory=time.time)
    boot: str = field(default_factory=_boot_id)

    def elapsed_s(self) -> float:
        """Seconds of the machine since then."""
        if self.boot == _boot_id():
            return time.monotonic() - self.monotonic_s
        return max(time.time() - self.wall_s, 0.0)


class MachineClock:
    """The machine's time since the anchor, scaled."""

    def __init__(self, speed: float, anchor: Anchor | None) -> None:
        self.speed, self._anchor = speed, anchor

    def begin(self) -> Anchor:
        """Let the time begin to pass, if it does not yet."""
        self._anchor = self._anchor or Anchor()
        return self._anchor

    def now(self) -> float:
        """Seconds of the run; 0 until it begins."""
        return 0.0 if self._anchor is None else self._anchor.elapsed_s() * self.speed

    def wait(self, changed: Condition, until: float) -> None:
        """Wait, with the condition held, until it is notified or the clock shows `until`."""
        left = (until - self.now()) / self.speed
        if left > 0:
            changed.wait(left)
