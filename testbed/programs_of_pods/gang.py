"""A process of a gang that knows nothing of gpuyard: meets the others, counts steps, and saves when it is to end."""

import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

rank, world, steps = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(sys.argv[1])
saved = Path(os.environ["GPUYARD_CHECKPOINTS"]) / "step"
step = int(saved.read_text()) if saved.exists() else 0
port = int(os.environ["MASTER_PORT"])
ending = threading.Event()
signal.signal(signal.SIGTERM, lambda _number, _frame: ending.set())
if rank == 0:
    with socket.create_server(("0.0.0.0", port)) as server:
        others = [server.accept()[0] for _ in range(world - 1)]
else:
    while True:
        try:
            socket.create_connection((os.environ["MASTER_ADDR"], port), timeout=5)
            break
        except OSError:
            time.sleep(0.2)
print(f"rank {rank} of {world} begins after {step} steps", flush=True)
while step < steps and not ending.wait(0.05):
    step += 1
if rank == 0:
    saved.write_text(str(step))
print(f"rank {rank} ends after {step} steps", flush=True)
sys.exit(0 if step == steps else 1)
