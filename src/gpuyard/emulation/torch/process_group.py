"""The process group of emulated GPUs: what `torch.distributed` talks to in the place of NCCL."""

# mypy: disable-error-code="override"
# torch declares several signatures for each of these; programs reach them through one.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed import AllreduceOptions, ReduceOp

from gpuyard.emulation.torch.collectives import BlobsByRank, PendingCollective
from gpuyard.emulation.torch.group import RankOfGroup, Tensors
from gpuyard.emulation.torch.payload import Blob, blob_of, part, reduced, restored
from gpuyard.emulation.torch.specials import overwrite
from gpuyard.emulation.torch.state import state
from gpuyard.emulation.torch.tensor import EmulatedTensor


class EmulatedGroup(RankOfGroup):
    """The operations of a group, by the names that torch calls them. Each returns a `PendingCollective`."""

    def allreduce(self, tensors: Any, opts: Any = None, **named: Any) -> Any:
        """Combine tensors over all ranks, in place."""
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        if not _on_gpu(tensors):
            return self.on_host().allreduce(tensors, opts or AllreduceOptions())
        return self.all_reduce_from(tensors, _operation(named.get("op", opts)))

    allreduce_coalesced = allreduce

    def all_reduce_from(self, tensors: Tensors, operation: Any, ready: float | None = None) -> PendingCollective:
        """Combine tensors over all ranks; `ready` is a position since when they are, if that is not now."""

        def deliver(rows: BlobsByRank) -> None:
            for index, tensor in enumerate(tensors):
                blobs = [part(rows[rank], index) for rank in self._ranks]
                overwrite(tensor, reduced(operation, blobs, tensor))

        return self._issue("all_reduce", tensors, _blobs(tensors), self._others, deliver, tensors, ready=ready)

    def broadcast(self, tensors: Tensors, opts: Any) -> Any:
        """Give everybody what one rank has."""
        if not _on_gpu(tensors):
            return self.on_host().broadcast(tensors, opts)
        root = opts.rootRank

        def deliver(rows: BlobsByRank) -> None:
            for index, tensor in enumerate(tensors if root != self._rank else ()):
                overwrite(tensor, restored(part(rows[root], index), tensor))

        gives = _blobs(tensors) if root == self._rank else ()
        return self._issue("broadcast", tensors, gives, self._unless_me(root), deliver, tensors)

    def reduce(self, tensors: Tensors, opts: Any) -> Any:
        """Combine tensors over all ranks for one of them."""
        if not _on_gpu(tensors):
            return self.on_host().reduce(tensors, opts)
        operation, root = _operation(opts), opts.rootRank

        def deliver(rows: BlobsByRank) -> None:
            for index, tensor in enumerate(tensors if root == self._rank else ()):
                blobs = [part(rows[rank], index) for rank in self._ranks]
                overwrite(tensor, reduced(operation, blobs, tensor))

        return self._issue("reduce", tensors, _blobs(tensors), self._if_me(root), deliver, tensors)

    def allgather(self, output_lists: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Any:
        """Give everybody what each rank has."""
        if not _on_gpu(inputs):
            return self.on_host().allgather(output_lists, inputs)
        outputs = [tensor for group in output_lists for tensor in group]

        def deliver(rows: BlobsByRank) -> None:
            for index, group in enumerate(output_lists):
                for rank, tensor in enumerate(group):
                    overwrite(tensor, restored(part(rows[rank], index), tensor))

        return self._issue("all_gather", outputs, _blobs(inputs), self._others, deliver, outputs)

    def all_gather_single(self, output: Any, input: Any, opts: Any = None) -> Any:
        """Give everybody what each rank has, one after the other in one tensor."""
        return self.all_gather_single_coalesced([output], [input], opts)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Any:
        """Give everybody what each rank has, several tensors at once."""
        if not _on_gpu(inputs):
            return self.on_host().all_gather_single_coalesced(outputs, inputs)

        def deliver(rows: BlobsByRank) -> None:
            for index, output in enumerate(outputs):
                overwrite(output, restored(_joined([part(rows[rank], index) for rank in self._ranks]), output))

        return self._issue("all_gather", outputs, _blobs(inputs), self._others, deliver, outputs)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def reduce_scatter(self, outputs: Tensors, input_lists: Sequence[Tensors], opts: Any) -> Any:
        """Combine tensors over all ranks and leave each rank its part."""
        if not _on_gpu(outputs):
            return self.on_host().reduce_scatter(outputs, input_lists, opts)
        operation, inputs = _operation(opts), [tensor for group in input_lists for tensor in group]

        def deliver(rows: BlobsByRank) -> None:
            for index, output in enumerate(outputs):
                mine = index * len(self._ranks) + self._rank
                overwrite(output, reduced(operation, [part(rows[rank], mine) for rank in self._ranks], output))

        return self._issue("reduce_scatter", inputs, _blobs(inputs), self._others, deliver, outputs)

    def reduce_scatter_single(self, output: Any, input: Any, opts: Any) -> Any:
        """Combine a tensor over all ranks and leave each rank its part."""
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> Any:
        """Combine several tensors over all ranks and leave each rank its parts."""
        if not _on_gpu(outputs):
            return self.on_host().reduce_scatter_single_coalesced(outputs, inputs, opts)
        parts = [part for tensor in inputs for part in tensor.chunk(len(self._ranks))]
        grouped = [parts[start : start + len(self._ranks)] for start in range(0, len(parts), len(self._ranks))]
        return self.reduce_scatter(outputs, grouped, opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Any:
        """Give each rank its part and take what each has for this one."""
        if not _on_gpu(outputs):
            return self.on_host().alltoall(outputs, inputs)

        def deliver(rows: BlobsByRank) -> None:
            for rank, output in enumerate(outputs):
                overwrite(output, restored(part(rows[rank], self._rank), output))

        return self._issue("all_to_all", inputs, _blobs(inputs), self._others, deliver, outputs)

    def all_to_all_single(self, output: Any, input: Any, output_split: Any, input_split: Any, opts: Any = None) -> Any:
        """Give each rank its rows of a tensor and take what each has for this one."""
        if not _on_gpu([output]):
            return self.on_host().all_to_all_single(output, input, output_split, input_split)
        counts = list(input_split) or [input.shape[0] // len(self._ranks)] * len(self._ranks)

        def deliver(rows: BlobsByRank) -> None:
            overwrite(output, restored(_joined([part(rows[rank], self._rank) for rank in self._ranks]), output))

        gives = _blobs(input.split(counts)) if len(input) else [b""] * len(self._ranks)
        return self._issue("all_to_all", [input], gives, self._others, deliver, [output])

    alltoall_base = all_to_all_single

    def gather(self, output_lists: Sequence[Tensors], inputs: Tensors, opts: Any) -> Any:
        """Give one rank what each has."""
        if not _on_gpu(inputs):
            return self.on_host().gather(output_lists, inputs, opts)
        root, outputs = opts.rootRank, output_lists[0] if output_lists else []

        def deliver(rows: BlobsByRank) -> None:
            for rank, tensor in enumerate(outputs):
                overwrite(tensor, restored(part(rows[rank], 0), tensor))

        counted = outputs or list(inputs) * len(self._ranks)
        return self._issue("gather", counted, _blobs(inputs), self._if_me(root), deliver, outputs)

    def scatter(self, outputs: Tensors, input_lists: Sequence[Tensors], opts: Any) -> Any:
        """Give each rank its part of what one has."""
        if not _on_gpu(outputs):
            return self.on_host().scatter(outputs, input_lists, opts)
        root, inputs = opts.rootRank, input_lists[0] if input_lists else []

        def deliver(rows: BlobsByRank) -> None:
            overwrite(outputs[0], restored(part(rows[root], self._rank), outputs[0]))

        counted = inputs or list(outputs) * len(self._ranks)
        return self._issue("scatter", counted, _blobs(inputs), self._unless_me(root), deliver, outputs)

    def send(self, tensors: Tensors, target: int, tag: int = 0) -> Any:
        """Give one rank a tensor; does not wait for it."""
        if not _on_gpu(tensors):
            return self.on_host().send(tensors, target, tag)
        queue = self._queue(f"to {target}", target=target)
        return self._issue("send", tensors, _blobs(tensors), (), lambda rows: None, tensors, queue=queue)

    def recv(self, tensors: Tensors, source: int, tag: int = 0) -> Any:
        """Take a tensor from one rank."""
        if not _on_gpu(tensors):
            return self.on_host().recv(tensors, source, tag)

        def deliver(rows: BlobsByRank) -> None:
            overwrite(tensors[0], restored(part(rows[source], 0), tensors[0]))

        queue = self._queue(f"from {source}", source=source)
        return self._issue("send", tensors, (), (source,), deliver, tensors, queue=queue)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Any:
        """Refuse for GPU tensors, as NCCL does."""
        if _on_gpu(tensors):
            raise RuntimeError("ProcessGroupNCCL does not support recvAnysource")
        return self.on_host().recv_anysource(tensors, tag)

    def barrier(self, opts: Any = None) -> Any:
        """Let no rank go on before all are here; the host waits, too."""
        chosen = list(opts.device_ids) if opts is not None else []
        if chosen:
            gpu = state.gpu(int(chosen[0]))
        elif self._last_gpu is not None:
            gpu = self._last_gpu
        else:
            assert state.session is not None
            gpu = state.gpu(state.current or self._rank % len(state.session.kinds))
        return self._issue("barrier", [], (), self._others, lambda rows: None, [], gpu=gpu, blocks_host=True)

    def monitored_barrier(self, *args: Any, **kwargs: Any) -> Any:
        """Let no rank go on before all are here, over the host."""
        return self.on_host().monitored_barrier(*args, **kwargs)


def _on_gpu(tensors: Tensors) -> bool:
    return bool(tensors) and type(tensors[0]) is EmulatedTensor


def _operation(opts: Any) -> Any:
    """Return which reduction is asked for, by options or by name."""
    operation = getattr(opts, "reduceOp", opts)
    return ReduceOp.SUM if operation is None else getattr(operation, "op", operation)


def _blobs(tensors: Tensors) -> list[Blob]:
    return [blob_of(tensor) for tensor in tensors]


def _joined(blobs: Sequence[Blob]) -> Blob:
    known = [blob for blob in blobs if blob is not None]
    return b"".join(known) if len(known) == len(blobs) else None
