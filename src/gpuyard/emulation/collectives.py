"""How long GPUs take to exchange data: cost formulas of collective operations.

`n` ranks stand in a ring; each sends to its neighbour at the link's bandwidth, and each hop takes the link's latency.
Large messages travel in pieces, so that all links work at the same time:

| operation                  | of which `nbytes` are counted    | seconds                                    |
|----------------------------|----------------------------------|--------------------------------------------|
| all_reduce, barrier        | the tensor                       | 2(n-1)/n · bytes/bandwidth + (n-1)·latency |
| all_gather, reduce_scatter | the whole result, the whole input| half of an all_reduce                      |
| broadcast, reduce          | the tensor                       | bytes/bandwidth + (n-1)·latency            |
| gather, scatter            | what the root takes or gives     | (n-1)/n · bytes/bandwidth + latency        |
| all_to_all                 | what one rank gives              | (n-1)/n · bytes/bandwidth + (n-1)·latency  |
| send                       | the tensor                       | bytes/bandwidth + latency                  |
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.profiles.gpus import GpuKind

KINDS = (
    "all_reduce", "barrier", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "all_to_all",
    "send",
)  # fmt: skip
"""Every operation that has a price."""

_HALVES_OF_ALL_REDUCE = {"all_reduce": 1.0, "barrier": 1.0, "all_gather": 0.5, "reduce_scatter": 0.5}
_PIPELINED = ("broadcast", "reduce")
_AT_THE_ROOT = ("gather", "scatter")


@dataclass(frozen=True)
class Link:
    """What connects neighbours: bytes/s in one direction, and seconds for the first byte."""

    bandwidth: float
    latency_s: float


HOST_LINK = Link(bandwidth=1.0e9, latency_s=100e-6)
"""Between processes of one machine over its loopback interface: gloo's all-reduce of 25 to 100 MiB, measured."""


def gpu_link(kind: GpuKind) -> Link:
    """Return what connects GPUs of one kind."""
    return Link(kind.ring_bandwidth, kind.link_latency_s)


def seconds(operation: str, nbytes: float, ranks: int, link: Link) -> float:
    """Return how long an operation takes once all ranks that it needs have arrived."""
    if ranks == 1:
        return 0.0
    others, share = ranks - 1, (ranks - 1) / ranks
    whole = nbytes / link.bandwidth
    if operation in _HALVES_OF_ALL_REDUCE:
        return _HALVES_OF_ALL_REDUCE[operation] * (2 * share * whole + others * link.latency_s)
    if operation in _PIPELINED:
        return whole + others * link.latency_s
    if operation in _AT_THE_ROOT:
        return share * whole + link.latency_s
    if operation == "all_to_all":
        return share * whole + others * link.latency_s
    return whole + link.latency_s
