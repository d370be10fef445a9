"""Mistakes that programs make, and a rank that ends in the middle."""

import os
import signal
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from tests.emulation.distributed.scripts.rank import found, write
from torch import nn
from torch.distributed._functional_collectives import all_reduce
from torch.nn.parallel import DistributedDataParallel


def mistake(name: str, action: Callable[[], object]) -> None:
    try:
        action()
    except (NotImplementedError, RuntimeError) as error:
        found[name] = [type(error).__name__, str(error)]


def shard() -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel

    FullyShardedDataParallel(nn.Linear(2, 2).cuda())


def half_used(rank: int) -> None:
    model = nn.Linear(2, 2)
    model.add_module("idle", nn.Linear(2, 2))
    wrapped = DistributedDataParallel(model.cuda(), device_ids=[rank])
    for _ in range(2):
        wrapped(torch.ones(1, 2)).sum().backward()


def main(rank: int) -> None:
    mistake("mismatch", lambda: dist.all_reduce(torch.ones(1 + rank, device="cuda")))
    mistake("fsdp", shard)
    mistake("functional", lambda: all_reduce(torch.ones(1, device="cuda"), "sum", [0, 1]))
    apart = dist.new_group()
    mistake("shapes", lambda: DistributedDataParallel(nn.Linear(2, 2 + rank).cuda(), [rank], process_group=apart))
    mistake("same gpu", lambda: dist.all_reduce(torch.ones(1, device="cuda:0"), group=dist.new_group()))
    mistake("not all used", lambda: half_used(rank))

    impatient: Any = dist.new_group()
    impatient._set_default_timeout(timedelta(seconds=0.5))
    if rank == 0:
        mistake("late", lambda: dist.all_reduce(torch.ones(1, device="cuda"), group=impatient))

    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun ends the other rank, too, which has yet to write
    dist.barrier(device_ids=[rank])
    if rank == 1:
        write()
        os.kill(os.getpid(), signal.SIGKILL)
    mistake("lost", lambda: dist.all_reduce(torch.ones(1, device="cuda")))
