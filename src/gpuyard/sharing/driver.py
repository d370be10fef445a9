"""The CUDA driver of the machine, as far as experiments call it: whichever `libcuda.so.1` the loader finds."""

from __future__ import annotations

import ctypes
from typing import Any

from gpuyard.core.errors import GpuyardError

LIBRARY = "libcuda.so.1"
NAME_BYTES = 256


class DriverFailedError(GpuyardError):
    """A call of the driver failed."""


class CudaDriver:
    """The library, started; raises OSError where there is none."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(LIBRARY)
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that must succeed."""
        code = getattr(self.library, name)(*arguments)
        if code:
            raise DriverFailedError(f"{name} failed with code {code}")

    def use(self, gpu: int) -> None:
        """Work on this GPU from now on."""
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), gpu)
        self.call("cuCtxSetCurrent", context)

    def functions(self, ptx: str, names: tuple[str, ...]) -> list[ctypes.c_void_p]:
        """Load a module, and find functions of it."""
        module = self._made("cuModuleLoadData", ptx.encode())
        found = {name: self._made("cuModuleGetFunction", module, name.encode()) for name in set(names)}
        return [found[name] for name in names]

    def stream(self) -> ctypes.c_void_p:
        """Make a stream that waits for no other."""
        return self._made("cuStreamCreate", 1)

    def event(self) -> ctypes.c_void_p:
        """Make an event that tells time."""
        return self._made("cuEventCreate", 0)

    def gpu_names(self) -> tuple[str, ...]:
        """Say which GPUs there are."""
        name, names = ctypes.create_string_buffer(NAME_BYTES), []
        for gpu in range(self._gpus()):
            self.call("cuDeviceGetName", name, NAME_BYTES, gpu)
            names.append(name.value.decode(errors="replace"))
        return tuple(names)

    def gpu_memory_bytes(self) -> tuple[int, ...]:
        """Say how much memory each has."""
        size, sizes = ctypes.c_size_t(), []
        for gpu in range(self._gpus()):
            self.call("cuDeviceTotalMem_v2", ctypes.byref(size), gpu)
            sizes.append(size.value)
        return tuple(sizes)

    def _gpus(self) -> int:
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    def _made(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        """Call a function whose first argument is where what it makes goes."""
        made = ctypes.c_void_p()
        self.call(name, ctypes.byref(made), *arguments)
        return made
