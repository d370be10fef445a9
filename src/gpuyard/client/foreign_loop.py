"""A scheduler's say in a training loop that is not ours: what it is to do after each step."""

from __future__ import annotations

import os
import time
from enum import Enum
from pathlib import Path

from gpuyard.client.process_group import WORLD_SIZE, process_group
from gpuyard.client.saving import Saver, SaveTo
from gpuyard.client.session import RANK, has_agent, join_agent

AGREE_EVERY = 10
"""Several processes save together when the first one says so; they ask it every so many steps."""


class AfterStep(Enum):
    """What follows a step."""

    GO_ON = "go on"
    SAVE = "save"
    STOP = "save and stop"


class ForeignLoop:
    """One process of a job whose loop asks `after` each step."""

    def __init__(self, write: SaveTo) -> None:
        session = join_agent()
        assert session is not None, "there is no agent to ask"
        self._session, self._saver = session, Saver(session, write)
        self.checkpoint = self._saver.find()
        """The newest sound one, which the loop is to load."""
        self._several = int(os.environ.get(WORLD_SIZE, "1")) > 1
        self._asked = 0

    @property
    def finished(self) -> bool:
        """Whether all steps of the job are done."""
        return self._session.finished

    @property
    def saves(self) -> bool:
        """Whether this process is the one that writes checkpoints."""
        return os.environ[RANK] == "0"

    def begin(self, step: int, hint: str) -> None:
        """The first step is about to begin, so many are done; SystemExit if those of the checkpoint are not."""
        if step != self._saver.found_step:
            raise SystemExit(
                f"gpuyard: the training begins at step {step}, and the job is at {self._saver.found_step}: {hint}"
            )
        self._saver.begin_there()

    def after(self, step: int) -> AfterStep:
        """So many steps are done; this may wait until the lease reaches further."""
        session = self._session
        session.step = step
        due = self._due()
        while step >= session.go_until():
            if session.finished or session.must_leave():
                return AfterStep.STOP
            session.wait_for_more()
        return AfterStep.SAVE if due else AfterStep.GO_ON

    def save(self) -> None:
        """Write a checkpoint, if this process is the one that does."""
        self._saver.save()

    def leave(self) -> None:
        """Say that no more steps follow."""
        self._session.leave()

    def _due(self) -> bool:
        due = time.monotonic() >= self._saver.next_at
        if not self._several:
            return due
        self._asked += 1
        return self._asked % AGREE_EVERY == 0 and first_says(due)


def join_loop(write: SaveTo) -> ForeignLoop | None:
    """The loop of a process that an agent started; None without a scheduler."""
    return ForeignLoop(write) if has_agent(os.environ) else None


def first_says(word: bool) -> bool:
    """The word of the first of a job's processes, in all of them."""
    distributed = process_group()
    if distributed is None:
        return False
    import torch

    place = torch.device("cuda") if distributed.get_backend() == "nccl" else torch.device("cpu")
    said = torch.tensor([int(word)], device=place)
    distributed.broadcast(said, src=0)
    return bool(said.item())


def wait_for_all() -> None:
    """Return when all of a job's processes are here."""
    distributed = process_group()
    if distributed is not None:
        distributed.barrier()


def link_or_copy(source: str, target: str) -> None:
    """The same file under another name, or a copy where that is another file system."""
    try:
        os.link(source, target)
    except OSError:
        Path(target).write_bytes(Path(source).read_bytes())
