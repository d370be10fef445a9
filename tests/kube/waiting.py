"""Waits for what another thread does; the deadline is only a guard."""

import time
from collections.abc import Callable

GUARD_S = 60.0


def until(true: Callable[[], object]) -> None:
    """Return as soon as something holds."""
    end = time.monotonic() + GUARD_S
    while not true():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.005)
