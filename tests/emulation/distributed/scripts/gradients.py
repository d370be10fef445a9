"""Gradients of data-parallel training, computed for real, beside those of the same model on the host."""

import copy
from typing import Any

import torch
import torch.distributed as dist
from tests.emulation.distributed.scripts.rank import found
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

ROUNDS = 3


class Branching(nn.Module):
    """Uses one of two layers, and leaves a third alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 4) for _ in range(3))

    def forward(self, x: torch.Tensor, which: int) -> Any:
        return self.layers[which](x)


def plain() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4))


def batch(number: int, of_rank: int) -> torch.Tensor:
    return torch.randn(5, 6, generator=torch.Generator().manual_seed(100 * number + of_rank))


def difference(wrapped: nn.Module, reference: nn.Module) -> float:
    """How far the gradients are from the average of what each rank alone would have."""
    worst = 0.0
    for mine, theirs in zip(wrapped.parameters(), reference.parameters(), strict=True):
        assert (mine.grad is None) == (theirs.grad is None)
        if mine.grad is not None and theirs.grad is not None:
            worst = max(worst, float((mine.grad.cpu() - theirs.grad / 2).abs().max()))
    return worst


def compare(
    rank: int, name: str, made: Any, *, hook: Any = None, branches: bool = False, rounds: int = ROUNDS, **options: Any
) -> None:
    torch.manual_seed(rank)
    model = made().cuda()
    wrapped = DistributedDataParallel(model, device_ids=[rank], **options)
    if hook is not None:
        wrapped.register_comm_hook(None, hook)
    torch.manual_seed(0)
    reference = made()
    worst = 0.0
    for number in range(rounds):
        wrapped.zero_grad()
        reference.zero_grad()
        wrapped(batch(number, rank), *([rank] if branches else [])).square().sum().backward()
        for other in range(2):
            reference(batch(number, other), *([other] if branches else [])).square().sum().backward()
        worst = max(worst, difference(wrapped, reference))
    found[name] = worst


def ways(rank: int) -> None:
    compare(rank, "plain", plain)
    compare(rank, "as views", plain, gradient_as_bucket_view=True)
    compare(rank, "small buckets", plain, bucket_cap_mb=1e-4)
    compare(rank, "static graph", plain, static_graph=True)
    compare(rank, "unused", Branching, find_unused_parameters=True, branches=True)
    compare(
        rank, "unused as views", Branching, find_unused_parameters=True, gradient_as_bucket_view=True, branches=True
    )
    compare(rank, "fp16 hook", plain, hook=default_hooks.fp16_compress_hook)


def accumulated(rank: int) -> None:
    torch.manual_seed(0)
    model = plain().cuda()
    reference = copy.deepcopy(model).cpu()
    wrapped = DistributedDataParallel(model, device_ids=[rank])
    with wrapped.no_sync():
        wrapped(batch(0, rank)).square().sum().backward()
    alone = next(model.parameters()).grad
    assert alone is not None
    alone = alone.cpu()
    wrapped(batch(1, rank)).square().sum().backward()
    for number in range(2):
        for other in range(2):
            reference(batch(number, other)).square().sum().backward()
    found["no_sync"] = difference(wrapped, reference)
    reference.zero_grad()
    reference(batch(0, rank)).square().sum().backward()
    expected = next(reference.parameters()).grad
    assert expected is not None
    found["no_sync alone"] = float((alone - expected).abs().max())


def uneven(rank: int) -> None:
    wrapped = DistributedDataParallel(plain().cuda(), device_ids=[rank])
    steps = 0
    with wrapped.join():
        for number in range(2 + 3 * rank):
            wrapped(batch(number, rank)).sum().backward()
            steps += 1
    found["join"] = steps
    found["keys"] = sorted(wrapped.state_dict())[:2]


def normalised_together(rank: int) -> None:
    torch.manual_seed(0)
    normalised = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
    reference = copy.deepcopy(normalised)
    wrapped = DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(normalised).cuda(), device_ids=[rank])
    wrapped(batch(0, rank)).square().sum().backward()
    reference(torch.cat([batch(0, other) for other in range(2)])).square().sum().backward()
    found["sync batch norm"] = difference(wrapped, reference)
    means = [next(network.buffers()).cpu() for network in (normalised, reference)]
    found["running mean"] = float((means[0] - means[1]).abs().max())


def model_on_the_host(rank: int) -> None:
    torch.manual_seed(rank)
    on_host = DistributedDataParallel(plain(), process_group=dist.new_group(backend="gloo"))
    on_host(batch(0, rank)).square().sum().backward()
    torch.manual_seed(0)
    reference = plain()
    for other in range(2):
        reference(batch(0, other)).square().sum().backward()
    found["model on the host"] = difference(on_host, reference)
    found["reducer on the host"] = type(on_host.reducer).__module__


def main(rank: int) -> None:
    ways(rank)
    accumulated(rank)
    uneven(rank)
    normalised_together(rank)
    model_on_the_host(rank)
    found["backend"] = dist.get_backend()
