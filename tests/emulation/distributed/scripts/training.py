"""Steps of data-parallel training whose durations are known: how much of the exchange is hidden, and what it takes."""

from dataclasses import replace
from typing import Any

import torch
from tests.emulation.distributed.scripts.rank import Stopwatch, found
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from gpuyard.emulation.torch.state import state

LAYERS = 4


class Slow(torch.autograd.Function):
    """Takes 10 ms in each direction."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        torch.cuda._sleep(int(0.01 * 1.38e9))
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        torch.cuda._sleep(int(0.01 * 1.38e9))
        return gradients[0].clone()


class Layer(nn.Module):
    """More parameters than fit into one bucket, and 20 ms."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2048, 4096, bias=False)

    def forward(self, x: torch.Tensor) -> Any:
        return Slow.apply(self.linear(x))[:, :2048]


def steps(model: nn.Module, optimizer: torch.optim.Optimizer, count: int) -> list[float]:
    taken = []
    for _ in range(count):
        x = torch.randn(4, 2048, device="cuda")
        optimizer.zero_grad()
        with Stopwatch() as watch:
            model(x).sum().backward()
            optimizer.step()
        taken.append(watch.milliseconds)
    return taken


def main(rank: int) -> None:
    network = nn.Sequential(*(Layer() for _ in range(LAYERS))).cuda()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    found["alone"] = steps(network, optimizer, 2)[-1]
    optimizer.zero_grad()
    before = torch.cuda.memory_allocated()
    wrapped = DistributedDataParallel(network, device_ids=[rank])
    found["memory of buckets"] = torch.cuda.memory_allocated() - before
    found["together"] = steps(wrapped, optimizer, 3)
    found["memory with gradients"] = torch.cuda.memory_allocated() - before

    assert state.session is not None
    state.session.settings = replace(state.session.settings, granularity="pass")
    found["one wait per pass"] = steps(wrapped, optimizer, 5)[-1]

    del wrapped
    optimizer.zero_grad()
    viewed = DistributedDataParallel(network, device_ids=[rank], gradient_as_bucket_view=True)
    steps(viewed, optimizer, 2)
    found["memory with views"] = torch.cuda.memory_allocated() - before
