"""Programs of several levels share a GPU and are killed at random: kill_storm KILLS SEED. Prints what was left as JSON.

Workers are forked, so that hundreds of them take no time to start; the one who kills joins the group only at the end.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from contextlib import suppress

from gpuyard.sharing.calls import Drain, GateError
from gpuyard.sharing.group import GateClient, Group, Terms

WORKERS, JOBS, LAUNCHES = 6, 30, 12


def run_job(client: GateClient, launches: int) -> None:
    for _ in range(launches):
        while client.arrive():
            client.drained(client.queued[0], Drain.PREEMPTED)
            client.wait()
        if client.launched():
            client.drained(client.queued[0], Drain.CAP)
    client.drained(client.queued[0])


def random_terms(dice: random.Random) -> Terms:
    return Terms(dice.randrange(-1, 5), dice.choice([0, 2]))


def work(seed: int, ready: int, endless: bool) -> None:
    dice = random.Random(seed)
    group = Group("test")
    client = group.connect("gpu", Terms(dice.randrange(4), dice.choice([0, 1, 4])), memory_limit=1000)
    client.reserve(1000)
    if dice.random() < 0.2:
        with suppress(GateError):  # somebody else is
            group.control()
    os.write(ready, b".")
    jobs = 0
    while endless or jobs < JOBS:
        run_job(client, dice.randrange(1, LAUNCHES))
        jobs += 1
        if dice.random() < 0.1:
            seen = group.look(0)
            if seen.controlled and dice.random() < 0.5:
                with suppress(GateError):  # somebody else is the controller
                    group.decide(0, seen.clients, [random_terms(dice) for _ in seen.clients])
    group.close()


def start(seed: int, *, endless: bool) -> int:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work(seed, writing, endless)
        except BaseException as error:
            print(f"worker: {error!r}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    os.close(writing)
    assert os.read(reading, 1) == b".", "a worker could not join"
    os.close(reading)
    return child


def main(kills: int, seed: int) -> None:
    dice = random.Random(seed)
    live = [start(dice.randrange(2**32), endless=True) for _ in range(WORKERS)]
    for _ in range(kills):
        time.sleep(dice.random() * 0.004)
        victim = live.pop(dice.randrange(len(live)))
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        live.append(start(dice.randrange(2**32), endless=True))
    last = [start(dice.randrange(2**32), endless=False) for _ in range(WORKERS)]
    for victim in live:
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in last]
    group = Group("test")
    client = group.connect("gpu", Terms(0))
    run_job(client, 5)
    (mine,) = group.look(0).clients
    print(json.dumps({"exit_codes": codes, "jobs_done": mine.jobs_done, "preemptions": mine.preemptions}))


main(int(sys.argv[1]), int(sys.argv[2]))
