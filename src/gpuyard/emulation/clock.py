"""The one place that reads the time: real, scaled, or virtual, where a wait moves the clock instead of the host."""

from __future__ import annotations

from math import inf
from os import sched_yield
from time import monotonic, sleep
from typing import Protocol

from gpuyard.core.errors import InputError

SPIN_S = 0.0002
"""A sleep may end this much late, so the last of a wait is spent looking at the clock."""


class Clock(Protocol):
    """Emulated seconds, and waiting for them."""

    def now(self) -> float:
        """Return the emulated seconds."""

    def wait_until(self, t: float) -> None:
        """Return when the clock shows `t`, at once if it already does."""

    def set_back(self, t: float) -> None:
        """Show `t` again if what passed since then was no time of this process: it waited for a message."""


class RealClock:
    """Real time, or `speed` times faster. All processes with the same origin read the same time."""

    __slots__ = ("_offset", "origin", "speed")

    def __init__(self, speed: float = 1.0, origin: float | None = None) -> None:
        if not 0 < speed < inf:
            raise InputError("is not a positive number", field="speed", value=speed)
        self.speed = speed
        self.origin = monotonic() if origin is None else origin
        self._offset = self.origin * (1.0 - speed)

    def now(self) -> float:
        """Return origin + (monotonic - origin) × speed."""
        return monotonic() * self.speed + self._offset

    def wait_until(self, t: float) -> None:
        """Sleep until shortly before `t`, then look at the clock until it is there."""
        deadline = (t - self._offset) / self.speed
        left = deadline - monotonic()
        while left > SPIN_S:
            sleep(left - SPIN_S)
            left = deadline - monotonic()
        while monotonic() < deadline:
            sched_yield()

    def set_back(self, t: float) -> None:
        """Do nothing: this time passes for all processes alike."""


class VirtualClock:
    """The host's own work takes real time, waiting takes none: a wait moves the clock."""

    __slots__ = ("_offset",)

    def __init__(self) -> None:
        self._offset = 0.0

    def now(self) -> float:
        """Return real time plus all that was waited for."""
        return monotonic() + self._offset

    def wait_until(self, t: float) -> None:
        """Move the clock to `t` if it is not there yet."""
        self._offset = max(self._offset, t - monotonic())

    def set_back(self, t: float) -> None:
        """Move the clock back to `t`."""
        self._offset = t - monotonic()


class DeviceClock:
    """Only the GPU takes time: the host's work takes none, as if it were infinitely fast."""

    __slots__ = ("_now",)

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        """Return all that was waited for."""
        return self._now

    def wait_until(self, t: float) -> None:
        """Move the clock to `t` if it is not there yet."""
        self._now = max(self._now, t)

    def set_back(self, t: float) -> None:
        """Do nothing: while the host waits for a message, no time passes."""
