"""Whether a GPU has room for one more process, decided by the ledger that every world keeps.

It is filled with what the segment says is held: each client holds the share that the sharing policy promised it, and
its memory with that of its context.
"""

from __future__ import annotations

from gpuyard.core.cluster import NodeKind
from gpuyard.core.errors import LedgerError
from gpuyard.core.grants import WHOLE, Part
from gpuyard.core.ledger import Ledger
from gpuyard.emulation.node.gpu_busy import GpuBusyError
from gpuyard.emulation.node.shared_gpu import ClientTerms, SharedGpu
from gpuyard.policies.timeshare import TimeSharing

_NODE = "node"
_GIB = 2**30


def check_room(gpu: int, shared: SharedGpu, sharing: TimeSharing, terms: ClientTerms) -> None:
    """Refuse a process that comes on these terms if the policy or the memory has no room for it."""
    ledger = Ledger()
    ledger.add_node(_NODE, NodeKind(1, 0.0, 0.0, 0.0, 0.0, gpu_memory_gb=shared.memory_bytes / _GIB))
    for client in shared.clients:
        share = sharing.held_share(shared.share(client))
        _grant(ledger, client, _part(share, shared.memory_of(client)), gpu, "more of it is held than there is")
    asked = sharing.held_share(terms.share)
    _grant(ledger, "share", _part(asked, 0), gpu, _why(asked, ledger.books.gpu_free[0] / WHOLE))
    _grant(ledger, "memory", _part(0.0, shared.context_bytes), gpu, "its memory has no room for another process")


def _grant(ledger: Ledger, holder: int | str, part: Part, gpu: int, else_why: str) -> None:
    try:
        ledger.grant(holder, [part])
    except LedgerError:
        raise GpuBusyError(gpu, else_why) from None


def _part(share: float, memory_bytes: int) -> Part:
    """Shares count in thousandths, rounded down: seven sevenths fit on a GPU. Nonsense in a segment counts as none."""
    thousandths = min(WHOLE, max(1, int(share * WHOLE + 1e-6))) if share > 0 else 0
    return Part(_NODE, 0, thousandths, memory_bytes / _GIB)


def _why(asked: float, left: float) -> str:
    if asked >= 1 and not left:
        return "another process has it to itself"
    return f"a share of {asked:g} was asked for, and {left:g} is left"
