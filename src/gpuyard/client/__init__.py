"""The training side: by this a scheduler can stop a script, move it and let it go on without losing a step.

    for batch in steps(loader, save=save, load=load):
        train(batch)

Without a scheduler `steps` returns the loader itself.
"""

from gpuyard.client.checkpoints import Checkpoints
from gpuyard.client.data import (
    FixedCache,
    LocalFiles,
    RateLimitedDisk,
    WorkerLoader,
    allotted_cpus,
    allotted_memory_bytes,
)
from gpuyard.client.stepping import LeaseEnded, Steps, steps

__all__ = [
    "Checkpoints",
    "FixedCache",
    "LeaseEnded",
    "LocalFiles",
    "RateLimitedDisk",
    "Steps",
    "WorkerLoader",
    "allotted_cpus",
    "allotted_memory_bytes",
    "steps",
]
