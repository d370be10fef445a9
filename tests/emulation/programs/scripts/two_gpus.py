"""One process, two GPUs: a model split by hand, DataParallel, and copies from one to the other."""

import torch
from torch import nn


class Split(nn.Module):
    """Its first half is on one GPU, its second on the other."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(16, 64), nn.ReLU()).to("cuda:0")
        self.second = nn.Linear(64, 4).to("cuda:1")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x.to("cuda:0")).to("cuda:1"))


def split_model() -> None:
    model = Split()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(3):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(0, 4, (8,), device="cuda:1"))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert loss.device.index == 1
    assert {parameter.grad.device.index for parameter in model.parameters() if parameter.grad is not None} == {0, 1}


def replicas() -> None:
    model = nn.DataParallel(nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 4)).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    before = torch.cuda.memory_allocated(1)
    for _ in range(3):
        output = model(torch.randn(32, 16, device="cuda"))
        assert output.shape == (32, 4)
        assert output.device.index == 0
        output.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert torch.cuda.max_memory_allocated(1) > before, "the second GPU has done its part"
    assert next(iter(model.state_dict())).startswith("module.")


def copies() -> None:
    a = torch.arange(6, device="cuda:0")
    b = a.to("cuda:1", non_blocking=True)
    assert b.tolist() == a.tolist()
    b.add_(1)
    a.copy_(b)
    assert a.tolist() == [1, 2, 3, 4, 5, 6]
    with torch.cuda.device(1):
        assert torch.cuda.current_device() == 1
        assert torch.zeros(1, device="cuda").device.index == 1
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            big = torch.ones(1 << 20, device="cuda")
        stream.synchronize()
    assert torch.cuda.memory_allocated(1) >= big.nbytes
    assert torch.cuda.can_device_access_peer(0, 1)


if __name__ == "__main__":
    assert torch.cuda.device_count() == 2
    for part in (split_model, replicas, copies):
        part()
        print(part.__name__, "ok", flush=True)
