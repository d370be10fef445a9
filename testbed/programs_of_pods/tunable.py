"""A training task that lets gpuyard choose its batch size, until that stays the same. usage: tunable.py GIB BATCH.

A step takes 16 kernels and one more for each 16 samples.
"""

import sys
import time

from emulated import Gpu
from gpuyard.client.shared_batch import SharedBatch

REST_S = 20.0

gpu, batch = Gpu(float(sys.argv[1])), SharedBatch(int(sys.argv[2]))
since, changes = time.monotonic(), 0
while not changes or time.monotonic() - since < REST_S:
    gpu.step(16 + batch.size // 16)
    if batch.step():
        changes, since = changes + 1, time.monotonic()
        print(f"{batch.size} samples", flush=True)
print(f"came to rest at {batch.size} after {changes} changes", flush=True)
