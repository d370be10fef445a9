"""The emulated machine lets in exactly whom the ledger would: what C enforces between processes, the ledger states."""

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.core.cluster import NodeKind
from gpuyard.core.errors import LedgerError
from gpuyard.core.grants import WHOLE, Part
from gpuyard.core.ledger import Ledger
from gpuyard.emulation.node import GpuBusyError, GpuSlot, Node, SharedGpuClient
from gpuyard.emulation.node.view import Watcher
from gpuyard.policies.timeshare import time_sharing

GIB = 2**30
CONTEXT = 300 * 2**20
SLOT = GpuSlot("V100", "Tesla V100-PCIE-16GB", 4 * GIB, (7, 0), context_bytes=CONTEXT)

SHARES = st.integers(1, WHOLE).map(lambda thousandths: thousandths / WHOLE)
AMOUNTS = st.sampled_from([2**20, CONTEXT, GIB, 2 * GIB - CONTEXT])
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("come"), SHARES),
        st.tuples(st.just("take"), AMOUNTS),
        st.tuples(st.just("give"), AMOUNTS),
        st.tuples(st.just("go"), st.integers(0, 99)),
        st.tuples(st.just("die"), SHARES),
    ),
    min_size=1,
    max_size=25,
)


class Books:
    """What the machine should say: each process a holder, its share and all its memory in one part."""

    def __init__(self, sharing: str) -> None:
        self._sharing, self._ledger = time_sharing(sharing), Ledger()
        self._ledger.add_node("node", NodeKind(1, 0.0, 0.0, 0.0, 0.0, gpu_memory_gb=SLOT.memory_bytes / GIB))
        self.memory: dict[int, int] = {}
        self._share: dict[int, int] = {}

    def come(self, holder: int, share: float) -> bool:
        self._share[holder] = round(self._sharing.held_share(share) * WHOLE)
        return self._hold(holder, CONTEXT)

    def take(self, holder: int, nbytes: int) -> bool:
        before = self.memory[holder]
        self._ledger.release(holder)
        if self._hold(holder, before + nbytes):
            return True
        assert self._hold(holder, before)
        return False

    def give(self, holder: int, nbytes: int) -> None:
        before = self.memory[holder]
        self._ledger.release(holder)
        assert self._hold(holder, max(before - nbytes, CONTEXT))

    def go(self, holder: int) -> None:
        self._ledger.release(holder)
        del self.memory[holder]

    @property
    def free(self) -> tuple[int, int]:
        """Thousandths of the GPU, and bytes of its memory."""
        books = self._ledger.books
        return int(books.gpu_free[0]), round(float(books.gpu_memory_free[0]) * GIB)

    def _hold(self, holder: int, nbytes: int) -> bool:
        try:
            self._ledger.grant(holder, [Part("node", 0, self._share[holder], nbytes / GIB)])
        except LedgerError:
            return False
        self.memory[holder] = nbytes
        return True


@pytest.mark.parametrize("sharing", ["time-slice", "exclusive", "partition"])
@settings(deadline=None, max_examples=25)
@given(events=EVENTS)
def test_the_machine_grants_what_the_ledger_grants(sharing: str, events: list[tuple[str, float]]) -> None:
    books, name = Books(sharing), f"test-{uuid4().hex[:12]}"
    with closing(Node.open(name, (SLOT,), sharing=time_sharing(sharing))) as node:
        here: dict[int, SharedGpuClient] = {}
        for number, (event, value) in enumerate(events):
            if event == "come":
                client = _connected(node, value)
                assert books.come(number, value) == (client is not None)
                if client is not None:
                    here[number] = client
            elif event == "die":
                with _elsewhere(name, sharing, value) as admitted:
                    assert books.come(number, value) == admitted
                    assert _free(node) == books.free
                if admitted:
                    books.go(number)
            elif here:
                holder = list(here)[int(value) % len(here)]
                if event == "go":
                    here.pop(holder).disconnect()
                    books.go(holder)
                elif event == "give":
                    here[holder].release(int(value))
                    books.give(holder, int(value))
                elif books.memory[holder] - CONTEXT + int(value) <= here[holder].memory_limit:  # its own affair
                    assert here[holder].reserve(int(value)) == books.take(holder, int(value))
            assert _free(node) == books.free


def _connected(node: Node, share: float) -> SharedGpuClient | None:
    try:
        return node.connect(0, share=share)
    except GpuBusyError:
        return None


@contextmanager
def _elsewhere(name: str, sharing: str, share: float) -> Iterator[bool]:
    """Another process at the machine, which is killed at the end; whether it was let in."""
    told, tells = os.pipe()
    child = os.fork()
    if child == 0:
        _be_there(name, sharing, share, tells)
    with ExitStack() as stack:
        stack.callback(os.close, told)
        stack.callback(os.waitpid, child, 0)
        stack.callback(os.kill, child, signal.SIGKILL)
        os.close(tells)
        yield {b"1": True, b"0": False}[os.read(told, 1)]


def _be_there(name: str, sharing: str, share: float, tells: int) -> None:
    """Never returns: whatever happens, this process is not one that runs tests."""
    try:
        node = Node.open(name, (SLOT,), sharing=time_sharing(sharing))
        os.write(tells, b"0" if _connected(node, share) is None else b"1")
        signal.pause()
    finally:
        os._exit(1)


def _free(node: Node) -> tuple[int, int]:
    """What the machine itself says: thousandths of the GPU, and bytes of its memory."""
    left = ctypes.c_double()
    node._handle.call("share_left", 0, ctypes.byref(left))
    return round(left.value * WHOLE), SLOT.memory_bytes - Watcher(node.name).gpu(0).memory_used
