"""A training task as any CUDA program: memory of a GPU, and steps of a kernel. It knows nothing of gpuyard.

usage: train.py GIB STEPS
"""

import ctypes
import sys
import time

PTX = b"""
.version 6.0
.target sm_70
.address_size 64
.visible .entry step() { ret; }
"""
cuda = ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: object) -> None:
    code = getattr(cuda, name)(*arguments)
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorName(code, ctypes.byref(text))
        sys.exit(f"{name}: {(text.value or b'?').decode()}")


gib, steps = float(sys.argv[1]), int(sys.argv[2])
device, context, module, kernel, memory = ctypes.c_int(), *(ctypes.c_void_p() for _ in range(4))
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
call("cuModuleLoadData", ctypes.byref(module), PTX)
call("cuModuleGetFunction", ctypes.byref(kernel), module, b"step")
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(int(gib * 2**30)))
began = time.monotonic()
for _ in range(steps):
    call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    call("cuCtxSynchronize")
step_ms = (time.monotonic() - began) / max(steps, 1) * 1e3
print(f"trained {steps} steps of {step_ms:.1f} ms with {gib:g} GiB", flush=True)
