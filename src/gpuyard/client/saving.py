"""When a process of a job saves its state, where, and how it begins with what was saved before."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

from gpuyard.client.checkpoints import Checkpoints
from gpuyard.client.session import CHECKPOINTS, RANK, SAVE_EVERY, SPEED, AgentSession

Save = Callable[[Path], Any]
Load = Callable[[Path], Any]


class Saver:
    """Writes checkpoints for one process: the first of a job, or every one to a place of its own."""

    def __init__(self, session: AgentSession, save: Save | None, *, every_rank: bool = False) -> None:
        rank, base = os.environ[RANK], Path(os.environ[CHECKPOINTS])
        self._session = session
        self._writes = every_rank or rank == "0"
        self._write: Save | None = None
        self._reads = save is not None
        self._checkpoints = Checkpoints(base / f"rank-{rank}" if every_rank else base)
        self._every_s = float(os.environ[SAVE_EVERY]) / float(os.environ[SPEED])
        self.found_step = 0
        """Steps behind the checkpoint that was found."""
        self.next_at = inf
        """By the machine's monotonic clock."""
        self.save_by(save)

    def save_by(self, save: Save | None) -> None:
        """From now on this writes the state, if there is anything to write it and this process is one that does."""
        if save is not None and self._writes:
            if self._write is None:
                self.next_at = time.monotonic() + self._every_s
            self._write = save

    def find(self) -> Path | None:
        """The newest sound checkpoint, if there is one."""
        self.found_step, path = self._checkpoints.newest() if self._reads else (0, None)
        return path

    def begin_there(self) -> None:
        """Say that the step after what was found is about to begin."""
        self._session.begin(self.found_step)

    def begin(self, load: Load | None) -> None:
        """Load the newest sound checkpoint, if there is one, and begin there."""
        began = time.monotonic()
        path = self.find()
        if path is not None and load is not None:
            load(path)
        self._session.progress.load_s = time.monotonic() - began
        self.begin_there()

    def save(self) -> None:
        """Write a checkpoint now; one that cannot be written is told to the agent, and the job goes on without it."""
        session = self._session
        if self._write is not None and session.progress.saved_step != session.step:
            began, error = time.monotonic(), ""
            try:
                self._checkpoints.write(session.step, self._write)
            except (OSError, RuntimeError) as failure:  # torch makes a RuntimeError of a full disk
                error = f"no checkpoint after step {session.step}: {failure}"
            session.note_save(time.monotonic() - began, error)
        self.next_at = time.monotonic() + self._every_s if self._write is not None else inf
