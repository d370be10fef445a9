"""Follows the backward pass of data-parallel training: when all gradients of a bucket are there, their exchange begins.

Meanwhile the GPU computes the next ones. This does for emulated GPUs what torch's own reducer does for real ones; that
one is written in C++ and reads memory that is not there. `DistributedDataParallel` above it stays as it is.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed
from torch.autograd import Variable

from gpuyard.emulation.device import Gpu
from gpuyard.emulation.torch.buckets import Bucket, reached_from
from gpuyard.emulation.torch.collectives import CollectiveFuture
from gpuyard.emulation.torch.state import state

dist: Any = torch.distributed


class Reducer:
    """Exchanges the gradients of a model on an emulated GPU."""

    def __init__(
        self, parameters: Sequence[Any], bucket_indices: Sequence[Sequence[int]], size_limits: Sequence[int],
        group: Any, expect_sparse: Sequence[bool], bucket_bytes: int, find_unused: bool, as_views: bool,
        names: dict[int, str], first_bucket_bytes: int, skip_unused: bool = False, use_python_reducer: bool = False,
        rebuilt_limits: Sequence[int] = (), batched_copy: bool = False,
    ) -> None:  # fmt: skip
        self._parameters, self._group = list(parameters), group
        self._gpu: Gpu = parameters[0].block.gpu
        self._pass_begin = 0.0
        self._find_unused, self._as_views = find_unused, as_views
        self._limits = list(rebuilt_limits) or [first_bucket_bytes, bucket_bytes]
        self._static = self._rebuilt = False
        self._arrivals: list[int] = []
        """Parameters in the order in which their gradients came, in the first pass."""
        self._expected = [1] * len(self._parameters)
        """How often each gradient is added to in a pass."""
        self._seen = [0] * len(self._parameters)
        self._used = [False] * len(self._parameters)
        self._unused: list[int] = []
        self._expecting = self._begun = self._finishing = False
        self._next = 0
        self._hook: tuple[Any, Any] | None = None
        self._divisor: int | None = None
        self._joining: Any = None
        self._handles: list[Any] = []
        self._build(bucket_indices)
        me = weakref.ref(self)  # parameters outlive what they are wrapped in, and shall not keep its buckets
        self._handles = [
            parameter.register_post_accumulate_grad_hook(partial(_tell, me, index))
            for index, parameter in enumerate(self._parameters)
        ]

    def __del__(self) -> None:
        self._remove_autograd_hooks()

    def _build(self, bucket_indices: Sequence[Sequence[int]]) -> None:
        last = len(bucket_indices) - 1
        self._buckets = [
            Bucket(number, indices, self._parameters, last=number == last)
            for number, indices in enumerate(bucket_indices)
        ]
        self._bucket_of = {index: bucket for bucket in self._buckets for index in bucket.indices}

    def prepare_for_forward(self) -> None:
        """Nothing to do: this is where the original begins to measure."""

    def prepare_for_backward(self, outputs: Sequence[Any]) -> None:
        """Expect gradients; with outputs, those that these depend on."""
        self._refuse_if_incomplete()
        self._expecting, self._begun, self._finishing, self._next = True, False, False, 0
        self._pass_begin, state.whole_backward = self._gpu.mark(self._gpu.current), None
        self._seen = [0] * len(self._parameters)
        self._used = [False] * len(self._parameters)
        for bucket in self._buckets:
            bucket.missing = len(bucket.indices)
        reached = reached_from(outputs) if outputs else set()
        self._unused = [
            index for index, parameter in enumerate(self._parameters) if outputs and id(parameter) not in reached
        ]

    def _refuse_if_incomplete(self) -> None:
        if self._expecting and self._begun:
            raise RuntimeError(
                "Expected to have finished reduction in the prior iteration before starting a new one. Some parameters "
                "got no gradient: if your model does not use all of them in each pass, give DistributedDataParallel "
                "find_unused_parameters=True."
            )

    def _autograd_hook(self, index: int) -> None:
        """Note that a gradient was computed, or added to."""
        if not self._expecting:
            return
        self._begun = True
        for unused in self._unused:
            self._mark_ready(unused)
        self._unused = []
        self._seen[index] += 1
        self._used[index] = True
        if not self._rebuilt and (self._static or not self._find_unused):
            self._arrivals.append(index)
        if self._static and not self._rebuilt:
            return  # the first pass of a static graph only counts; `_delay_all_reduce` exchanges at its end
        if self._seen[index] == self._expected[index]:
            self._mark_ready(index)

    def _delay_all_reduce(self) -> None:
        """Exchange everything at the end of the first pass of a static graph."""
        self._finishing = True
        self._expected = [max(1, seen) for seen in self._seen]
        for index in range(len(self._parameters)):
            self._mark_ready(index)
        self._finish()

    def _mark_ready(self, index: int) -> None:
        bucket = self._bucket_of[index]
        bucket.missing -= 1
        while self._next < len(self._buckets) and self._buckets[self._next].missing == 0:
            self._exchange(self._buckets[self._next])
            self._next += 1
        if self._next == len(self._buckets) and not self._finishing:
            self._finishing = True
            Variable._execution_engine.queue_callback(self._finish)

    def _exchange(self, bucket: Bucket) -> None:
        bucket.fill()
        if self._as_views:
            bucket.hand_out([self._used[index] for index in bucket.indices], as_views=True)
        bucket.ready = self._gpu.mark(self._gpu.current)
        if state.whole_backward is not None:
            begin, end = state.whole_backward
            bucket.ready = begin + bucket.share * (end - begin)
        bucket.work = self._run_comm_hook(bucket)

    def _run_comm_hook(self, bucket: Bucket) -> Any:
        """Begin the exchange of a bucket, by the program's own hook if it has one."""
        if self._hook is not None:
            hook, hook_state = self._hook
            return hook(hook_state, bucket)
        return self._run_allreduce_hook(bucket)

    def _run_allreduce_hook(self, bucket: Bucket) -> CollectiveFuture:
        """Begin to average a bucket over all ranks."""
        divisor = self._divide_by()
        operation = dist.ReduceOp.AVG if divisor == self._group.size() else dist.ReduceOp.SUM
        if operation == dist.ReduceOp.SUM:
            bucket.flat.div_(divisor)
        work = self._group.all_reduce_from([bucket.flat], operation, bucket.ready)
        return CollectiveFuture(work.wait, bucket.buffer)

    def _divide_by(self) -> int:
        """Return how many ranks still train."""
        if self._joining is not None:
            work, self._joining = self._joining, None
            work.wait()
            self._divisor = int(work.result()[0].item())
        return self._group.size() if self._divisor is None else self._divisor

    @torch.no_grad()
    def _finish(self) -> None:
        """Let the current stream wait for all buckets, and give the parameters their averaged gradients."""
        used = self._used_anywhere()
        for bucket in self._buckets:
            outcome = bucket.work.wait()
            bucket.work = None
            if outcome is not bucket.flat:
                bucket.set_buffer(outcome[0] if isinstance(outcome, (list, tuple)) else outcome)
            bucket.hand_out([used[index] for index in bucket.indices], as_views=self._as_views)
        self._learn_shares()
        self._expecting = self._begun = False
        self._divisor = None

    def _learn_shares(self) -> None:
        """Note how far the pass was when each bucket was complete, for passes that are one operation."""
        whole = self._buckets[-1].ready - self._pass_begin
        if state.whole_backward is None and whole > 0:
            for bucket in self._buckets:
                bucket.share = max(0.0, bucket.ready - self._pass_begin) / whole

    def _used_anywhere(self) -> list[bool]:
        """Say for each parameter whether some rank has a gradient for it."""
        if not self._find_unused:
            return self._used
        counts = self._get_local_used_map()
        self._group.allreduce(counts).wait()
        return self._used if all(self._used) else [bool(count) for count in counts.tolist()]

    def _get_local_used_map(self) -> Any:
        """Return a tensor that says which parameters had gradients here."""
        used = torch.tensor([int(used) for used in self._used], dtype=torch.int32).pin_memory()
        return used.to(self._parameters[0].device, non_blocking=True)

    def _rebuild_buckets(self) -> bool:
        """After the first pass, arrange the buckets in the order in which gradients really come on rank 0."""
        if self._rebuilt or not self._arrivals:
            return False
        self._rebuilt = True
        order = list(dict.fromkeys(self._arrivals))
        order += [index for index in range(len(self._parameters)) if index not in set(order)]
        agreed = torch.tensor(order, device=self._parameters[0].device)
        dist.broadcast(agreed, group=self._group, group_src=0)
        order = agreed.tolist()
        buckets, _ = dist._compute_bucket_assignment_by_size(
            [self._parameters[index] for index in order], self._limits, [False] * len(order), order
        )
        self._buckets, self._bucket_of = [], {}  # frees the memory of the old ones first
        self._build(buckets)
        return True

    def _push_all_rebuilt_params(self) -> None:
        """Note for a rank that has no more inputs in which order the others' gradients come: they will tell."""
        if not self._rebuilt and not self._arrivals:
            self._arrivals = list(range(len(self._parameters)))

    def _get_zeros_like_grad_buckets(self) -> list[Bucket]:
        """Return the buckets with nothing but zeros, for a rank that has no more inputs."""
        for bucket in self._buckets:
            bucket.flat.zero_()
        return self._buckets

    def _set_forward_pass_work_handle(self, work: Any, use_static_world_size: bool) -> None:
        self._joining = None if use_static_world_size else work

    def _set_static_graph(self) -> None:
        self._static = True

    def _ddp_graph_static(self) -> bool:
        return self._static

    def set_hook(self, hook_state: Any, hook: Any) -> None:
        """Let the program exchange gradients in its own way."""
        self._hook = (hook, hook_state)

    def _check_reducer_finalized(self) -> None:
        self._refuse_if_incomplete()

    def _remove_autograd_hooks(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _reset_state(self) -> None:
        self._expecting = self._begun = self._finishing = False

    def _update_process_group(self, group: Any) -> None:
        self._group = group

    def _set_ddp_runtime_logging_sample_rate(self, rate: int) -> None:
        """Nothing is logged."""

    def set_logger(self, logger: Any) -> None:
        """Nothing is logged."""


def _tell(reducer: weakref.ref[Reducer], index: int, parameter: Any) -> None:
    """Pass on that a gradient was computed."""
    found = reducer()
    if found is not None:
        found._autograd_hook(index)
