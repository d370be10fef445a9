"""What multiplex policies need to know of a task, from the profile of its model."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyard.core.workload import Job
from gpuyard.policies.jobs import Jobs
from gpuyard.policies.multiplex.batch_grid import BatchRange
from gpuyard.policies.multiplex.interference import Usage
from gpuyard.policies.multiplex.shared_gpus import TaskFact
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


def task_of(
    job: Job, row: int, jobs: Jobs, gpu_types: Sequence[str], usage: Usage, batches: BatchRange
) -> TaskFact:  # fmt: skip
    """A job of one GPU as multiplex policies know it, before it runs; `row` is its place among `jobs`."""
    allowed = tuple(name for number, name in enumerate(gpu_types) if jobs.types[row] >> number & 1)
    fastest = float(jobs.best_speed[row])
    speeds = {
        name: float(jobs.type_speed[row, number]) / fastest for number, name in enumerate(gpu_types) if name in allowed
    }
    return TaskFact(
        job.job_id, usage, batches.memory_gb(batches.own), None,
        () if len(allowed) == len(gpu_types) else allowed, speeds if len(gpu_types) > 1 else {}, job.tenant,
    )  # fmt: skip
