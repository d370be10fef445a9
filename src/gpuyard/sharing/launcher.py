"""Launches the kernels of a job on the driver, each as long as it is to take."""

from __future__ import annotations

import ctypes
from itertools import cycle
from typing import Any

from gpuyard.sharing.driver import CudaDriver, DriverFailedError
from gpuyard.sharing.kernels import KernelCode


class Launcher:
    """A GPU, with a kernel of each kind and so many streams."""

    def __init__(self, driver: CudaDriver, code: KernelCode, streams: int = 1) -> None:
        self.driver = driver
        self._functions = driver.functions(code.ptx, code.functions)
        self._arguments = [_argument(each) for each in code.nanoseconds]
        self._streams = [None] if streams == 1 else [driver.stream() for _ in range(streams)]

    def run(self, kernels: tuple[int, ...], layer_ends: frozenset[int]) -> None:
        """Launch the kernels of a job, one stream after the other, and wait for all of them."""
        for number, (kind, stream) in enumerate(zip(kernels, cycle(self._streams), strict=False), 1):
            self.launch(kind, stream)
            if number in layer_ends:
                self.driver.call("cuCtxSynchronize")
        self.driver.call("cuCtxSynchronize")

    def launch(self, kind: int, stream: ctypes.c_void_p | None = None) -> None:
        """Launch one kernel."""
        function, arguments = self._functions[kind], self._arguments[kind]
        code = self.driver.library.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, None)
        if code:
            raise DriverFailedError(f"cuLaunchKernel failed with code {code}")


def _argument(nanoseconds: int) -> Any:
    """Return what `cuLaunchKernel` takes for one number: where the place of each argument is."""
    return (ctypes.POINTER(ctypes.c_uint64) * 1)(ctypes.pointer(ctypes.c_uint64(nanoseconds)))
