"""A process at an emulated GPU, for tests and benchmarks: `player.py NODE SHARING ACT [NAME=NUMBER…]`.

It prints `ready` once it sits, and reads from standard input when to begin.
"""

import json
import sys
import time

from gpuyard.emulation.node import GpuSlot, Node, Seat, Sharing

SLOT = GpuSlot("V100", "Tesla V100-PCIE-16GB", 16 * 2**30, (7, 0))


def train(node: Node, seat: Seat, step_s: float) -> list[float]:
    """Train step after step, each queued while the one before runs; return when each was done."""
    start, end = json.loads(sys.stdin.readline())
    node.clock.wait_until(start)
    ends: list[float] = []
    tail, busy = seat.device_time(node.clock.now()), 0.0
    while node.clock.now() < end:
        tail, busy = max(tail, seat.device_time(node.clock.now())) + step_s, busy + step_s
        seat.submit(tail, node.clock.now(), busy)
        ends.append(tail)
        if len(ends) > 1:
            seat.wait_until(ends[-2], node.clock)
    return [seat.reached_at(position, node.clock.now()) for position in ends[:-1]]


def hold(node: Node, seat: Seat) -> None:
    """Hold all memory and queue an hour of work, until killed."""
    now = node.clock.now()
    assert seat.reserve(SLOT.memory_bytes)
    seat.submit(now + 3600, now, 3600)
    print("holding", flush=True)
    time.sleep(600)


def hammer(node: Node, seat: Seat) -> None:
    """Change everybody's rate as often as possible, until killed."""
    busy = 0.0
    while True:
        now = node.clock.now()
        busy += 1e-6
        seat.submit(seat.device_time(now) + 1e-6, now, busy)


def main(name: str, sharing: str, act: str, *arguments: str) -> None:
    """Sit down and play."""
    numbers = {key: float(value) for key, _, value in (each.partition("=") for each in arguments)}
    step_s = numbers.pop("step_s", 0.02)
    node = Node.open(name, [SLOT], sharing=Sharing.parse(sharing))
    terms = {key: int(value) if key == "priority" else value for key, value in numbers.items()}
    seat = node.sit(0, **terms)  # type: ignore[arg-type]
    print("ready", flush=True)
    if act == "train":
        print(json.dumps(train(node, seat, step_s)), flush=True)
        node.close()
    else:
        {"hold": hold, "hammer": hammer}[act](node, seat)


if __name__ == "__main__":
    main(*sys.argv[1:])
