"""What monitors are told."""

import os
import time

import pytest
from tests.emulation.node.conftest import OpenNode

from gpuyard.core.errors import InputError
from gpuyard.emulation.node import GpuSlot, live_nodes, node

SLOT = GpuSlot("V100", "Tesla V100", 1000, (7, 0), 80, 100, 30.0, 250.0, 1380, 877)


def test_a_node_is_shown_as_it_was_made(open_node: OpenNode, node_name: str) -> None:
    open_node("fifo", gpus=(SLOT, SLOT), speed=2.0)
    view = node(node_name)
    assert (view.speed, str(view.sharing)) == (2.0, "fifo")
    assert [gpu.slot for gpu in view.gpus] == [SLOT, SLOT]
    assert len({gpu.uuid for gpu in view.gpus}) == 2
    assert abs(view.created - time.time()) < 60


def test_memory_counts_contexts_and_what_is_reserved(open_node: OpenNode, node_name: str) -> None:
    clients = [open_node(gpus=(SLOT,)).connect(0) for _ in range(2)]
    assert clients[0].reserve(300)
    clients[0].publish(allocated=250, peak=280, steps=3)
    gpu = node(node_name).gpus[0]
    assert gpu.memory_used == 500
    assert [client.memory_bytes for client in gpu.clients] == [400, 100]
    first = gpu.clients[0]
    assert (first.pid, first.allocated_bytes, first.peak_bytes, first.steps) == (os.getpid(), 250, 280, 3)


def test_the_work_of_those_who_left_is_not_forgotten(open_node: OpenNode, node_name: str) -> None:
    opened = open_node(gpus=(SLOT,))
    client = opened.connect(0)
    now = opened.clock.now()
    client.submit(now + 0.05, now, 0.05)
    client.wait_until(now + 0.05, opened.clock)
    assert node(node_name).gpus[0].busy_s == pytest.approx(0.05)
    client.disconnect()
    assert node(node_name).gpus[0].busy_s == pytest.approx(0.05)
    assert node(node_name).gpus[0].clients == ()


def test_nodes_come_in_order_of_their_names(open_node: OpenNode) -> None:
    open_node()
    names = [view.name for view in live_nodes()]
    assert names == sorted(names)


def test_an_unknown_node_is_named_with_those_that_live(open_node: OpenNode, node_name: str) -> None:
    open_node()
    with pytest.raises(InputError, match=f"is not a live node. Did you mean .*{node_name}"):
        node(f"{node_name}x")
