"""A training task that lets gpuyard choose its batch size, until that stays the same.

usage: tunable.py GIB BATCH CHANGES SECONDS: not before it was changed so often, nor before so many seconds.
A step takes 16 kernels and one more for each 16 samples.
"""

import sys
import time

from emulated import Gpu
from gpuyard.client.shared_batch import SharedBatch

REST_S = 20.0

gpu, batch, least, seconds = (
    Gpu(float(sys.argv[1])),
    SharedBatch(int(sys.argv[2])),
    int(sys.argv[3]),
    float(sys.argv[4]),
)
began = since = time.monotonic()
changes = 0
while changes < least or time.monotonic() < max(since + REST_S, began + seconds):
    gpu.step(16 + batch.size // 16)
    if batch.step():
        changes, since = changes + 1, time.monotonic()
        print(f"{batch.size} samples", flush=True)
print(f"came to rest at {batch.size} after {changes} changes", flush=True)
