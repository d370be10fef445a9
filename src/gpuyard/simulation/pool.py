"""Many tasks on a few processes: results one by one as they come, nothing left running afterwards.

Workers are started afresh (spawn), so nothing depends on what the parent had in memory. A worker that is told to stop
gets an interrupt inside its task, which lets it take away what it was writing.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar, cast

from gpuyard.core.errors import GpuyardError, InputError, WriteError
from gpuyard.core.interrupts import ending_interrupts, interrupts_held_back

T = TypeVar("T")
R = TypeVar("R")

ReportShare = Callable[[float], None]
"""Called by a task with the share of it that is done, 0 to 1."""

GRACE_S = 5.0
"""How long a worker that is told to stop may take: compiled code hears it only when it returns."""


@dataclass(frozen=True, slots=True)
class TaskEnd(Generic[R]):
    """How one task ended: with a value, or with an error."""

    index: int
    value: R | None = None
    error: BaseException | None = None

    def result(self) -> R:
        """Return the value or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def run_all(
    work: Callable[[T, ReportShare], R],
    tasks: Sequence[T],
    *,
    processes: int | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> Generator[TaskEnd[R], None, None]:
    """Do every task and yield how each ended as soon as it is there; one task or one process needs no worker.

    `progress` hears how many tasks are done, parts included. Leaving the iteration early stops the workers.
    """
    count = min(len(tasks), processes or cores())
    if count <= 1:
        yield from _run_here(work, tasks, progress)
    else:
        yield from _Pool(work, tasks, count, progress).ends()


def _run_here(
    work: Callable[[T, ReportShare], R], tasks: Sequence[T], progress: Callable[[float], None]
) -> Iterator[TaskEnd[R]]:
    for index, task in enumerate(tasks):
        try:
            value = work(task, lambda share, before=index: progress(before + share))  # type: ignore[misc]
        except Exception as error:
            yield TaskEnd(index, error=error)
        else:
            yield TaskEnd(index, value)
        progress(index + 1)


class _Pool(Generic[T, R]):
    """Workers, each with a pipe; a task is sent when a worker is free."""

    def __init__(
        self, work: Callable[[T, ReportShare], R], tasks: Sequence[T], count: int, progress: Callable[[float], None]
    ) -> None:
        self._tasks, self._progress = tasks, progress
        self._waiting = iter(range(len(tasks)))
        self._done = 0
        self._busy: dict[Connection, int] = {}
        self._shares: dict[int, float] = {}
        self._workers: dict[Connection, BaseProcess] = {}
        with _deaf():
            for _ in range(count):
                self._hire(work)

    def ends(self) -> Iterator[TaskEnd[R]]:
        try:
            for pipe in self._workers:
                self._feed(pipe)
            while self._busy:
                for pipe in cast("list[Connection]", wait(list(self._busy))):
                    yield from self._hear(pipe)
        finally:
            with interrupts_held_back():  # or a second one would leave workers running
                self._stop()

    def _hire(self, work: Callable[[T, ReportShare], R]) -> None:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, work), daemon=True)
        process.start()
        theirs.close()
        self._workers[ours] = process

    def _feed(self, pipe: Connection) -> None:
        index = next(self._waiting, None)
        if index is not None:
            self._busy[pipe] = index
            try:
                pipe.send(self._tasks[index])
            except (BrokenPipeError, ConnectionResetError):
                raise _died(self._workers[pipe], index) from None

    def _hear(self, pipe: Connection) -> Iterator[TaskEnd[R]]:
        index = self._busy[pipe]
        try:
            kind, content = pipe.recv()
        except (EOFError, ConnectionResetError):
            raise _died(self._workers[pipe], index) from None
        if kind == "share":
            self._shares[index] = content
        else:
            self._shares.pop(index, None)
            self._done += 1
            del self._busy[pipe]
            self._feed(pipe)
            yield TaskEnd(index, error=content) if kind == "error" else TaskEnd(index, content)
        self._progress(self._done + sum(self._shares.values()))

    def _stop(self) -> None:
        for process in self._workers.values():
            process.terminate()
        for process in self._workers.values():
            process.join(GRACE_S)
            if process.is_alive():
                process.kill()
                process.join()


@contextmanager
def _deaf() -> Iterator[None]:
    """Start processes that are deaf to what a terminal tells its whole group: the parent decides what it means."""
    resource_tracker.ensure_running()  # or the first process to start would start it, and undo the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _died(process: BaseProcess, index: int) -> GpuyardError:
    process.join(GRACE_S)
    code = process.exitcode
    cause = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
    hint = "; the machine may be out of memory: fewer --processes need less" if code == -signal.SIGKILL else ""
    return GpuyardError(f"a worker process ended with {cause} during task {index + 1}{hint}")


def _serve(pipe: Connection, work: Callable[[Any, ReportShare], Any]) -> None:
    """Do tasks as they come until told to stop, which interrupts the task."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(KeyboardInterrupt, EOFError, BrokenPipeError), ending_interrupts():
        while True:
            pipe.send(_attempt(work, pipe.recv(), lambda share: pipe.send(("share", share))))


def _end_with_parent() -> None:
    """Tell this worker to stop when its parent is gone, however it went: nobody else would."""
    parent, task = parent_process(), threading.main_thread().ident
    if parent is not None and task is not None:
        parent.join()
        signal.pthread_kill(task, signal.SIGTERM)  # to the thread that may be asleep


def _attempt(work: Callable[[Any, ReportShare], Any], task: Any, report: ReportShare) -> tuple[str, Any]:
    try:
        return "value", work(task, report)
    except GpuyardError as error:
        # Only the text travels: an error with its own constructor would not survive the pipe.
        kinds = (WriteError, InputError, GpuyardError)
        return "error", next(kind for kind in kinds if isinstance(error, kind))(str(error))
    except OSError as error:
        return "error", error
    except Exception:
        return "error", RuntimeError("in a worker process:\n" + traceback.format_exc())
