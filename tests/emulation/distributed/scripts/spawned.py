"""Ranks that a program starts itself, with gloo for GPU tensors."""

import os

import torch
import torch.distributed as dist
from tests.emulation.distributed.scripts.rank import Stopwatch, end, found
from torch.multiprocessing import spawn


def work(rank: int, rendezvous: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    torch.cuda.set_device(rank)
    loss = torch.tensor(float(rank), device="cuda")
    dist.all_reduce(loss)
    found["loss"] = loss.item() / 2
    on_host = torch.tensor([rank])
    dist.all_reduce(on_host)
    found["on host"] = on_host.tolist()
    large = torch.empty(1 << 20, device="cuda")
    with Stopwatch() as watch:
        dist.all_reduce(large)
    found["all_reduce ms"] = watch.milliseconds
    found["backend"] = dist.get_backend()
    end()


if __name__ == "__main__":
    spawn(work, args=(os.path.join(os.environ["RESULTS"], "meet"),), nprocs=2)  # noqa: PTH118
