"""Where tensors are under emulation: two GPUs and the host."""

# mypy: allow-untyped-calls

import copy
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import nn

ONE = torch.device("cuda", 1)


@pytest.fixture(autouse=True)
def _on_gpu_0() -> Iterator[None]:
    yield
    assert torch.cuda.current_device() == 0
    assert torch.get_default_device() == torch.device("cpu")


def place(tensor: torch.Tensor) -> str:
    return str(tensor.device)


@pytest.mark.parametrize("device", ["cuda:1", ONE, 1])
def test_every_way_to_name_a_gpu(device: str | int | torch.device) -> None:
    assert place(torch.zeros(2, device=device)) == "cuda:1"
    assert place(torch.zeros(2).to(device)) == "cuda:1"
    assert place(torch.zeros(2).cuda(device)) == "cuda:1"
    assert place(next(nn.Linear(2, 2).to(device).parameters())) == "cuda:1"
    assert place(nn.Linear(2, 2, device=device).weight) == "cuda:1"
    assert torch.cuda.get_device_name(device) == torch.cuda.get_device_name(0)


def test_every_way_to_move() -> None:
    host = torch.arange(4)
    there = host.cuda()
    assert place(there) == "cuda:0"
    assert place(there.to(ONE)) == place(there.cuda(1)) == place(there.to(device="cuda:1")) == "cuda:1"
    assert place(there.to("cuda:1", torch.float64)) == "cuda:1"
    assert there.to("cuda:1", torch.float64).dtype is torch.float64
    assert place(host.to(there)) == "cuda:0"
    assert place(host.to(there.to(ONE))) == "cuda:1"
    assert place(there.to("cpu")) == place(there.cpu()) == "cpu"
    assert there.to(ONE).to("cpu").tolist() == [0, 1, 2, 3]
    assert place(host.to("cuda:1", non_blocking=True, copy=True)) == "cuda:1"
    assert there.to("cuda") is there
    assert there.cuda() is there
    assert there.to("cuda:0", copy=True) is not there
    assert there.to(torch.int64) is there
    assert place(there.type(torch.float16)) == "cuda:0"
    assert there.type() == "torch.cuda.LongTensor"


def test_a_tensor_knows_that_it_is_on_a_gpu() -> None:
    tensor = torch.zeros(2, device="cuda:1")
    assert tensor.is_cuda
    assert not torch.zeros(2).is_cuda
    assert (tensor.get_device(), tensor.device.type, tensor.device.index) == (1, "cuda", 1)
    assert tensor.device == ONE
    assert not tensor.is_cpu


@pytest.mark.parametrize(
    "make",
    [
        torch.zeros_like, torch.ones_like, torch.empty_like, torch.rand_like, torch.randn_like,
        lambda t: torch.full_like(t, 2), lambda t: torch.randint_like(t, 3),
        lambda t: t.new_zeros(3), lambda t: t.new_ones(3), lambda t: t.new_empty(3), lambda t: t.new_full((3,), 1.0),
        lambda t: t.new_tensor([1.0]), torch.clone, lambda t: t + 1, torch.detach, lambda t: t[0],
        lambda t: t.float(), lambda t: torch.cat([t, t]), lambda t: torch.stack([t]), lambda t: t.expand(2, 2),
        lambda t: torch.zeros(3, device=t.device), lambda t: torch.arange(3, device=t.device),
        lambda t: torch.tensor([1, 2], device=t.device), lambda t: torch.as_tensor([1, 2], device=t.device),
        lambda t: torch.randperm(4, device=t.device), lambda t: torch.eye(3, device=t.device),
        lambda t: torch.randint(0, 4, (3,), device=t.device), lambda t: torch.randn(3, device=t.device),
        lambda t: torch.empty(3, device=t.device).normal_(), lambda t: torch.linspace(0, 1, 3, device=t.device),
        lambda t: torch.from_numpy(np.zeros(2)).to(t.device), lambda t: (t > 0).nonzero(),
        lambda t: t.sort().values, nn.functional.dropout, torch.bernoulli,
        lambda t: torch.multinomial(t.abs() + 1, 1),
    ],
)  # fmt: skip
def test_what_comes_from_a_tensor_stays_on_its_gpu(make: Callable[[torch.Tensor], torch.Tensor]) -> None:
    before = torch.cuda.memory_allocated(0)
    made = make(torch.ones(2, device="cuda:1"))
    assert place(made) == "cuda:1"
    assert torch.cuda.memory_allocated(0) == before


def test_the_current_gpu_is_where_things_go_by_default() -> None:
    with torch.cuda.device(1):
        assert torch.cuda.current_device() == 1
        assert place(torch.zeros(1, device="cuda")) == place(torch.zeros(1).cuda()) == "cuda:1"
        with torch.cuda.device(0):
            assert place(torch.zeros(1).to("cuda")) == "cuda:0"
        with torch.cuda.device_of(torch.zeros(1, device="cuda:0")):
            assert torch.cuda.current_device() == 0
    torch.cuda.set_device(1)
    assert place(torch.zeros(1, device="cuda")) == "cuda:1"
    torch.cuda.set_device("cuda:0")


def test_a_default_device_holds_for_every_factory() -> None:
    with torch.device("cuda", 1):
        made = [torch.zeros(2), torch.randn(2), torch.tensor([1]), nn.Linear(2, 2).weight, torch.arange(3)]
        assert {place(tensor) for tensor in made} == {"cuda:1"}
        assert place(torch.zeros(2, device="cpu")) == "cpu"
        assert place(torch.zeros(2, device="cuda:0")) == "cuda:0"
    assert place(torch.zeros(2)) == "cpu"
    torch.set_default_device("cuda:1")
    try:
        assert place(torch.zeros(2)) == place(torch.ones(1) * 2) == "cuda:1"
        assert torch.get_default_device() == ONE
    finally:
        torch.set_default_device(None)


def test_tensors_that_lie_apart_are_refused_in_torch_s_words() -> None:
    here, there, host = torch.ones(2, 2, device="cuda:0"), torch.ones(2, 2, device="cuda:1"), torch.ones(2, 2)
    wording = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and"
    with pytest.raises(RuntimeError, match=f"{wording} cuda:1!"):
        here + there
    with pytest.raises(RuntimeError, match=f"{wording} cpu!"):
        here @ host
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        host * here
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        nn.Linear(2, 2)(here)
    assert place(here * torch.tensor(3.0)) == "cuda:0", "a number of the host may join in"
    assert place(torch.tensor(3.0) * here) == "cuda:0"


def test_an_index_of_the_host_may_be_used_on_a_gpu() -> None:
    tensor = torch.arange(5, device="cuda")
    assert tensor[torch.tensor([3, 1])].tolist() == [3, 1]
    tensor[torch.tensor([0])] = 9
    assert tensor.tolist() == [9, 1, 2, 3, 4]


def test_there_is_no_third_gpu() -> None:
    for attempt in (
        lambda: torch.zeros(1, device="cuda:2"),
        lambda: torch.zeros(1).to("cuda:7"),
        lambda: torch.zeros(1).cuda(2),
        lambda: torch.cuda.set_device(2),
        lambda: torch.cuda.synchronize(2),
    ):
        with pytest.raises(RuntimeError, match="CUDA error: invalid device ordinal"):
            attempt()


def test_copying_into_a_tensor_of_another_gpu() -> None:
    here, there = torch.zeros(3, dtype=torch.int64, device="cuda:0"), torch.arange(3, device="cuda:1")
    here.copy_(there)
    assert (here.tolist(), place(here)) == ([0, 1, 2], "cuda:0")
    host = torch.zeros(3, dtype=torch.int64)
    host.copy_(there)
    assert host.tolist() == [0, 1, 2]
    there.copy_(torch.tensor([7, 8, 9]))
    assert there.tolist() == [7, 8, 9]
    there[1:].copy_(here[:2])
    assert there.tolist() == [7, 0, 1]


def test_gradients_find_their_way_back_over_two_gpus() -> None:
    first, second = nn.Linear(4, 4).to("cuda:0"), nn.Linear(4, 4).to("cuda:1")
    source = torch.zeros(2, 4, requires_grad=True)
    second(first(source.to("cuda:0")).relu().to("cuda:1")).sum().to("cpu").backward()
    for layer, gpu in ((first, "cuda:0"), (second, "cuda:1")):
        for parameter in layer.parameters():
            assert parameter.grad is not None
            assert place(parameter.grad) == gpu
    assert source.grad is not None
    assert place(source.grad) == "cpu"
    torch.optim.Adam([*first.parameters(), *second.parameters()]).step()


@pytest.mark.parametrize("gpu", ["cuda:1", "both"])
@pytest.mark.parametrize("optimizer_class", [torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop])
def test_optimizers_and_clipping_work_wherever_the_parameters_are(
    gpu: str, optimizer_class: type[torch.optim.Optimizer]
) -> None:
    first, second = nn.Linear(4, 4).to("cuda:0" if gpu == "both" else gpu), nn.Linear(4, 4).to("cuda:1")
    parameters = [*first.parameters(), *second.parameters()]
    optimizer = optimizer_class(parameters, lr=0.1)  # type: ignore[call-arg]
    for _ in range(2):
        second(first(torch.ones(2, 4, device=first.weight.device)).to("cuda:1")).sum().backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        nn.utils.clip_grad_value_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
    for held in optimizer.state.values():
        assert {place(value) for name, value in held.items() if name != "step"} <= {"cuda:0", "cuda:1"}


def test_a_module_is_moved_with_the_same_parameters() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = [id(parameter) for parameter in model.parameters()]
    model.cuda(1)
    assert [id(parameter) for parameter in model.parameters()] == before, "an optimizer made before still has them"
    assert {place(tensor) for tensor in model.state_dict().values()} == {"cuda:1"}
    assert {place(p) for p in optimizer.param_groups[0]["params"]} == {"cuda:1"}
    model.half().to("cuda:0")
    assert {(place(p), p.dtype) for p in model.parameters()} == {("cuda:0", torch.float16)}
    model.cpu()
    assert {place(p) for p in model.parameters()} == {"cpu"}


def test_lazy_modules_are_made_where_they_were_moved_to() -> None:
    model = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(3))
    model.cuda(1)
    assert model(torch.zeros(2, 3, 8, 8, device="cuda:1")).shape == (2, 3)
    assert {place(tensor) for tensor in model.state_dict().values()} == {"cuda:1"}
    assert all(type(parameter) is type(nn.Linear(1, 1).cuda().weight) for parameter in model.parameters())
    model(torch.zeros(2, 3, 8, 8, device="cuda:1")).sum().backward()
    torch.optim.Adam(model.parameters()).step()


def test_the_default_type_holds_for_new_tensors() -> None:
    assert torch.zeros(2, device="cuda").dtype is torch.float32
    torch.set_default_dtype(torch.float16)
    try:
        assert torch.zeros(2, device="cuda").dtype is torch.float16
        assert (torch.arange(3, device="cuda") / 2).dtype is torch.float16
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.zeros(2, device="cuda").dtype is torch.float32


def test_generators_live_on_gpus_and_repeat_themselves() -> None:
    generator = torch.Generator(device="cuda").manual_seed(5)
    assert generator.device == torch.device("cuda", 0)
    first = torch.randint(0, 100, (8,), device="cuda", generator=generator).tolist()
    generator.manual_seed(5)
    assert torch.randint(0, 100, (8,), device="cuda", generator=generator).tolist() == first
    assert place(torch.randn(3, device="cuda", generator=generator)) == "cuda:0"
    assert sorted(torch.randperm(5, generator=generator, device="cuda").tolist()) == [0, 1, 2, 3, 4]
    assert isinstance(torch.default_generator, torch.Generator)
    assert torch.Generator().manual_seed(3).initial_seed() == 3
    assert torch.randperm(4, generator=torch.Generator().manual_seed(3)).tolist()


def test_seeding_makes_draws_repeat() -> None:
    torch.manual_seed(1)
    first = torch.randint(0, 1000, (5,), device="cuda").tolist()
    torch.manual_seed(1)
    assert torch.randint(0, 1000, (5,), device="cuda").tolist() == first
    torch.cuda.manual_seed_all(2)
    state = torch.cuda.get_rng_state()
    second = torch.randperm(9, device="cuda").tolist()
    torch.cuda.set_rng_state(state)
    assert torch.randperm(9, device="cuda").tolist() == second
    assert torch.cuda.initial_seed() == 2


def test_drawing_on_a_gpu_leaves_the_host_s_numbers_alone() -> None:
    torch.manual_seed(4)
    expected = torch.rand(3).tolist()
    torch.manual_seed(4)
    torch.randn(10, device="cuda")
    torch.randint(0, 5, (10,), device="cuda")
    torch.nn.functional.dropout(torch.ones(10, device="cuda"))
    assert torch.rand(3).tolist() == expected


def test_deepcopy_and_state_dicts_stay_where_they_are() -> None:
    model = nn.Linear(2, 2).cuda(1)
    twin = copy.deepcopy(model)
    assert place(twin.weight) == "cuda:1"
    assert twin.weight is not model.weight
    twin.load_state_dict(nn.Linear(2, 2).state_dict())
    assert place(twin.weight) == "cuda:1"
    assert twin.weight.requires_grad


def test_modules_still_move_to_the_shape_only_device() -> None:
    layer = torch.nn.Linear(2, 2).to("meta")
    assert layer.weight.device.type == "meta"
    assert torch.nn.Linear(2, 2).cuda().to("meta").weight.shape == (2, 2)
