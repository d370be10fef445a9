"""A thread that does one thing again and again: a time at which that fails is said, and not the last one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from gpuyard.core.errors import GpuyardError

AGAIN_S = 1.0
"""How long to wait after a failure, at least."""
SAY_S, SAY_AGAIN_S = 10.0, 300.0
"""How often failures are said: another one than the last that was said, and the same."""
FAILING_S = 60.0
"""Who has done nothing but fail for so long does not work."""


class SteadyThread:
    """Does a step, and the next one a pause later, until `stop`."""

    def __init__(
        self,
        name: str,
        step: Callable[[], object],
        pause_s: float,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._step, self._pause_s, self._say, self._clock = step, pause_s, say, clock
        self._said: tuple[str, float] | None = None
        self._failure, self._failing_since = "", clock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Do no further step; one that goes on is not waited for."""
        self._over.set()

    def join(self) -> None:
        """Wait until the last step was done."""
        if self._thread is not None:
            self._thread.join()

    def step(self) -> bool:
        """Do it once, here and now; returns whether that went well."""
        try:
            self._step()
        except Exception as error:  # whatever it is: the next step may do better, and nobody else would go on
            text = str(error) if isinstance(error, GpuyardError) else repr(error)
            if not self._failure:
                self._failing_since = self._clock()
            self._failure = text
            self._tell(text)
            return False
        self._failure = ""
        return True

    @property
    def gone(self) -> bool:
        """Whether it has ended, though nobody wanted it to."""
        return self._thread is not None and not self._thread.is_alive() and not self._over.is_set()

    def trouble(self, longest_s: float = FAILING_S) -> str:
        """What is wrong, where it has ended, or done nothing but fail for so long; empty if it works."""
        if self.gone:
            return f"{self.name}: the thread has ended"
        failure = self._failure
        if failure and self._clock() - self._failing_since >= longest_s:
            return f"{self.name}: {failure}"
        return ""

    def _run(self) -> None:
        while not self._over.is_set():
            self._over.wait(self._pause_s if self.step() else max(self._pause_s, AGAIN_S))

    def _tell(self, text: str) -> None:
        now = self._clock()
        if self._said is None or now - self._said[1] >= (SAY_AGAIN_S if text == self._said[0] else SAY_S):
            self._said = text, now
            self._say(f"{self.name} failed and is tried again: {text}")
