"""A process at an emulated GPU, for tests and benchmarks: `player.py NODE SHARING ACT [NAME=NUMBER…]`.

It prints `ready` once it is connected, and reads from standard input when to begin.
"""

import json
import sys
import time

from gpuyard.emulation.node import GpuSlot, Node, SharedGpuClient
from gpuyard.policies.timeshare import time_sharing

SLOT = GpuSlot("V100", "Tesla V100-PCIE-16GB", 16 * 2**30, (7, 0))


def obey(client: SharedGpuClient) -> None:
    """Do as each line says: `queue AT SECONDS` of work, or tell the device time `at TIME`."""
    tail = busy = 0.0
    for line in sys.stdin:
        order, now, *more = line.split()
        if order == "queue":
            tail, busy = max(tail, client.device_time(float(now))) + float(more[0]), busy + float(more[0])
            client.submit(tail, float(now), busy)
        print(json.dumps(client.device_time(float(now))), flush=True)


def hold(node: Node, client: SharedGpuClient) -> None:
    """Hold all memory and queue an hour of work, until killed."""
    now = node.clock.now()
    assert client.reserve(SLOT.memory_bytes)
    client.submit(now + 3600, now, 3600)
    print("holding", flush=True)
    time.sleep(600)


def hammer(node: Node, client: SharedGpuClient) -> None:
    """Change everybody's rate as often as possible, until killed."""
    busy = 0.0
    while True:
        now = node.clock.now()
        busy += 1e-6
        client.submit(client.device_time(now) + 1e-6, now, busy)


def main(name: str, sharing: str, act: str, *arguments: str) -> None:
    """Sit down and play."""
    numbers = {key: float(value) for key, _, value in (each.partition("=") for each in arguments)}
    node = Node.open(name, [SLOT], sharing=time_sharing(sharing))
    terms = {key: int(value) if key == "priority" else value for key, value in numbers.items()}
    client = node.connect(0, **terms)  # type: ignore[arg-type]
    print("ready", flush=True)
    if act == "obey":
        obey(client)
    else:
        {"hold": hold, "hammer": hammer}[act](node, client)


if __name__ == "__main__":
    main(*sys.argv[1:])
