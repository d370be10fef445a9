"""A GPU by the CUDA driver alone: memory, and steps of a kernel. It knows nothing of gpuyard."""

import ctypes
import sys

PTX = b"""
.version 6.0
.target sm_70
.address_size 64
.visible .entry step() { ret; }
"""
cuda = ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: object) -> None:
    """Call the driver; the program ends with the name of its error."""
    code = getattr(cuda, name)(*arguments)
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorName(code, ctypes.byref(text))
        sys.exit(f"{name}: {(text.value or b'?').decode()}")


class Gpu:
    """The first GPU that this program sees, with so much of its memory taken."""

    def __init__(self, gib: float) -> None:
        device, context, module, memory = ctypes.c_int(), *(ctypes.c_void_p() for _ in range(3))
        self._kernel = ctypes.c_void_p()
        call("cuInit", 0)
        call("cuDeviceGet", ctypes.byref(device), 0)
        call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
        call("cuModuleLoadData", ctypes.byref(module), PTX)
        call("cuModuleGetFunction", ctypes.byref(self._kernel), module, b"step")
        call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(int(gib * 2**30)))

    def step(self, kernels: int = 1) -> None:
        """Launch kernels and wait for them."""
        for _ in range(kernels):
            call("cuLaunchKernel", self._kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)
        call("cuCtxSynchronize")
