"""A process at an emulated GPU: holds memory, queues work, and waits for its end.

It says `ready` once it has worked for as long as monitors look back.

python job.py NODE GPU BYTES SECONDS
"""

import signal
import sys
import time

from gpuyard.emulation.node import GpuSlot, Node

WINDOW_S = 1.0
"""How long monitors look back: GPUYARD_WINDOW_S."""
CONTEXT = 300 * 2**20
SLOT = GpuSlot(
    key="V100",
    name="Tesla V100-PCIE-32GB",
    memory_bytes=34_089_730_048,
    compute_capability=(7, 0),
    multiprocessors=80,
    context_bytes=CONTEXT,
    idle_watts=30,
    max_watts=250,
    core_mhz=1380,
    memory_mhz=877,
)


def main(name: str, gpu: int, nbytes: int, seconds: float) -> None:
    """All work is queued at once, so how busy the GPU is does not depend on how noisy the machine is."""
    node = Node.open(name, [SLOT, SLOT])
    client = node.connect(gpu)
    if not client.reserve(nbytes):
        raise MemoryError
    now = node.clock.now()
    client.submit(now + seconds, now, seconds)
    time.sleep(min(seconds, WINDOW_S))
    print("ready", flush=True)
    signal.pause()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
