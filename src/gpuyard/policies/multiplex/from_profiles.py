"""What multiplex policies need to know of a task, from the profile of its model."""

from __future__ import annotations

from gpuyard.policies.multiplex.batch_grid import BatchRange
from gpuyard.policies.multiplex.interference import Usage
from gpuyard.profiles import ModelProfile


def usage_of(profile: ModelProfile) -> Usage:
    """How the model uses a GPU; one of which nobody says it counts as one that always uses all of it."""
    sharing = profile.sharing
    return Usage(profile.name, 1.0, 1.0) if sharing is None else Usage(profile.name, sharing.compute, sharing.bandwidth)


def batches_of(profile: ModelProfile, gpu_memory_gb: float) -> BatchRange:
    """The batch sizes to choose from, by the memory that was measured; without any, its own, and all of the GPU."""
    own, memory = profile.batch, profile.memory
    sizes = sorted(memory.bytes_by_batch) if memory is not None else []
    if memory is None or not sizes[0] <= own <= sizes[-1]:
        return BatchRange(own, own, own, gpu_memory_gb, 0.0)
    if len(sizes) == 1:
        return BatchRange(own, own, own, memory.at(own) / 1e9, 0.0)
    span_gb = (memory.at(sizes[-1]) - memory.at(sizes[0])) / 1e9
    sample_gb = max(span_gb / (sizes[-1] - sizes[0]), 0.0)
    fixed_gb = max(memory.at(size) / 1e9 - sample_gb * size for size in sizes)
    smallest, largest = max(own // 2, sizes[0], 1), min(2 * own, sizes[-1])
    return BatchRange(own, smallest, largest, max(fixed_gb, 0.0), sample_gb)
