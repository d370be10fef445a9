"""Nodes of one's own, which are closed after each test."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from typing import Protocol
from uuid import uuid4

import pytest

from gpuyard.emulation.node import GpuSlot, Node, SharedGpuClient
from gpuyard.policies.timeshare import time_sharing

MEMORY = 16 * 2**30
V100 = GpuSlot("V100", "Tesla V100-PCIE-16GB", MEMORY, (7, 0))


class OpenNode(Protocol):
    """Attach once more to the test's node; each opening counts as a process of its own."""

    def __call__(
        self, sharing: str = "time-slice", gpus: tuple[GpuSlot, ...] = (V100,), speed: float = 1.0
    ) -> Node: ...


@pytest.fixture
def node_name() -> str:
    return f"test-{uuid4().hex[:12]}"


@pytest.fixture
def open_node(node_name: str) -> Iterator[OpenNode]:
    with ExitStack() as stack:

        def attach(sharing: str = "time-slice", gpus: tuple[GpuSlot, ...] = (V100,), speed: float = 1.0) -> Node:
            node = Node.open(node_name, gpus, speed=speed, sharing=time_sharing(sharing))
            return stack.enter_context(closing(node))

        yield attach


class Story:
    """Processes at one GPU, told in a time of the test's own: seconds since the story began."""

    def __init__(self, open_node: OpenNode, sharing: str) -> None:
        self._open = partial(open_node, sharing)
        self.node = self._open()
        self.start = self.node.clock.now() + 60  # ahead, so that everybody is connected when it begins
        self._tails: dict[SharedGpuClient, float] = {}
        self._busy: dict[SharedGpuClient, float] = {}

    def connect(self, **terms: float) -> SharedGpuClient:
        return self._open().connect(0, **terms)  # type: ignore[arg-type]

    def queue(self, client: SharedGpuClient, at: float, seconds: float) -> float:
        """Queue work behind what is queued already; return the position at which it ends."""
        now = self.start + at
        begin = max(client.device_time(now), self._tails.get(client, 0.0))
        self._tails[client] = begin + seconds
        self._busy[client] = self._busy.get(client, 0.0) + seconds
        client.submit(self._tails[client], now, self._busy[client])
        return self._tails[client]

    def progress(self, client: SharedGpuClient, since: float, until: float) -> float:
        """Device seconds that pass for a client in a span."""
        before = client.device_time(self.start + since)
        return client.device_time(self.start + until) - before

    def reached(self, client: SharedGpuClient, position: float, now: float) -> float:
        return client.reached_at(position, self.start + now) - self.start


@pytest.fixture
def tell(open_node: OpenNode) -> "partial[Story]":
    return partial(Story, open_node)
