"""Streams that prefetch, steps captured as graphs, the GPU as default device, and torch's profiler."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

cuda = torch.device("cuda")


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4))


def step(model: nn.Module, optimizer: optim.Optimizer) -> float:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(torch.randn(16, 8, device=cuda)), torch.randint(0, 4, (16,), device=cuda))
    loss.backward()
    optimizer.step()
    return loss.item()


class Prefetcher:
    """Copies the next batch on a stream of its own while the current one is used."""

    def __init__(self, batches: Any) -> None:
        self.batches, self.stream = iter(batches), torch.cuda.Stream()
        self.upcoming: torch.Tensor | None = None
        self.preload()

    def preload(self) -> None:
        batch = next(self.batches, None)
        self.upcoming = None
        if batch is not None:
            with torch.cuda.stream(self.stream):
                self.upcoming = batch[0].cuda(non_blocking=True).sub_(0.5).div_(0.2)

    def next(self) -> torch.Tensor | None:
        torch.cuda.current_stream().wait_stream(self.stream)
        batch = self.upcoming
        if batch is not None:
            batch.record_stream(torch.cuda.current_stream())
        self.preload()
        return batch


def prefetched() -> None:
    loader = DataLoader(TensorDataset(torch.rand(64, 8)), batch_size=16, pin_memory=True)
    prefetcher, count = Prefetcher(loader), 0
    batch = prefetcher.next()
    while batch is not None:
        count += len(batch)
        batch = prefetcher.next()
    assert count == 64


def captured() -> None:
    """A training step as a CUDA graph."""
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).to(cuda)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(16, 8, device=cuda), torch.randint(0, 4, (16,), device=cuda)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(3):
        x.copy_(torch.randn(16, 8))
        graph.replay()
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) > 0
    assert loss.item() > 0
    graphed = torch.cuda.make_graphed_callables(nn.Linear(8, 8).to(cuda), (torch.randn(4, 8, device=cuda),))
    graphed(torch.randn(4, 8, device=cuda)).sum().backward()


def by_default() -> None:
    """Everything is made on the GPU without saying so."""
    torch.set_default_device("cuda")
    try:
        model = network()
        assert model(torch.randn(4, 8)).is_cuda
        assert torch.arange(3).is_cuda
        assert torch.tensor([1.0]).is_cuda
        with torch.device("cpu"):
            assert torch.zeros(1).device.type == "cpu"
    finally:
        torch.set_default_device("cpu")
    with torch.device("cuda:1"):
        assert nn.Linear(2, 2).weight.device.index == 1
    assert torch.zeros(1).device.type == "cpu"


def profiled() -> None:
    """torch's own profiler sees the operations."""
    model = network().to(cuda)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(
        activities=activities, schedule=torch.profiler.schedule(wait=1, warmup=1, active=2), record_shapes=True
    ) as profile:
        for _ in range(4):
            with torch.profiler.record_function("step"):
                step(model, optimizer)
            profile.step()
    assert "aten::addmm" in profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=-1)
    with torch.autograd.profiler.emit_nvtx(enabled=False):
        torch.cuda.nvtx.range_push("forward")
        torch.cuda.nvtx.range_pop()


if __name__ == "__main__":
    for part in (prefetched, captured, by_default, profiled):
        part()
        print(part.__name__, "ok", flush=True)
