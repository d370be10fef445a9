"""What training scripts do besides training: averaged weights, odd optimizers, checkpoints, reparametrised layers."""

import copy
import io
import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.nn.utils import clip_grad_norm_, parameters_to_vector, parametrizations, prune, vector_to_parameters
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
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


def averaged_weights() -> None:
    """Moving averages by hand and by torch."""
    model = network().to(cuda)
    mine = copy.deepcopy(model).requires_grad_(False)
    assert all(
        a is not b and a.data_ptr() != b.data_ptr() for a, b in zip(model.parameters(), mine.parameters(), strict=True)
    )
    swa, ema = AveragedModel(model), AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    schedule = SWALR(optimizer, swa_lr=0.05)
    for _ in range(3):
        step(model, optimizer)
        with torch.no_grad():
            for average, parameter in zip(mine.parameters(), model.parameters(), strict=True):
                average.mul_(0.9).add_(parameter, alpha=0.1)
        swa.update_parameters(model)
        ema.update_parameters(model)
        schedule.step()
    loader = DataLoader(TensorDataset(torch.randn(32, 8)), batch_size=16)
    update_bn(loader, swa, device=cuda)
    assert swa.n_averaged.item() == 3
    assert ema.module(torch.randn(2, 8, device=cuda)).is_cuda


def optimizers() -> None:
    """Every optimizer of torch, with the implementations that it offers on CUDA."""
    for kind in (
        optim.SGD, optim.Adam, optim.AdamW, optim.Adamax, optim.NAdam, optim.RAdam, optim.Adagrad, optim.Adadelta,
        optim.RMSprop, optim.Rprop, optim.ASGD,
    ):  # fmt: skip
        for foreach in (True, False):
            model = network().to(cuda)
            optimizer = kind(model.parameters(), lr=0.01, foreach=foreach)
            step(model, optimizer)
            step(model, optimizer)
    for kind in (optim.SGD, optim.Adam, optim.AdamW, optim.Adagrad):
        model = network().to(cuda)
        optimizer = kind(model.parameters(), lr=0.01, fused=True)
        step(model, optimizer)
        assert step(model, optimizer) > 0
    model = network().to(cuda)
    scaler = torch.amp.GradScaler()
    fused = optim.AdamW(model.parameters(), fused=True, weight_decay=0.1, amsgrad=True)
    with torch.autocast("cuda"):
        loss = model(torch.randn(16, 8, device=cuda)).square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(fused)
    norm = clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
    scaler.step(fused)
    scaler.update()
    assert norm.is_cuda
    assert scaler.get_scale() == 65536.0
    quasi_newton(network().to(cuda).eval())


def quasi_newton(model: nn.Module) -> None:
    """LBFGS calls its closure several times and decides by what it returns."""
    x, y = torch.randn(16, 8, device=cuda), torch.randint(0, 4, (16,), device=cuda)
    for search in (None, "strong_wolfe"):
        optimizer = optim.LBFGS(model.parameters(), max_iter=4, line_search_fn=search)

        def closure(optimizer: Any = optimizer) -> torch.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        optimizer.step(closure)


def moved_late() -> None:
    """The optimizer is made before the model moves; weights that are shared stay shared."""
    model = nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 8), nn.Linear(8, 10, bias=False))
    model[2].weight = model[0].weight
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    before = [id(parameter) for parameter in model.parameters()]
    model.cuda()
    assert model[2].weight is model[0].weight
    assert [id(parameter) for parameter in model.parameters()] == before
    model(torch.arange(4, device=cuda)).sum().backward()
    optimizer.step()
    held = sum(parameter.numel() * 4 for parameter in model.parameters())
    assert held == (10 * 8 + 8 * 8 + 8) * 4
    model.half()
    assert model(torch.arange(4, device=cuda)).dtype == torch.float16
    model.cpu().float()
    assert model(torch.arange(4)).device.type == "cpu"
    assert model[2].weight is model[0].weight


def saved_and_loaded() -> None:
    """Files go where they are told to go."""
    model = network().to("cuda:1")
    buffer = io.BytesIO()
    torch.save({"model": model.state_dict(), "step": 3, "rng": torch.cuda.get_rng_state()}, buffer)
    for place, expected in (
        ("cuda", 0),
        ("cuda:1", 1),
        (torch.device("cuda:0"), 0),
        ({"cuda:1": "cuda:0"}, 0),
        (None, 1),
    ):
        buffer.seek(0)
        loaded = torch.load(buffer, map_location=place)
        assert loaded["step"] == 3
        assert {value.device.index for value in loaded["model"].values()} == {expected}
        network().to(f"cuda:{expected}").load_state_dict(loaded["model"])
    buffer.seek(0)
    on_host = torch.load(buffer, map_location=lambda storage, location: storage)
    assert {value.device.type for value in on_host["model"].values()} == {"cpu"}
    network().load_state_dict(on_host["model"])
    whole = network().cuda()
    whole.load_state_dict(on_host["model"], assign=True)
    assert next(whole.parameters()).device.type == "cpu"


def recomputed() -> None:
    """Activation checkpointing, with and without reentry, saves memory."""
    blocks = nn.Sequential(*[nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(6)]).to(
        cuda
    )

    def peak(forward: Any) -> int:
        blocks.zero_grad(set_to_none=True)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        forward(torch.randn(512, 64, device=cuda, requires_grad=True)).sum().backward()
        return torch.cuda.max_memory_allocated() - before

    def one_by_one(x: torch.Tensor, use_reentrant: bool) -> torch.Tensor:
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=use_reentrant)
        return x

    everything = peak(blocks)
    assert peak(lambda x: one_by_one(x, True)) < 0.7 * everything
    assert peak(lambda x: one_by_one(x, False)) < 0.7 * everything
    assert peak(lambda x: checkpoint_sequential(blocks, 3, x, use_reentrant=False)) < 0.9 * everything


def reparametrised() -> None:
    """Weights that are computed from others, and vectors of all parameters."""
    layer = parametrizations.weight_norm(nn.Linear(8, 8)).to(cuda)
    spectral = parametrizations.spectral_norm(nn.Linear(8, 8).to(cuda))
    pruned = prune.l1_unstructured(nn.Linear(8, 8).to(cuda), "weight", amount=0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        older = nn.utils.weight_norm(nn.Linear(8, 8)).to(cuda)
        oldest = nn.utils.spectral_norm(nn.Linear(8, 8)).to(cuda)
    model = nn.Sequential(layer, spectral, pruned, older, oldest)
    model(torch.randn(4, 8, device=cuda)).sum().backward()
    vector = parameters_to_vector(model.parameters())
    assert vector.is_cuda
    assert vector.numel() == sum(parameter.numel() for parameter in model.parameters())
    vector_to_parameters(vector * 2, model.parameters())


def double_backward() -> None:
    """A penalty on gradients, hooks, and gradients asked for by name."""
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(cuda)
    seen: list[torch.Size] = []
    handle = model[0].register_forward_hook(lambda module, args, output: seen.append(output.shape))
    model[2].weight.register_hook(lambda gradient: gradient * 0.5)
    x = torch.randn(4, 8, device=cuda, requires_grad=True)
    (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    penalty = (gradient.flatten(1).norm(2, dim=1) - 1).pow(2).mean()
    penalty.backward()
    handle.remove()
    assert seen == [torch.Size([4, 16])]
    assert model[0].weight.grad is not None

    class Clipped(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x.clamp(min=0)

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return gradients[0].masked_fill(x < 0, 0)

    assert Clipped.apply(x).sum().backward() is None
    with torch.autograd.set_detect_anomaly(True):
        model(x).sum().backward()


def sparse() -> None:
    """Sparse gradients of an embedding are refused in one line, and the program may go on."""
    embedding = nn.Embedding(100, 8, sparse=True).to(cuda)
    try:
        embedding(torch.tensor([1, 2, 2], device=cuda)).sum().backward()
    except NotImplementedError as error:
        assert "emulated tensors are dense" in str(error)
    else:
        raise AssertionError("a sparse gradient was made")
    nn.Embedding(100, 8).to(cuda)(torch.tensor([1, 2, 2], device=cuda)).sum().backward()


if __name__ == "__main__":
    for part in (
        averaged_weights, optimizers, moved_late, saved_and_loaded, recomputed, reparametrised, double_backward, sparse,
    ):  # fmt: skip
        part()
        print(part.__name__, "ok", flush=True)
