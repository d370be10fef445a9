"""The emulated machine lets in exactly whom the ledger would: what C enforces between processes, the ledger states."""

from contextlib import closing
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.core.cluster import NodeKind
from gpuyard.core.errors import LedgerError
from gpuyard.core.grants import WHOLE, Part
from gpuyard.core.ledger import Ledger
from gpuyard.emulation.node import GpuBusyError, GpuSlot, Node, SharedGpuClient
from gpuyard.policies.timeshare import time_sharing

GIB = 2**30
CONTEXT = 300 * 2**20
SLOT = GpuSlot("V100", "Tesla V100-PCIE-16GB", 4 * GIB, (7, 0), context_bytes=CONTEXT)

SHARES = st.integers(1, WHOLE).map(lambda thousandths: thousandths / WHOLE)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("come"), SHARES),
        st.tuples(st.just("take"), st.sampled_from([2**20, CONTEXT, GIB, 2 * GIB - CONTEXT])),
        st.tuples(st.just("go"), st.integers(0, 99)),
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

    def go(self, holder: int) -> None:
        self._ledger.release(holder)

    def _hold(self, holder: int, nbytes: int) -> bool:
        try:
            self._ledger.grant(holder, [Part("node", 0, self._share[holder], nbytes / GIB)])
        except LedgerError:
            return False
        self.memory[holder] = nbytes
        return True


@pytest.mark.parametrize("sharing", ["time-slice", "exclusive", "partition"])
@settings(deadline=None)
@given(events=EVENTS)
def test_the_machine_grants_what_the_ledger_grants(sharing: str, events: list[tuple[str, float]]) -> None:
    books = Books(sharing)
    with closing(Node.open(f"test-{uuid4().hex[:12]}", (SLOT,), sharing=time_sharing(sharing))) as node:
        here: dict[int, SharedGpuClient] = {}
        for number, (event, value) in enumerate(events):
            if event == "come":
                client = _connected(node, value)
                assert books.come(number, value) == (client is not None)
                if client is not None:
                    here[number] = client
            elif here:
                holder = list(here)[int(value) % len(here)]
                if event == "go":
                    here.pop(holder).disconnect()
                    books.go(holder)
                elif books.memory[holder] - CONTEXT + int(value) <= here[holder].memory_limit:  # its own affair
                    assert here[holder].reserve(int(value)) == books.take(holder, int(value))


def _connected(node: Node, share: float) -> SharedGpuClient | None:
    try:
        return node.connect(0, share=share)
    except GpuBusyError:
        return None
