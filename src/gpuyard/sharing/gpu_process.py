"""A process that looks which GPUs the machine has, and measures what a kernel takes there beyond what it is asked for.

It is one of its own so that its driver and its context are gone before jobs begin, and no gate stands before it. It
prints one line of JSON.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any

from gpuyard.sharing.driver import CudaDriver, DriverFailedError
from gpuyard.sharing.kernels import spinning_code
from gpuyard.sharing.launcher import Launcher

ROUNDS, KERNELS = 5, 50
AHEAD_S = 0.002
"""Of a kernel that keeps the GPU while those that are measured are launched."""


def overhead_ns(driver: CudaDriver, gpu: int) -> int:
    """Measure how long after its predecessor a kernel ends that is to take no time: the least that was seen."""
    driver.use(gpu)
    launcher = Launcher(driver, spinning_code([0.0, AHEAD_S]))
    return min(_measured_ns(launcher) for _ in range(ROUNDS))


def _measured_ns(launcher: Launcher) -> int:
    driver = launcher.driver
    begin, end = driver.event(), driver.event()
    launcher.launch(1)
    driver.call("cuEventRecord", begin, None)
    for _ in range(KERNELS):
        launcher.launch(0)
    driver.call("cuEventRecord", end, None)
    driver.call("cuEventSynchronize", end)
    lasted_ms = ctypes.c_float()
    driver.call("cuEventElapsedTime", ctypes.byref(lasted_ms), begin, end)
    return round(lasted_ms.value * 1e6 / KERNELS)


def look(gpus: list[int]) -> dict[str, Any]:
    """Return names and memory of all GPUs, and what was measured on these; or why there is nothing to look at."""
    try:
        driver = CudaDriver()
        names = driver.gpu_names()
        measured = [overhead_ns(driver, gpu) for gpu in gpus if gpu < len(names)]
        return {"names": names, "memory_bytes": driver.gpu_memory_bytes(), "overhead_ns": measured}
    except (OSError, DriverFailedError) as error:
        return {"missing": str(error)}


if __name__ == "__main__":
    print(json.dumps(look([int(each) for each in sys.argv[1:]])))
