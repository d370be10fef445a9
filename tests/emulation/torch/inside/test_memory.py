"""GPU memory under emulation: every tensor counts, and a full GPU says so in CUDA's words."""

# mypy: allow-untyped-calls

import gc
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from gpuyard.emulation.torch import dispatch

MIB = 1 << 20
V100_BYTES = torch.cuda.get_device_properties(0).total_memory


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)


def held() -> int:
    return torch.cuda.memory_allocated()


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((1,), torch.float32, 512),
        ((128,), torch.float32, 512),
        ((129,), torch.float32, 1024),
        ((1000, 1000), torch.float32, 4_000_256),
        ((1000, 1000), torch.float16, 2_000_384),
        ((3, 5), torch.int64, 512),
        ((1000,), torch.bool, 1024),
        ((0,), torch.float32, 0),
    ],
)
def test_a_tensor_takes_its_bytes_in_whole_blocks_of_512(
    shape: tuple[int, ...], dtype: torch.dtype, expected: int
) -> None:
    before = held()
    tensor = torch.empty(shape, dtype=dtype, device="cuda")
    assert held() - before == expected
    del tensor
    assert held() == before


def test_views_share_and_the_last_one_frees() -> None:
    before = held()
    tensor = torch.zeros(1024, 1024, device="cuda")
    views = [tensor.view(-1), tensor[3:7], tensor.t(), tensor.unsqueeze(0).expand(9, -1, -1), tensor.detach()]
    assert held() - before == 4 * MIB
    del tensor, views[1:]
    assert held() - before == 4 * MIB
    views.clear()
    assert held() == before


def test_results_take_memory_of_their_own_and_in_place_operations_none() -> None:
    tensor = torch.zeros(1024, 1024, device="cuda")
    before = held()
    tensor.add_(1).mul_(2).relu_()
    assert held() == before
    other = tensor + 1
    assert held() - before == 4 * MIB
    assert other.data_ptr() != tensor.data_ptr()


def test_the_peak_is_what_was_held_at_once() -> None:
    before = held()
    for _ in range(5):
        torch.zeros(1024, 1024, device="cuda")
    assert torch.cuda.max_memory_allocated() - before == 4 * MIB
    two = [torch.zeros(1024, 1024, device="cuda") for _ in range(2)]
    assert torch.cuda.max_memory_allocated() - before == 8 * MIB
    two.clear()
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == held() == before


def test_reserved_memory_stays_until_the_cache_is_emptied() -> None:
    torch.zeros(100 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_reserved() >= 100 * MIB
    assert torch.cuda.max_memory_reserved() >= torch.cuda.memory_reserved() >= held()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < 100 * MIB


def test_free_memory_is_what_is_not_reserved() -> None:
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    tensor = torch.zeros(1000 * MIB, dtype=torch.uint8, device="cuda")
    assert total == V100_BYTES
    assert free - torch.cuda.mem_get_info()[0] == 1000 * MIB
    del tensor


def test_a_full_gpu_raises_torch_s_own_error_in_cuda_s_words() -> None:
    before = held()
    with pytest.raises(torch.OutOfMemoryError, match=r"^CUDA out of memory\. Tried to allocate 64\.00 GiB\. GPU 0 has"):
        torch.empty(64 << 30, dtype=torch.uint8, device="cuda")
    assert issubclass(torch.cuda.OutOfMemoryError, RuntimeError)
    assert held() == before
    stats = torch.cuda.memory_stats()
    assert stats["num_ooms"] >= 1
    assert stats["allocation.all.current"] >= 0


def test_after_running_out_of_memory_a_smaller_batch_works() -> None:
    with torch.device("cuda"):
        model = nn.Sequential(nn.Flatten(), nn.Linear(1 << 16, 1 << 12), nn.ReLU(), nn.Linear(1 << 12, 10))
    batch, worked = 1 << 20, 0
    while not worked:
        try:
            inputs = torch.randn(batch, 1 << 16, device="cuda")
            model(inputs).sum().backward()
            worked = batch
        except torch.cuda.OutOfMemoryError:
            batch //= 2
    assert 1 << 10 < worked < 1 << 18


def test_running_out_of_memory_in_the_backward_pass_can_be_caught() -> None:
    with torch.device("cuda"):
        model = nn.Sequential(*(nn.Linear(1 << 12, 1 << 12) for _ in range(8)))
    output = model(torch.randn(8, 1 << 12, device="cuda")).sum()
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 80 * MIB) / V100_BYTES)
    with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate 64\.00 MiB"):
        output.backward()
    assert model[7].weight.grad is not None
    assert model[0].weight.grad is None


def test_what_one_frees_another_can_have() -> None:
    size = int(V100_BYTES * 0.6)
    for _ in range(3):
        tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
        del tensor
    torch.empty(int(V100_BYTES * 0.9), dtype=torch.uint8, device="cuda")


def test_a_process_may_take_a_fraction_of_a_gpu() -> None:
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.25)
    assert torch.cuda.get_per_process_memory_fraction() == pytest.approx(0.25)
    torch.empty(V100_BYTES // 5, dtype=torch.uint8, device="cuda")
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(V100_BYTES // 3, dtype=torch.uint8, device="cuda")
    with pytest.raises(ValueError, match=r"Invalid fraction value: 1\.5"):
        torch.cuda.set_per_process_memory_fraction(1.5)


def test_each_gpu_has_memory_of_its_own() -> None:
    before = torch.cuda.memory_allocated(0), torch.cuda.memory_allocated(1)
    tensor = torch.zeros(MIB, device="cuda:1")
    assert torch.cuda.memory_allocated(0) == before[0]
    assert torch.cuda.memory_allocated(torch.device("cuda:1")) == before[1] + 4 * MIB
    del tensor


def test_training_holds_parameters_gradients_and_the_optimizer_s_state() -> None:
    before = held()
    model = nn.Linear(1024, 1024, bias=False, device="cuda")
    optimizer = torch.optim.Adam(model.parameters())
    assert held() - before == 4 * MIB
    model(torch.zeros(1, 1024, device="cuda")).sum().backward()
    assert held() - before == 8 * MIB
    optimizer.step()
    assert 16 * MIB <= held() - before <= 16 * MIB + 1024
    optimizer.zero_grad()
    assert 12 * MIB <= held() - before <= 12 * MIB + 1024
    del model, optimizer
    gc.collect()
    assert held() == before


def test_nothing_is_left_of_a_training_loop() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 4)
    ).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    levels = []
    for _ in range(5):
        loss = model(torch.randn(2, 3, 16, 16, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        levels.append(held())
    assert len(set(levels[1:])) == 1, "no reference cycles, so nothing waits for the garbage collector"


def test_what_is_learned_of_shapes_does_not_fill_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "MOST_EFFECTS", 50)
    source = torch.arange(300, device="cuda")
    for length in range(1, 300):
        assert (source[:length] + 1).sum().item() == length * (length + 1) // 2
        assert len(dispatch._effects) <= 50


def test_the_summary_can_be_printed() -> None:
    assert "Allocated memory" in torch.cuda.memory_summary()
