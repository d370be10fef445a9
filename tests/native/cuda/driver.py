"""The emulated driver by ctypes, as far as tests need it: a context on its first GPU, memory, and launches."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuyard.native import find

SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, NO_DEVICE = 0, 1, 2, 3, 100
INVALID_IMAGE, INVALID_PTX, INVALID_HANDLE, NOT_FOUND, NOT_READY = 200, 218, 400, 500, 600
ILLEGAL_ADDRESS, ASSERT, MISALIGNED_ADDRESS, LAUNCH_FAILED, NOT_SUPPORTED = 700, 710, 716, 719, 801

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"


class DriverError(Exception):
    """A call of the driver failed."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__(f"{name} returned {code}")
        self.code = code


class Driver:
    """The library, started by the environment that it is made in, with a current context."""

    def __init__(self, library: Path | None = None) -> None:
        self.library = ctypes.CDLL(str(library or find("libcuda.so.1")))
        self.call("cuInit", 0)
        self.context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.call("cuCtxSetCurrent", self.context)

    def result(self, name: str, *arguments: Any) -> int:
        """Call a function and return what it answers."""
        return int(getattr(self.library, name)(*arguments))

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that must succeed."""
        code = self.result(name, *arguments)
        if code != SUCCESS:
            raise DriverError(name, code)

    def renew(self) -> None:
        """Get rid of a context in which a kernel has failed."""
        self.call("cuDevicePrimaryCtxReset_v2", 0)

    def load(self, text: str | bytes) -> ctypes.c_void_p:
        """Load a module from PTX."""
        module = ctypes.c_void_p()
        data = text.encode() if isinstance(text, str) else text
        self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(data))
        return module

    def function(self, module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        """Find a kernel."""
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def allocate(self, nbytes: int) -> int:
        """Take memory of the GPU."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(nbytes))
        return address.value

    def free(self, address: int) -> None:
        """Give memory back."""
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def upload(self, array: NDArray[Any]) -> int:
        """Copy an array to memory of its own on the GPU."""
        array = np.ascontiguousarray(array)
        address = self.allocate(max(1, array.nbytes))
        self.call(
            "cuMemcpyHtoD_v2",
            ctypes.c_uint64(address),
            array.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(array.nbytes),
        )
        return address

    def download(self, address: int, like: NDArray[Any]) -> NDArray[Any]:
        """Copy an array back."""
        array = np.empty_like(like)
        self.call(
            "cuMemcpyDtoH_v2",
            array.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_uint64(address),
            ctypes.c_size_t(array.nbytes),
        )
        return array

    def launch(
        self,
        function: ctypes.c_void_p,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        arguments: list[Any],
        shared: int = 0,
    ) -> int:
        """Launch a kernel on the default stream, and return what the driver answers."""
        held = (ctypes.c_void_p * max(1, len(arguments)))(
            *(ctypes.cast(ctypes.pointer(each), ctypes.c_void_p) for each in arguments)
        )
        sizes = [*grid, *(1,) * (3 - len(grid)), *block, *(1,) * (3 - len(block)), shared]
        return self.result("cuLaunchKernel", function, *map(ctypes.c_uint, sizes), None, held, None)

    def run(
        self,
        body: str,
        inputs: list[NDArray[Any]],
        output: NDArray[Any],
        block: int = 32,
        grid: int = 1,
        before: str = "",
    ) -> NDArray[Any]:
        """Run a kernel `k` whose parameters are the output and then the inputs; see `kernel`."""
        module = self.load(kernel(body, len(inputs) + 1, before))
        addresses = [self.upload(output), *map(self.upload, inputs)]
        try:
            code = self.launch(
                self.function(module, "k"), (grid,), (block,), [ctypes.c_uint64(each) for each in addresses]
            )
            if code != SUCCESS:
                raise DriverError("cuLaunchKernel", code)
            return self.download(addresses[0], output)
        finally:
            if not self.result("cuCtxSynchronize"):
                for address in addresses:
                    self.free(address)
                self.call("cuModuleUnload", module)


def kernel(body: str, parameters: int, before: str = "") -> str:
    """Return a module with a kernel whose parameters are addresses, p0 … in %rd0 …; %r0 is the number of the thread."""
    names = [f".param .u64 p{index}" for index in range(parameters)]
    loads = [
        f"ld.param.u64 %rd{index}, [p{index}];\ncvta.to.global.u64 %rd{index}, %rd{index};"
        for index in range(parameters)
    ]
    registers = (
        ".reg .pred %p<16>; .reg .b16 %h<32>; .reg .b32 %r<64>; .reg .b64 %rd<64>; .reg .f32 %f<32>; .reg .f64 %fd<32>;"
    )
    number = "mov.u32 %r60, %ctaid.x; mov.u32 %r61, %ntid.x; mov.u32 %r62, %tid.x; mad.lo.u32 %r0, %r60, %r61, %r62;"
    lines = [HEADER, before, f".visible .entry k({', '.join(names)}) {{", registers, *loads, number, body, "ret;", "}"]
    return "\n".join(lines)


def settings(**given: str) -> dict[str, str]:
    """Return this environment with these GPUYARD_ settings and no others, but for the place of shared memory."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == "GPUYARD_SHM" or not name.startswith(("GPUYARD_", "CUDA_VISIBLE_DEVICES"))
    }
    return kept | {f"GPUYARD_{name.upper()}": value for name, value in given.items()}
