"""Client processes: started, begun at one instant, heard, and stopped."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection, wait
from time import monotonic

from gpuyard.core.errors import GpuyardError
from gpuyard.core.interrupts import interrupts_between_steps
from gpuyard.serving.load.client import ClientProgress, ClientTask
from gpuyard.serving.load.log import Notes

AHEAD_S = 0.05
"""From the word to begin to the beginning: all clients have to have heard it."""
LOOK_S = 0.2
GRACE_S = 5.0

Watch = Callable[[int, int], None]
"""Told how many requests are due by now, and how many have ended."""


def run_clients(tasks: Sequence[ClientTask], watch: Watch = lambda _come, _ended: None) -> tuple[list[Notes], bool]:
    """Let a process do each task; returns their notes, and whether the user interrupted them."""
    with ExitStack() as stack, interrupts_between_steps() as look_up:
        pipes = [stack.enter_context(_process(task)) for task in tasks]
        for pipe in pipes:
            while not pipe.poll(LOOK_S):
                look_up()
            _receive(pipe)
        begin = monotonic() + AHEAD_S
        for pipe in pipes:
            pipe.send(begin)
        return _hear(pipes, watch, look_up)


def _hear(pipes: list[Connection], watch: Watch, look_up: Callable[[], None]) -> tuple[list[Notes], bool]:
    notes: dict[int, Notes] = {}
    done = {id(pipe): ClientProgress(0, 0) for pipe in pipes}
    interrupted = False
    while len(notes) < len(pipes):
        for pipe in wait([pipe for pipe in pipes if id(pipe) not in notes], LOOK_S):
            assert isinstance(pipe, Connection)
            told = _receive(pipe)
            if isinstance(told, Notes):
                notes[id(pipe)] = told
            elif isinstance(told, ClientProgress):
                done[id(pipe)] = told
        watch(sum(each.come for each in done.values()), sum(each.ended for each in done.values()))
        try:
            look_up()
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True
            for pipe in pipes:
                with suppress(OSError):
                    pipe.send(None)
    return [notes[id(pipe)] for pipe in pipes], interrupted


def _receive(pipe: Connection) -> object:
    try:
        return pipe.recv()
    except (EOFError, OSError):
        raise GpuyardError("a client process has ended before its work was done") from None


@contextmanager
def _process(task: ClientTask) -> Iterator[Connection]:
    """A client that has its task; whatever happens, it is gone afterwards."""
    here, there = socket.socketpair()
    command = [sys.executable, "-m", "gpuyard.serving.load", str(there.fileno())]
    process = subprocess.Popen(command, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL)  # noqa: S603
    there.close()
    pipe = Connection(here.detach())
    try:
        with suppress(OSError):  # a client that is gone shows when it is heard
            pipe.send(task)
        yield pipe
    finally:
        pipe.close()
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
