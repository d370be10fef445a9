"""Messages that programs and people know from CUDA, word for word where programs match on them."""

from __future__ import annotations

import torch

from gpuyard.emulation.device import Gpu


def size(nbytes: float) -> str:
    """Write bytes the way torch does in its messages."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= scale:
            return f"{nbytes / scale:.2f} {unit}"
    return f"{nbytes:.0f} bytes"


def out_of_memory(gpu: Gpu, wanted: int) -> str:
    """Word the error of a full GPU."""
    memory = gpu.memory
    return (
        f"CUDA out of memory. Tried to allocate {size(wanted)}. GPU {gpu.index} has a total capacity of "
        f"{size(gpu.memory_bytes)} of which {size(gpu.free_memory())} is free. Including non-PyTorch memory, this "
        f"process has {size(memory.reserved)} memory in use. Of the allocated memory {size(memory.allocated)} is "
        "allocated by PyTorch, and "
        f"{size(memory.reserved - memory.allocated)} is reserved by PyTorch but unallocated. (emulated {gpu.kind.name})"
    )


_CPP_NAMES = {
    torch.float32: "float",
    torch.float64: "double",
    torch.float16: "c10::Half",
    torch.bfloat16: "c10::BFloat16",
}


def mixed_types(name: str, types: list[torch.dtype]) -> str:
    """Word the error of a matrix product or a convolution of tensors of different types."""
    if "convolution" in name:
        input_type, weight_type = (f"CUDA{str(dtype).removeprefix('torch.')}" for dtype in types[:2])
        return f"Input type ({input_type}) and weight type ({weight_type}) should be the same"
    first, second = (_CPP_NAMES.get(dtype, str(dtype)) for dtype in types[-2:])
    return f"expected m1 and m2 to have the same dtype, but got: {first} != {second}"


def mixed_devices(first: str, second: str) -> str:
    """Word the error of an operation on tensors that lie apart."""
    return f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}!"
