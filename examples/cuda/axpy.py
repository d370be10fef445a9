"""Computes on a GPU with numba, and measures how long it takes."""

import numpy as np
from numba import cuda


@cuda.jit
def axpy(a, x, y):
    """Add a times x to y, a thread for each number."""
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


x = cuda.to_device(np.arange(100_000, dtype="f4"))
y = cuda.to_device(np.ones(100_000, "f4"))
launch = axpy[200, 512]
launch(np.float32(2), x, y)  # compiles
start, end = cuda.event(), cuda.event()
start.record()
for _ in range(9):
    launch(np.float32(2), x, y)
end.record()
end.synchronize()
print(f"{cuda.get_current_device().name}: y[3] = {y.copy_to_host()[3]:g}, {cuda.event_elapsed_time(start, end):.3f} ms")
