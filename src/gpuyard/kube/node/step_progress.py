"""How far a process of a job is, by what it says at each beat, and how long its steps take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuyard.runtime.node_service import is_behind
from gpuyard.sharing.mix_samples import StepMean

WINDOW_S = 2.0
"""Over how long steps are counted, at least, before their time is believed."""


@dataclass
class StepProgress:
    """What a process has said since it joined; it may say the same twice."""

    last: Any = None
    """Its last `Progress`; None until it has told one."""
    finished: bool = False
    left: bool = False
    heard_at: float | None = None
    _since: tuple[float, int] | None = None

    def join(self, now: float) -> None:
        """A process begins: whatever was in its container before is gone."""
        self.last, self.finished, self.left, self.heard_at, self._since = None, False, False, now, None

    def tell(self, progress: Any, now: float) -> StepMean | None:
        """Take in how far it is; returns the time of steps, whenever enough of them were counted."""
        self.heard_at = now
        if self.left or (self.last is not None and is_behind(progress, self.last)):
            return None
        self.last = progress
        if self._since is None or progress.step < self._since[1]:
            self._since = (now, progress.step)
            return None
        began, step = self._since
        if now - began < WINDOW_S or progress.step == step:
            return None
        self._since = (now, progress.step)
        return StepMean(progress.step - step, (now - began) / (progress.step - step))

    def leave(self, progress: Any, now: float, *, finished: bool) -> None:
        """It ends: all steps are done, or it was to stop and has saved its state."""
        self.last, self.left, self.finished, self.heard_at = progress, True, finished, now
