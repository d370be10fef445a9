"""Mixed precision under emulation follows the rules that torch documents for CUDA."""

# mypy: allow-untyped-calls, allow-untyped-decorators

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

HALF, FULL = torch.float16, torch.float32


def full(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, device="cuda")


def half(*shape: int) -> torch.Tensor:
    return full(*shape).half()


LOWER: list[Callable[[], torch.Tensor]] = [
    lambda: full(2, 2) @ full(2, 2),
    lambda: torch.mm(full(2, 2), full(2, 2)),
    lambda: torch.bmm(full(1, 2, 2), full(1, 2, 2)),
    lambda: torch.addmm(full(2), full(2, 2), full(2, 2)),
    lambda: torch.baddbmm(full(1, 2, 2), full(1, 2, 2), full(1, 2, 2)),
    lambda: F.linear(full(2, 2), full(2, 2), full(2)),
    lambda: F.conv1d(full(1, 1, 4), full(1, 1, 2)),
    lambda: F.conv2d(full(1, 1, 4, 4), full(1, 1, 2, 2)),
    lambda: F.conv3d(full(1, 1, 4, 4, 4), full(1, 1, 2, 2, 2)),
    lambda: F.conv_transpose2d(full(1, 1, 4, 4), full(1, 1, 2, 2)),
    lambda: torch.einsum("ij,jk->ik", full(2, 2), full(2, 2)),
    lambda: F.scaled_dot_product_attention(full(1, 1, 4, 8), full(1, 1, 4, 8), full(1, 1, 4, 8)),
    lambda: nn.GRUCell(2, 2).cuda()(full(1, 2)),
    lambda: nn.MultiheadAttention(4, 2, batch_first=True).cuda()(full(1, 3, 4), full(1, 3, 4), full(1, 3, 4))[0],
]

UPPER: list[Callable[[], torch.Tensor]] = [
    lambda: half(2, 2).softmax(-1),
    lambda: F.log_softmax(half(2, 2), -1),
    lambda: F.layer_norm(half(2, 2), (2,)),
    lambda: F.group_norm(half(2, 2), 1),
    lambda: F.cross_entropy(half(2, 2), torch.zeros(2, dtype=torch.int64, device="cuda")),
    lambda: F.nll_loss(half(2, 2), torch.zeros(2, dtype=torch.int64, device="cuda")),
    lambda: F.mse_loss(half(2), half(2)),
    lambda: F.l1_loss(half(2), half(2)),
    lambda: F.smooth_l1_loss(half(2), half(2)),
    lambda: F.binary_cross_entropy_with_logits(half(2), half(2)),
    lambda: F.kl_div(half(2), half(2), reduction="sum"),
    lambda: half(2).exp(),
    lambda: half(2).log(),
    lambda: half(2).pow(2),
    lambda: half(2).rsqrt(),
    lambda: half(2).sum(),
    lambda: half(2, 2).sum(1),
    lambda: half(2).cumsum(0),
    lambda: half(2).prod(),
    lambda: half(2).norm(),
    lambda: F.softplus(half(2)),
    lambda: torch.cdist(half(1, 2, 2), half(1, 2, 2)),
    lambda: half(2).logsumexp(0),
    lambda: F.interpolate(half(1, 1, 2, 2), scale_factor=2, mode="bilinear"),
    lambda: F.rms_norm(half(2, 2), (2,)),
    lambda: F.normalize(half(2, 2)),
]

KEPT: list[Callable[[], torch.Tensor]] = [
    lambda: half(2).relu(),
    lambda: F.gelu(half(2)),
    lambda: F.max_pool2d(half(1, 1, 4, 4), 2),
    lambda: F.batch_norm(half(2, 2), full(2), full(2), training=True),
    lambda: half(2) * 2,
    lambda: F.dropout(half(2)),
]


def of_type(made: Callable[[], torch.Tensor], **options: Any) -> torch.dtype:
    with torch.autocast("cuda", **options):
        return made().dtype


@pytest.mark.parametrize("number", range(len(LOWER)))
def test_products_run_in_the_lower_precision(number: int) -> None:
    assert of_type(LOWER[number]) is HALF
    assert of_type(LOWER[number], dtype=torch.bfloat16) is torch.bfloat16
    assert of_type(LOWER[number], enabled=False) is FULL


@pytest.mark.parametrize("number", range(len(UPPER)))
def test_what_needs_range_runs_in_full_precision(number: int) -> None:
    assert of_type(UPPER[number]) is FULL


@pytest.mark.parametrize("number", range(len(KEPT)))
def test_everything_else_keeps_its_type(number: int) -> None:
    assert of_type(KEPT[number]) is HALF


def test_mixed_types_become_the_wider_one() -> None:
    with torch.autocast("cuda"):
        assert (half(2) + full(2)).dtype is FULL
        assert torch.cat([half(2), full(2)]).dtype is FULL
        assert torch.addcmul(full(2), half(2), half(2)).dtype is FULL
        assert torch.dot(half(2), full(2)).dtype is FULL
        assert torch.dot(half(2), half(2)).dtype is HALF
        assert (full(2, 2).double() @ full(2, 2).double()).dtype is torch.float64


def test_autocast_can_be_switched_off_inside() -> None:
    with torch.autocast("cuda"):
        assert torch.is_autocast_enabled("cuda")
        assert torch.get_autocast_dtype("cuda") is HALF
        product = full(2, 2) @ full(2, 2)
        with torch.autocast("cuda", enabled=False):
            assert not torch.is_autocast_enabled("cuda")
            assert (product.float() @ full(2, 2)).dtype is FULL
        assert (full(2, 2) @ full(2, 2)).dtype is HALF
    assert not torch.is_autocast_enabled("cuda")
    assert (full(2, 2) @ full(2, 2)).dtype is FULL


def test_autocast_of_the_host_leaves_the_gpu_alone() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (full(2, 2) @ full(2, 2)).dtype is FULL
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16


def test_gradients_have_the_type_of_their_parameters() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 36, 2)).cuda()
    with torch.autocast("cuda"):
        output = model(torch.ones(2, 3, 8, 8, device="cuda"))
        assert output.dtype is HALF
        loss = F.cross_entropy(output, torch.zeros(2, dtype=torch.int64, device="cuda"))
    assert loss.dtype is FULL
    loss.backward()
    assert {parameter.grad.dtype for parameter in model.parameters() if parameter.grad is not None} == {FULL}


class Doubled(torch.autograd.Function):
    """Notes the types and the state of autocast that its passes see."""

    seen: ClassVar[list[Any]] = []

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        Doubled.seen.append((value.dtype, torch.is_autocast_enabled("cuda")))
        return value * 2

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        Doubled.seen.append((gradient.dtype, torch.is_autocast_enabled("cuda")))
        return gradient * 2


def test_custom_functions_are_told() -> None:
    source = half(2).requires_grad_()
    with torch.autocast("cuda"):
        result = Doubled.apply(source)
    result.sum().backward()
    assert Doubled.seen == [(FULL, False), (FULL, False)]
    assert source.grad is not None
    assert source.grad.dtype is HALF


@pytest.mark.parametrize("scaler_class", [torch.amp.GradScaler, torch.cuda.amp.GradScaler])
def test_a_scaled_step_is_taken(scaler_class: Any) -> None:
    model = nn.Linear(128, 128).cuda()  # without numbers: those of small models are real, and may overflow
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = []
    optimizer.register_step_post_hook(lambda *_: steps.append(1))
    with pytest.warns(FutureWarning) if scaler_class is torch.cuda.amp.GradScaler else _nothing():
        scaler = scaler_class()
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(full(2, 128)).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    assert len(steps) == 3
    assert scaler.get_scale() == 65536.0
    assert scaler.is_enabled()


class _nothing:  # noqa: N801
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


def test_the_scale_grows_after_its_interval() -> None:
    scaler = torch.amp.GradScaler("cuda", init_scale=8.0, growth_interval=2)
    model = nn.Linear(2, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        scaler.scale(model(full(1, 2)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 32.0


def test_what_is_unsafe_is_refused() -> None:
    with torch.autocast("cuda"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        F.binary_cross_entropy(full(2).sigmoid(), full(2))


def test_a_type_that_is_asked_for_wins() -> None:
    with torch.autocast("cuda"):
        assert half(2, 2).sum(dtype=HALF).dtype is HALF
        assert half(2, 2).softmax(0, dtype=torch.float64).dtype is torch.float64
        assert torch.arange(3, device="cuda").sum().dtype is torch.int64


def test_a_softmax_of_half_precision_makes_no_copy_in_full_precision() -> None:
    logits = torch.zeros(1024, 1024, dtype=HALF, device="cuda", requires_grad=True)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    with torch.autocast("cuda"):
        result = logits.log_softmax(1)
    assert result.dtype is FULL
    assert torch.cuda.max_memory_allocated() - before == 4 << 20, "what the softmax returns"
    result.sum().backward()
    assert logits.grad is not None
    assert logits.grad.dtype is HALF


def test_half_the_precision_is_half_the_memory() -> None:
    model = nn.Linear(1024, 1024, bias=False).cuda()
    source = torch.ones(1024, 1024, device="cuda")
    sizes = []
    for enabled in (False, True):
        with torch.autocast("cuda", enabled=enabled):
            output = model(source)
        sizes.append(output.untyped_storage().nbytes())
    assert sizes == [4 << 20, 2 << 20]
