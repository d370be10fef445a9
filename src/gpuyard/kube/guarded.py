"""Threads that do the same again and again: what goes wrong once is said, and they go on."""

from __future__ import annotations

from collections.abc import Callable

from gpuyard.core.errors import GpuyardError


class Guarded:
    """A step of a loop that never ends its thread; the same failure is said once in a row."""

    def __init__(self, what: str, step: Callable[[], object], say: Callable[[str], None]) -> None:
        self._what, self._step, self._say = what, step, say
        self._said = ""

    def __call__(self) -> None:
        """Do it; whatever is raised is said."""
        try:
            self._step()
        except Exception as error:
            told = str(error) if isinstance(error, GpuyardError) else repr(error)
            if told != self._said:
                self._say(f"{self._what}: {told}; it goes on")
            self._said = told
        else:
            self._said = ""
