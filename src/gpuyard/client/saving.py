"""When a process of a job saves its state, where, and how it begins with what was saved before."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

from gpuyard.client.checkpoints import Checkpoints
from gpuyard.client.process_group import WORLD_SIZE
from gpuyard.client.session import CHECKPOINTS, RANK, SAVE_EVERY, SPEED, AgentSession

SaveTo = Callable[[Path], Any]
LoadFrom = Callable[[Path], Any]


class Saver:
    """Writes checkpoints for one process: the first of a job, or every one to a place of its own.

    Where all save, they do so after the same steps, which the lease names, and go on from one that all of them have.
    """

    def __init__(self, session: AgentSession, save: SaveTo | None, *, every_rank: bool = False) -> None:
        rank, base = os.environ[RANK], Path(os.environ[CHECKPOINTS])
        self._session = session
        own = [base / f"rank-{each}" for each in range(int(os.environ.get(WORLD_SIZE, "1")))] if every_rank else []
        self._together = len(own) > 1
        self._writes = every_rank or rank == "0"
        self._write: SaveTo | None = None
        self._written = -1
        """The step after which it wrote last, or began."""
        self._tried = -1
        """The step after which it tried to last."""
        self._reads = save is not None or not self._writes  # who saves nothing goes on where the others do
        self._checkpoints = Checkpoints(own[int(rank)] if own else base, own)
        self._every_s = float(os.environ[SAVE_EVERY]) / float(os.environ[SPEED])
        self.found_step = 0
        """Steps behind the checkpoint that was found."""
        self.next_at = inf
        """By the machine's monotonic clock; never where all processes save, after a step that the lease names."""
        self.save_by(save)

    def save_by(self, save: SaveTo | None) -> None:
        """From now on this writes the state, if there is anything to write it and this process is one that does."""
        if save is not None and self._writes:
            fresh, self._write = self._write is None, save
            if fresh:
                self._set_next()

    def find(self) -> Path | None:
        """The newest sound checkpoint, if there is one."""
        self.found_step, path = self._checkpoints.newest() if self._reads else (0, None)
        return path

    def begin_there(self) -> None:
        """Say that the step after what was found is about to begin."""
        self._written = self.found_step
        self._session.begin(self.found_step)

    def begin(self, load: LoadFrom | None) -> None:
        """Load the newest sound checkpoint, if there is one, and begin there."""
        began = time.monotonic()
        path = self.find()
        if path is not None and load is not None:
            load(path)
        if self._together:
            self._checkpoints.drop_after(self.found_step)
        self._session.progress.load_s = time.monotonic() - began
        self.begin_there()

    def due(self) -> bool:
        """Whether a checkpoint is to be written after this step."""
        session = self._session
        if self._together:
            return int(session.lease.save_at) == session.step != self._tried
        return time.monotonic() >= self.next_at

    def save(self) -> None:
        """Write a checkpoint now; one that cannot be written is told to the agent, and the job goes on without it."""
        session = self._session
        self._tried = session.step
        if self._write is not None and self._written != session.step:
            began, error = time.monotonic(), ""
            try:
                self._checkpoints.write(session.step, self._write)
            except (OSError, RuntimeError) as failure:  # torch makes a RuntimeError of a full disk
                error = f"no checkpoint after step {session.step}: {failure}"
            else:
                self._written = session.step
            kept = not error and (not self._together or self._checkpoints.is_everywhere(session.step))
            session.note_save(time.monotonic() - began, kept=kept, error=error)
        self._set_next()

    def _set_next(self) -> None:
        by_clock = self._write is not None and not self._together
        self.next_at = time.monotonic() + self._every_s if by_clock else inf
