"""A rank's place in a group of emulated GPUs: whom it talks to, over which link, and how a collective begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch.distributed import DistBackendError, ProcessGroup
from torch.distributed.distributed_c10d import GroupName

from gpuyard.emulation.collectives import HOST_LINK, gpu_link, seconds
from gpuyard.emulation.device import Gpu
from gpuyard.emulation.exchange import Exchange, LostRankError
from gpuyard.emulation.torch.collectives import BlobsByRank, CollectivePlan, CollectiveQueue, PendingCollective
from gpuyard.emulation.torch.payload import Blob
from gpuyard.emulation.torch.state import state

Tensors = Sequence[Any]


class GroupOptions:
    """What a program may say about a group of NCCL's; nothing of it changes an emulated one."""

    def __init__(self, is_high_priority_stream: bool = False, **_: Any) -> None:
        self.is_high_priority_stream = is_high_priority_stream
        self._timeout = timedelta(minutes=10)


class RankOfGroup(ProcessGroup):
    """One rank of a group; tensors of the host go to a group of gloo's, if there is one."""

    Options = GroupOptions

    supports_splitting = supports_coalescing = supports_time_estimate = False

    def __init__(self, store: Any, rank: int, size: int, options: Any = None) -> None:
        super().__init__(rank, size)  # type: ignore[call-arg]  # declared with a store, which fails
        self.options = options or GroupOptions()
        self.through_host = False
        """Whether GPU tensors take the way over the host, as with gloo."""
        self.host: ProcessGroup | None = None
        """The group for tensors of the host."""
        self._ranks = range(size)
        self._others = [other for other in self._ranks if other != rank]
        self._rank = rank
        try:
            self._exchange = Exchange(store, rank, size, self.options._timeout.total_seconds())
        except LostRankError as error:
            raise DistBackendError(str(error)) from None
        self._queues = {"": CollectiveQueue(self._exchange)}
        self._last_gpu: Gpu | None = None
        self._name, self._desc = GroupName(""), ""

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cuda")] if self.host is None else [torch.device("cpu"), torch.device("cuda")]

    @property
    def group_name(self) -> GroupName:
        """Return the name that torch knows the group by."""
        return self._name

    @property
    def group_desc(self) -> str:
        """Return what the group is for."""
        return self._desc

    def _set_group_name(self, name: GroupName) -> None:
        self._name = name

    def _set_group_desc(self, description: str) -> None:
        self._desc = description

    def _get_backend_name(self) -> str:
        return "gloo" if self.through_host else "nccl"

    name = getBackendName = _get_backend_name  # noqa: N815 - torch's name

    def _get_backend(self, device: torch.device) -> Any:
        """Return what does the work for a device: this group itself for GPUs."""
        return self if device.type != "cpu" else self.on_host()._get_backend(device)

    def _set_sequence_number_for_group(self) -> None:
        """Nothing to agree upon: lanes count by themselves."""

    def _set_default_timeout(self, timeout: timedelta) -> None:
        self._exchange.timeout_s = timeout.total_seconds()

    set_timeout = _set_default_timeout

    def shutdown(self) -> None:
        """End the group."""
        for gpu in state.session.used() if state.session else ():
            if self.settle in gpu.timeline.settlers:
                gpu.timeline.settlers.remove(self.settle)
        self._exchange.close()
        if self.host is not None:
            self.host.shutdown()

    abort = shutdown

    def settle(self) -> None:
        """Meet the others for everything that was issued."""
        for queue in tuple(self._queues.values()):
            queue.settle()

    def _issue(
        self, operation: str, counted: Tensors, gives: Sequence[Blob], sources: Sequence[int],
        deliver: Callable[[BlobsByRank], None],
        results: Tensors, *, gpu: Gpu | None = None, queue: CollectiveQueue | None = None, ready: float | None = None,
        blocks_host: bool = False,
    ) -> PendingCollective:  # fmt: skip
        gpu = counted[0].block.gpu if gpu is None else gpu
        assert gpu is not None
        if self.settle not in gpu.timeline.settlers:
            gpu.timeline.settlers.append(self.settle)
        self._last_gpu = gpu
        nbytes = sum(tensor.form.nbytes for tensor in counted)
        link = HOST_LINK if self.through_host else gpu_link(gpu.kind)
        duration = seconds(operation, nbytes, len(self._ranks), link)
        if self.through_host:
            duration += 2 * gpu.kind.copy_seconds(nbytes, pinned=True)
        plan = CollectivePlan(
            operation, nbytes, duration, sources, deliver, gives, results,
            blocks_host=blocks_host or self.through_host, one_gpu_each=not self.through_host,
        )  # fmt: skip
        return (queue or self._queues[""]).issue(gpu, plan, ready)

    def _queue(self, name: str, **ends: int) -> CollectiveQueue:
        if name not in self._queues:
            self._queues[name] = CollectiveQueue(self._exchange, **ends)
        return self._queues[name]

    def _if_me(self, root: int) -> list[int]:
        return self._others if root == self._rank else []

    def _unless_me(self, root: int) -> list[int]:
        return [] if root == self._rank else [root]

    def on_host(self) -> Any:
        """Return the group for tensors of the host, or refuse in torch's words."""
        if self.host is None:
            raise RuntimeError("No backend type associated with device type cpu")
        return self.host
