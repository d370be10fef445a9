"""The GPU processes as the front end sees them: started, fed, replaced when they die, ended when not needed."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from gpuyard.serving.frames import FrameKind, Frames, frame, number_frame
from gpuyard.serving.notes import note

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 5.0
"""Before a process that died is replaced; doubled each time it dies before it was ready."""


@dataclass(frozen=True)
class Workers:
    """How GPU processes are started."""

    executor: str = "emulated"
    options: dict[str, Any] = field(default_factory=dict)
    stuck_s: float = 5.0
    """A process that has not ended a batch so long after it should have, by the plan, is stuck, and replaced."""

    def command(self, fileno: int, gpu: int) -> list[str]:
        """The command line of one."""
        options = json.dumps(self.options | ({"gpu": gpu} if self.executor != "emulated" else {}))
        return [sys.executable, "-m", "gpuyard.serving.gpu.process", str(fileno), self.executor, options]


class Fleet:
    """All GPU processes; what they say goes to whoever made it."""

    def __init__(
        self,
        workers: Workers,
        on_frame: Callable[[int, FrameKind, bytes], None],
        on_lost: Callable[[int], None],
    ) -> None:
        self.workers = workers
        self._on_frame, self._on_lost = on_frame, on_lost
        self._links: dict[int, _Link] = {}
        self._layouts: dict[int, dict[int, bytes]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self.replaced = 0
        """Processes that were started in place of one that died."""

    def prepare(self, layout: int, slices: Mapping[int, list[dict[str, Any]]]) -> None:
        """Let GPUs get the slices of a layout ready; starts the processes that are missing."""
        frames = {
            gpu: frame(FrameKind.PREPARE, json.dumps({"layout": layout, "slices": plans}).encode())
            for gpu, plans in slices.items()
        }
        self._layouts[layout] = frames
        for gpu, prepare in frames.items():
            if gpu in self._links:
                self._links[gpu].send(prepare)
            elif gpu not in self._tasks:
                self._tasks[gpu] = asyncio.create_task(self._keep(gpu))

    def retire(self, layout: int) -> None:
        """A layout gets no more batches."""
        for gpu in self._layouts.pop(layout, {}):
            if gpu in self._links:
                self._links[gpu].send(number_frame(FrameKind.RETIRE, layout))

    def end_unneeded(self, busy: set[int]) -> None:
        """End the processes of GPUs that are in no layout and run nothing any more."""
        wanted = {gpu for frames in self._layouts.values() for gpu in frames}
        for gpu in list(self._tasks):
            if gpu not in wanted and gpu not in busy:
                self._tasks.pop(gpu).cancel()

    def send(self, gpu: int, data: bytes) -> None:
        """Pass a frame on; one for a process that has just died is lost with it, and `on_lost` will say so."""
        link = self._links.get(gpu)
        if link is not None:
            link.send(data)

    def kill(self, gpu: int) -> None:
        """End a process that no longer answers; `on_lost` will say so."""
        link = self._links.get(gpu)
        if link is not None:
            link.close()

    async def close(self) -> None:
        """End all processes."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, gpu: int) -> None:
        """Keep a process for a GPU until cancelled."""
        pause_s = FIRST_PAUSE_S
        while True:
            ready = False
            try:
                ready = await self._live(gpu)
            except OSError as error:  # this machine has no file or process left for it: later, it may have
                note(f"no process can be started for GPU {gpu}: {error.strerror or error}")
            else:
                self.replaced += 1
            if ready:
                note(f"the process of GPU {gpu} has died; another one takes over")
            pause_s = FIRST_PAUSE_S if ready else min(pause_s * 2, LONGEST_PAUSE_S)
            await asyncio.sleep(pause_s)

    async def _live(self, gpu: int) -> bool:
        """The life of one process; whether it was ever ready."""
        process, ours = await self._start(gpu)
        link = _Link(lambda kind, body: self._on_frame(gpu, kind, body))
        await asyncio.get_running_loop().create_connection(lambda: link, sock=ours)
        self._links[gpu] = link
        for frames in self._layouts.values():
            if gpu in frames:
                link.send(frames[gpu])
        try:
            await link.closed.wait()
        finally:
            del self._links[gpu]
            link.close()
            self._on_lost(gpu)
            await _end(process)
        return link.ready

    async def _start(self, gpu: int) -> tuple[asyncio.subprocess.Process, socket.socket]:
        """A process, and our end of the socket to it."""
        ours, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            try:
                process = await asyncio.create_subprocess_exec(
                    *self.workers.command(number, gpu), pass_fds=[number], stdin=asyncio.subprocess.DEVNULL
                )
            except BaseException:
                ours.close()
                raise
        return process, ours


async def _end(process: asyncio.subprocess.Process) -> None:
    """Wait for a process whose socket is closed, and kill it if it does not end."""
    try:
        await asyncio.wait_for(asyncio.shield(process.wait()), timeout=2.0)
    except TimeoutError:
        process.kill()
        await process.wait()


class _Link(asyncio.Protocol):
    """The socket to one GPU process."""

    def __init__(self, on_frame: Callable[[FrameKind, bytes], None]) -> None:
        self.closed = asyncio.Event()
        self.ready = False
        self._on_frame, self._frames = on_frame, Frames()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the way back."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Pass on every frame."""
        for kind, body in self._frames.feed(data):
            self.ready = self.ready or kind is FrameKind.PREPARED
            self._on_frame(kind, body)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """The process is gone, or about to be."""
        self._transport = None
        self.closed.set()

    def send(self, data: bytes) -> None:
        """Write a frame; what is written in one go of the event loop goes out together."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.close()
