"""One short experiment through everything that sharing compiles."""

from __future__ import annotations

from gpuyard.core.sharing import KernelSequence, SharedJob, SharingExperiment
from gpuyard.simulation.device.engine import share


def rehearse_sharing() -> None:
    """Compile, or load, the kernels of a simulated GPU."""
    share(SharingExperiment((SharedJob("one", KernelSequence.uniform(2, 0.001)),), 0.005))
