"""A training task as any CUDA program. usage: train.py GIB STEPS."""

import sys
import time

from emulated import Gpu

gib, steps = float(sys.argv[1]), int(sys.argv[2])
gpu = Gpu(gib)
began = time.monotonic()
for _ in range(steps):
    gpu.step()
step_ms = (time.monotonic() - began) / max(steps, 1) * 1e3
print(f"trained {steps} steps of {step_ms:.1f} ms with {gib:g} GiB", flush=True)
