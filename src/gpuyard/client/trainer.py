"""The trainer of jobs that name a model only: its steps are time on an emulated GPU, as long as the profile says.

It needs neither torch nor arrays. Many steps are one wait, so that dozens of such jobs fit on a small machine.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import NamedTuple

from gpuyard.client.saving import Saver
from gpuyard.client.session import SPEED, AgentSession, join_agent

LONGEST_WAIT_S = 0.05
"""A change of the lease is noticed within this time."""
ROUNDING = 1e-9


class Pace(NamedTuple):
    """What a lease says of steps."""

    step_s: float
    """By the clock of this machine."""
    terms: int


class StepTimer:
    """Steps as a clock counts them: a wait that ends late loses none."""

    def __init__(self, step: int, now: float, step_s: float) -> None:
        self._step, self._since, self._step_s = step, now, step_s

    def steps_at(self, now: float) -> int:
        """Steps done by then."""
        return self._step + int((now - self._since) / self._step_s + ROUNDING)

    def done_at(self, step: int) -> float:
        """When a step will be done."""
        return self._since + (step - self._step) * self._step_s

    def change(self, now: float, step_s: float) -> None:
        """From now on steps take another time; the part of a step that is done stays done."""
        done = self.steps_at(now)
        part = max(now - self.done_at(done), 0.0) / self._step_s
        self._step, self._since, self._step_s = done, now - part * step_s, step_s


class Measured:
    """Steps that were done under the same terms of a lease, and how long they took."""

    def __init__(self, timer: StepTimer, now: float) -> None:
        self._first = timer.steps_at(now) + 1
        self._since = timer.done_at(self._first)

    def until(self, timer: StepTimer, step: int) -> tuple[int, float]:
        """So many whole steps up to this one, and the seconds of this machine that they took."""
        steps = max(step - self._first, 0)
        return steps, timer.done_at(step) - self._since if steps else 0.0


class Trainer:
    """One process of a job: counts steps, saves them, and keeps a log of which it did."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self._speed = float(os.environ[SPEED])
        self._log: list[list[int]] = []
        self._saver = Saver(session, self._write)
        self._saver.begin(self._read)
        self._first = session.step

    def run(self) -> None:
        """Train until all steps are done or the lease ends."""
        session, saver = self._session, self._saver
        pace, timer, measured = self._begin()
        while True:
            now = time.monotonic()
            if self._pace != pace:
                pace = self._pace
                timer.change(now, pace.step_s)
                measured = Measured(timer, now)
            until = session.go_until()
            session.step = max(session.step, min(timer.steps_at(now), until))
            session.measured = pace.terms, *measured.until(timer, session.step)
            if session.step < until and now < saver.next_at:
                self._wait(min(timer.done_at(until), saver.next_at))
                continue
            if session.finished or session.must_leave():
                saver.save()
                session.leave()
                return
            if now >= saver.next_at:
                saver.save()
            else:
                session.wait_for_more()
            pace, timer, measured = self._begin()  # what passed meanwhile was no training

    def _begin(self) -> tuple[Pace, StepTimer, Measured]:
        """Steps begin now, under the terms of this moment."""
        now, pace = time.monotonic(), self._pace
        timer = StepTimer(self._session.step, now, pace.step_s)
        return pace, timer, Measured(timer, now)

    @property
    def _pace(self) -> Pace:
        lease = self._session.lease
        return Pace(float(lease.step_s) / self._speed, int(lease.terms))

    def _wait(self, until: float) -> None:
        """Sleep until then, but not so long that a change of the lease comes late."""
        with self._session.changed:
            left = min(until - time.monotonic(), LONGEST_WAIT_S)
            if left > 0:
                self._session.changed.wait(left)

    def _read(self, path: Path) -> None:
        self._log = json.loads(path.read_text())["log"]

    def _write(self, path: Path) -> None:
        done = [self._session.name.attempt, self._first, self._session.step]
        path.write_text(json.dumps({"steps": self._session.step, "log": [*self._log, done]}))


def main() -> None:
    """Train as the agent that started this process says."""
    session = join_agent()
    if session is None:
        raise SystemExit("gpuyard: this trainer is started by 'gpuyard run'")
    Trainer(session).run()
    os._exit(0)  # all is told and saved: an interpreter that ends in order holds its GPU for longer


if __name__ == "__main__":
    main()
