"""Pinned host memory under emulation, and the loaders that use it."""

# mypy: allow-untyped-calls

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

MIB = 1 << 20


class Pictures(Dataset[tuple[torch.Tensor, int]]):
    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((3, 16, 16), float(index)), index


def test_a_pinned_tensor_says_so_and_holds_the_same() -> None:
    host = torch.arange(12).reshape(3, 4)
    pinned = host.pin_memory()
    assert pinned.is_pinned()
    assert not host.is_pinned()
    assert torch.equal(pinned, host)
    assert pinned.pin_memory() is pinned
    assert pinned[1:].is_pinned(), "a view of pinned memory is pinned"
    assert pinned.t().is_pinned()
    assert not pinned.clone().is_pinned()
    assert host.t().pin_memory().stride() == host.t().stride()
    assert not torch.zeros(2, device="cuda").is_pinned()
    with pytest.raises(RuntimeError, match="cannot pin"):
        torch.zeros(2, device="cuda").pin_memory()


def test_factories_can_pin() -> None:
    assert torch.empty(10, pin_memory=True).is_pinned()
    assert torch.zeros(10, pin_memory=True).tolist() == [0.0] * 10
    assert torch.empty(10, pin_memory=True).numpy().shape == (10,)
    assert not torch.empty(10, pin_memory=False).is_pinned()


def test_buffers_are_used_again_once_nothing_views_them() -> None:
    first = torch.zeros(MIB, dtype=torch.uint8).pin_memory()
    address = first.data_ptr()
    view = first[5:10]
    del first
    assert torch.zeros(MIB, dtype=torch.uint8).pin_memory().data_ptr() != address
    del view
    assert address in {torch.zeros(MIB, dtype=torch.uint8).pin_memory().data_ptr() for _ in range(3)}


def test_what_is_written_to_a_reused_buffer_is_what_is_read() -> None:
    for number in range(5):
        assert torch.full((100,), number).pin_memory().tolist() == [number] * 100


@pytest.mark.parametrize(
    ("pinned", "non_blocking", "returns_at_once"),
    [(True, True, True), (True, False, False), (False, True, False), (False, False, False)],
)
def test_only_a_non_blocking_copy_from_pinned_memory_returns_at_once(
    pinned: bool, non_blocking: bool, returns_at_once: bool
) -> None:
    host = torch.empty(64 * MIB, dtype=torch.uint8)
    host = host.pin_memory() if pinned else host
    torch.cuda.synchronize()
    torch.cuda._sleep(10**12)  # minutes
    host.to("cuda", non_blocking=non_blocking)
    assert torch.cuda.current_stream().query() is not returns_at_once
    torch.cuda.synchronize()


def test_a_copy_to_the_host_in_the_background_goes_to_pinned_memory() -> None:
    torch.cuda.synchronize()
    torch.cuda._sleep(10**12)
    copy = torch.arange(1000, device="cuda").to("cpu", non_blocking=True)
    assert copy.is_pinned()
    assert not torch.cuda.current_stream().query()
    torch.cuda.synchronize()
    assert copy.tolist() == list(range(1000))


def test_copying_in_the_background_into_memory_that_is_not_pinned_waits() -> None:
    target, pinned = torch.empty(1000, dtype=torch.int64), torch.empty(1000, dtype=torch.int64).pin_memory()
    source = torch.arange(1000, device="cuda")
    torch.cuda._sleep(10**12)
    pinned.copy_(source, non_blocking=True)
    assert not torch.cuda.current_stream().query()
    target.copy_(source, non_blocking=True)
    assert torch.cuda.current_stream().query()
    assert torch.equal(target, pinned)


@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_pin_with_and_without_workers(workers: int) -> None:
    loader = DataLoader(Pictures(), batch_size=8, num_workers=workers, pin_memory=True)
    for _ in range(2):
        seen = []
        for pictures, labels in loader:
            assert pictures.is_pinned()
            assert labels.is_pinned()
            on_gpu = labels.to("cuda", non_blocking=True)
            assert pictures.cuda(non_blocking=True).shape == (8, 3, 16, 16)
            seen += on_gpu.tolist()
        assert seen == list(range(32))


def test_persistent_workers_and_shuffling() -> None:
    data = TensorDataset(torch.arange(40), torch.arange(40) * 2)
    generator = torch.Generator().manual_seed(0)
    loader = DataLoader(
        data, batch_size=10, shuffle=True, generator=generator, num_workers=2, persistent_workers=True, pin_memory=True
    )
    for _ in range(2):
        pairs = [pair for first, second in loader for pair in zip(first.tolist(), second.tolist(), strict=True)]
        assert sorted(pairs) == [(number, 2 * number) for number in range(40)]


class OnGpu(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.zeros(1, device="cuda")


def test_a_forked_worker_cannot_use_the_gpu() -> None:
    with pytest.raises(RuntimeError, match="Cannot re-initialize CUDA in forked subprocess"):
        next(iter(DataLoader(OnGpu(), num_workers=1)))
