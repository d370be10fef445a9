"""Collectives in flight: issued by this rank at once, and met by the others when somebody asks for the outcome.

Issuing never waits for other ranks. When the outcome is asked for (`Work.wait`, a wait for the whole GPU), the host
waits until the ranks that it depends on have issued theirs: only then it is known when the exchange begins, namely when
the last of them is ready. The stream waits for its end; the host does not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.distributed import DistBackendError, Work

from gpuyard.emulation.collectives import KINDS
from gpuyard.emulation.device import Gpu
from gpuyard.emulation.exchange import SLOTS, Exchange, LostRankError, Post
from gpuyard.emulation.torch.payload import Blob, pack, unpack
from gpuyard.emulation.torch.state import state

BlobsByRank = dict[int, list[Blob]]
"""What each rank gave, by rank."""

_CHECKED = ("all_reduce", "reduce", "broadcast", "reduce_scatter")
"""Operations for which all ranks must name the same number of bytes."""


@dataclass
class CollectivePlan:
    """A collective as one rank sees it."""

    operation: str
    nbytes: int
    seconds: float
    sources: Sequence[int]
    """Ranks whose arrival this one has to wait for."""
    deliver: Callable[[BlobsByRank], None]
    """Fills the results with values, where there are any."""
    gives: Sequence[Blob] = ()
    results: Sequence[torch.Tensor] = field(default_factory=list)
    blocks_host: bool = False
    one_gpu_each: bool = True
    """Whether two ranks on one GPU are a mistake."""


class PendingCollective(Work):
    """One collective of this rank."""

    def __init__(self, queue: CollectiveQueue, gpu: Gpu, plan: CollectivePlan, number: int, mine: Post) -> None:
        super().__init__()
        self.queue, self.gpu, self.plan, self.number, self.mine = queue, gpu, plan, number, mine
        self.end: float | None = None
        """When it is over, by the clock; None until the others were met."""

    def settle(self) -> float:
        """Meet the others, waiting for those who are not there yet; return the position of the end."""
        if self.end is None:
            self.queue.settle(self)
        assert self.end is not None
        return self.gpu.position_at(self.end)

    def wait(self, timeout: Any = None) -> bool:
        """Make the current stream wait for the end; the host waits too where it would with the real library."""
        end, gpu = self.settle(), self.gpu
        gpu.timeline.await_exchange(gpu.current, end, gpu.now())
        if self.plan.blocks_host:
            gpu.wait_for(end)
        return True

    def synchronize(self) -> None:
        """Make the current stream wait for the end."""
        self.wait()

    def block_current_stream(self) -> None:
        """Make the current stream wait for the end."""
        self.wait()

    def is_completed(self) -> bool:
        """Say whether it is over, without waiting for anybody."""
        if self.end is None and not self.queue.all_there(self):
            return False
        return self.gpu.is_past(self.settle())

    def is_success(self) -> bool:
        """Say whether it is over: errors are raised where one waits."""
        return self.is_completed()

    def exception(self) -> None:
        """Return None: errors are raised where one waits."""

    def result(self) -> list[torch.Tensor]:
        """Return the tensors that hold the outcome."""
        self.settle()
        return list(self.plan.results)

    def get_future(self) -> Any:
        """Return something to be told when it is over."""
        return CollectiveFuture(self.wait, lambda: list(self.plan.results))

    def source_rank(self) -> int:
        """Return whom a message came from."""
        return self.plan.sources[0]

    _source_rank = source_rank

    def conclude(self, posts: dict[int, Post], free_at: float) -> None:
        """Find out when the exchange begins and ends, and what comes of it."""
        self._check(posts)
        everybody = [self.mine, *posts.values()]
        start = max(free_at, *(post.ready for post in everybody))
        self.end = start + max(post.seconds for post in everybody)
        network = self.gpu.timeline.communication
        network.tail = max(network.tail, self.gpu.position_at(self.end))
        rows = {rank: unpack(post.payload) for rank, post in posts.items()}
        self.plan.deliver(rows | {self.queue.exchange.rank: list(self.plan.gives)})

    def _check(self, posts: dict[int, Post]) -> None:
        mine, rank = self.mine, self.queue.exchange.rank
        for other, post in posts.items():
            if post.kind != mine.kind or (self.plan.operation in _CHECKED and post.nbytes != mine.nbytes):
                raise RuntimeError(
                    f"Detected mismatch between collectives on ranks. Rank {rank} is running {_described(mine)}, "
                    f"but rank {other} is running {_described(post)} as number {self.number}."
                )
            if self.plan.one_gpu_each and post.gpu == mine.gpu:
                raise DistBackendError(
                    f"ncclInvalidUsage: Duplicate GPU detected : rank {rank} and rank {other} both on CUDA device "
                    f"{mine.gpu}. Call torch.cuda.set_device(local_rank) before the first collective."
                )


def _number_of(gpu: Gpu) -> int:
    """Which GPU of the machine it is, whatever this process calls it."""
    assert state.session is not None
    return state.session.visible[gpu.index]


def _described(post: Post) -> str:
    return f"{KINDS[post.kind]} of {post.nbytes} bytes"


class CollectiveQueue:
    """Collectives of one lane, which are met in the order in which they were issued."""

    def __init__(self, exchange: Exchange, *, target: int | None = None, source: int | None = None) -> None:
        """Talk to everybody, or only send to `target`, or only receive from `source`."""
        self.exchange = exchange
        self._target = exchange.rank if target is None else target
        self._receives, self._source = source is not None, exchange.rank if source is None else source
        self._one_way = target is not None
        self._received = 0
        self._pending: deque[PendingCollective] = deque()
        self._free_at = 0.0

    def issue(self, gpu: Gpu, plan: CollectivePlan, ready: float | None = None) -> PendingCollective:
        """Begin a collective behind what is queued on the current stream, or at a position that was passed before."""
        if len(self._pending) >= SLOTS // 2:
            self._settle_first()
        if ready is None:
            ready = max(gpu.current.tail, gpu.now() + gpu.kind.launch_latency_s)
        kind = KINDS.index(plan.operation)
        post = Post(gpu.time_at(ready), plan.seconds, kind, plan.nbytes, _number_of(gpu), pack(plan.gives))
        if self._receives:
            number, self._received = self._received, self._received + 1
        else:
            number = self.exchange.post(self._target, post)
        collective = PendingCollective(self, gpu, plan, number, post)
        self._pending.append(collective)
        return collective

    def all_there(self, collective: PendingCollective) -> bool:
        """Say whether everybody that a collective depends on has come."""
        return all(self._has(source, collective.number) for source in collective.plan.sources)

    def settle(self, last: PendingCollective | None = None) -> None:
        """Meet the others for everything up to a collective, or for all."""
        while self._pending and (last is None or last.end is None):
            self._settle_first()

    def _has(self, source: int, number: int) -> bool:
        return self.exchange.has(source, self.exchange.rank if self._receives else source, number)

    def _settle_first(self) -> None:
        collective = self._pending.popleft()
        clock, rank = collective.gpu.clock, self.exchange.rank
        before = clock.now()
        try:
            posts = {
                source: self.exchange.read(
                    source, rank if self._receives else source, collective.number,
                    f"join {collective.plan.operation} number {collective.number}",
                )
                for source in collective.plan.sources
            }  # fmt: skip
        except LostRankError as error:
            raise DistBackendError(f"rank {rank} waits in vain: {error}") from None
        if collective.plan.sources:
            clock.set_back(before)
        collective.conclude(posts, self._free_at)
        assert collective.end is not None
        self._free_at = collective.end
        if not self._one_way:
            self.exchange.took(self._source, collective.number)


class CollectiveFuture:
    """What `Work.get_future` returns: callbacks run when somebody waits, behind the exchange on the current stream."""

    def __init__(self, wait: Callable[[], object], outcome: Callable[[], Any]) -> None:
        self._wait, self._outcome = wait, outcome
        self._known: list[Any] = []

    def wait(self) -> Any:
        """Make the current stream wait and return the outcome."""
        if not self._known:
            self._wait()
            self._known.append(self._outcome())
        return self._known[0]

    value = wait

    def done(self) -> bool:
        """Say whether the outcome was asked for already."""
        return bool(self._known)

    def then(self, callback: Callable[[Any], Any]) -> CollectiveFuture:
        """Return what will be made of the outcome."""
        return CollectiveFuture(self.wait, lambda: callback(self))

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Run something at once when the outcome is there."""
        self.wait()
        callback(self)
