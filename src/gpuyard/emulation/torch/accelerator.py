"""`torch.accelerator`, which programs ask that do not care whose GPU it is."""

from __future__ import annotations

import torch

from gpuyard.emulation.torch import cuda_api, cuda_memory, streams


def install() -> None:
    """Answer `torch.accelerator` as `torch.cuda` is answered."""
    accelerator = torch.accelerator
    accelerator.current_accelerator = lambda check_available=False: torch.device("cuda")
    accelerator.is_available = cuda_api.is_available
    accelerator.device_count = cuda_api.device_count
    accelerator.current_device_index = accelerator.current_device_idx = cuda_api.current_device
    accelerator.set_device_index = accelerator.set_device_idx = cuda_api.set_device
    accelerator.synchronize = cuda_api.synchronize
    accelerator.current_stream, accelerator.set_stream = streams.current_stream, streams.set_stream
    streams.stand_in_for_generic_ones()
    for name in (
        "empty_cache", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
        "memory_stats", "reset_peak_memory_stats", "reset_accumulated_memory_stats",
    ):  # fmt: skip
        setattr(accelerator, name, getattr(cuda_memory, name))
    accelerator.get_memory_info = cuda_memory.mem_get_info
