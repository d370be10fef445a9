"""`steps`: a loader whose iteration a scheduler can end at any step, and that goes on there in another process."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any, Generic, TypeVar

from gpuyard.client.measuring import RECORD, MeasuredSteps, length_of, of_loader
from gpuyard.client.saving import LoadFrom, Saver, SaveTo
from gpuyard.client.session import SOCKET, SYNTHETIC, AgentSession, RankName, has_agent, join_agent

T = TypeVar("T")
_JOINED: dict[tuple[int, str, RankName], tuple[AgentSession, Saver]] = {}
"""What this process is to its agent: it joins once, however many loaders it has."""


class LeaseEnded(SystemExit):
    """The scheduler needs the GPUs elsewhere: the state is saved, and the script ends here to go on later."""


def steps(
    loader: Iterable[T], *, save: SaveTo | None = None, load: LoadFrom | None = None, every_rank: bool = False,
    synthetic: bool = False,
) -> Iterable[T]:  # fmt: skip
    """Iterate over a loader as one step each, under a scheduler if there is one; without, this is the loader itself.

    `save(path)` writes the state of training to a file or folder, `load(path)` reads it back. The first process of a
    job saves, or all after the same steps, each to a place of its own (`every_rank`). A step counts when the next batch
    is asked for. A script may wrap several loaders, one after the other: steps count on, and what was saved is loaded
    once. When the lease ends, the state is saved and `LeaseEnded`, a SystemExit, ends the script; started again, it
    goes on from there. With `synthetic`, the first batch is given again and again: what the GPU could do if data were
    there at once.
    """
    if os.environ.get(RECORD):
        return MeasuredSteps(loader)
    if synthetic or os.environ.get(SYNTHETIC):
        loader = FirstBatchAgain(loader)
    if not has_agent(os.environ):
        return loader
    return Steps(loader, save, load, every_rank=every_rank)


class FirstBatchAgain(Generic[T]):
    """The first batch of a loader, as many times as it has batches."""

    def __init__(self, loader: Iterable[T]) -> None:
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return of_loader(self, name)

    def __iter__(self) -> Iterator[T]:
        length = length_of(self._loader)
        for first in self._loader:
            return repeat(first) if length is None else repeat(first, length)
        return iter(())


class Steps(Generic[T]):
    """The loader of a script that runs under a scheduler. It may be iterated over once for each epoch."""

    def __init__(
        self, loader: Iterable[T], save: SaveTo | None, load: LoadFrom | None, *, every_rank: bool = False
    ) -> None:
        self._loader = loader
        self.over = False
        """Whether all steps of the job are done."""
        me = os.getpid(), os.environ[SOCKET], RankName.of(os.environ)
        if me in _JOINED:
            self._session, self._saver = _JOINED[me]
            self._saver.save_by(save)
        else:
            session = join_agent()
            assert session is not None, "steps() makes no Steps without an agent"
            self._session, self._saver = session, Saver(session, save, every_rank=every_rank)
            self._saver.begin(load)
            _JOINED[me] = self._session, self._saver

    @property
    def done(self) -> int:
        """Steps behind this job, those of earlier processes too."""
        return self._session.step

    @property
    def cpus(self) -> float:
        """CPUs of this job on this node; they may change from one step to the next."""
        return float(self._session.lease.cpus)

    def save(self) -> None:
        """Write a checkpoint now."""
        self._saver.save()

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return of_loader(self, name)

    def __iter__(self) -> Iterator[T]:
        """What a scheduler wants is done before the loader is asked: one that keeps its state never loses a batch."""
        batches: Iterator[T] | None = None
        while self._may_go_on():
            if batches is None:
                batches = iter(self._loader)  # which may draw the seed of an epoch
            try:
                batch = next(batches)
            except StopIteration:
                return
            yield batch
            self._session.step += 1

    def _may_go_on(self) -> bool:
        """Whether one more step is to be done, once what is due between two steps has been."""
        if self._session.step >= self._session.go_until() or self._saver.due():
            self._pause(self._session)
        return not self.over

    def _pause(self, session: AgentSession) -> None:
        """What is to be done between two steps: save, end, or wait for a longer lease."""
        while True:
            wait = session.step >= session.go_until()  # first: a lease that reaches further says where to save
            if self._saver.due():
                self._saver.save()
            if not wait:
                return
            if session.finished or session.must_leave():
                self._saver.save()
                session.leave()
                self.over = session.finished
                if self.over:
                    return
                raise LeaseEnded(0)
            session.wait_for_more()
