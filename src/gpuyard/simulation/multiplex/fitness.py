"""Which tasks can never share a GPU of a cluster: refused before anything is run."""

from __future__ import annotations

from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError
from gpuyard.simulation.multiplex.physics import Physics


def check_width(job_id: object, gpus: float) -> None:
    """Only jobs of one GPU share GPUs."""
    if gpus != 1:
        raise InputError(
            f"is what job {job_id} asks for; GPUs are shared by jobs of one GPU each", field="gpus", value=gpus,
            hint="Leave the others out with --gpus 1:1, or make --single-gpu jobs",
        )  # fmt: skip


def check_memory(model: str, physics: Physics, cluster: Cluster) -> None:
    """A task fits into the largest GPU with its own batch size."""
    largest = max(kind.gpu_memory_gb for kind in cluster.kinds if kind.gpus)
    needs = physics.batches[model].memory_gb(physics.batches[model].own)
    if needs > largest:
        raise InputError(
            f"takes {needs:.3g} GB of GPU memory with its own batch size; no GPU has more than {largest:.3g} GB",
            field="model", value=model, hint="Name GPUs with more memory, as in 4x8:gpu_memory=80GB",
        )  # fmt: skip


def smallest_gpu_gb(cluster: Cluster) -> float:
    """What a task takes whose memory nobody has measured: so much that it shares no GPU."""
    return min(kind.gpu_memory_gb for kind in cluster.kinds if kind.gpus)
