"""Ways of writing CUDA programs that come and go: old AMP, Variable, typed tensors, TorchScript, torch.func, seeds."""

import copy
import io
import pickle
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Variable
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

cuda = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 4))


def mixed_precision_of_old() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        scaler, autocast = torch.cuda.amp.GradScaler(), torch.cuda.amp.autocast()
    model = network().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with autocast:
        assert torch.is_autocast_enabled()
        assert torch.get_autocast_gpu_dtype() == torch.float16
        output = model(torch.randn(128, 8).cuda())
        loss = output.float().square().mean()
    assert output.dtype == torch.float16
    assert not torch.is_autocast_enabled()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()

    class Doubled(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx, gradient):
            return gradient * 2

    x = torch.ones(3, device=cuda, dtype=torch.float16, requires_grad=True)
    with torch.autocast("cuda"):
        assert Doubled.apply(x).dtype == torch.float32


def typed_tensors() -> None:
    tensor_type = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
    x = Variable(tensor_type(4, 8).fill_(1.0), requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad.data.cpu().numpy().sum() == 64
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.set_default_tensor_type("torch.cuda.FloatTensor")
        assert torch.zeros(2).is_cuda
        torch.set_default_tensor_type("torch.FloatTensor")
    assert not torch.zeros(2).is_cuda


def numbers_to_python() -> None:
    x = torch.arange(4, device=cuda)
    assert [int(i) for i in x] == [0, 1, 2, 3]
    assert 3 in x
    assert ["a", "b", "c"][x[1]] == "b"
    assert list(range(x[2])) == [0, 1]
    assert np.asarray(x.cpu()).tolist() == x.tolist() == x.detach().cpu().numpy().tolist()
    assert f"{x.float().mean():.2f}" == "1.50"
    assert x[torch.tensor([0, 2])].tolist() == x[[0, 2]].tolist() == [0, 2]
    loss, count = torch.tensor(1.0, device=cuda), 0
    while loss > 1e-3:
        loss, count = loss * 0.5, count + 1
    assert count == 10


def copies_and_places() -> None:
    x = torch.ones(3, device="cuda:1")
    assert pickle.loads(pickle.dumps(x)).device == copy.copy(x).device == copy.deepcopy([x])[0].device == x.device
    assert next(network().to(x).parameters()).device == x.device
    assert torch.normal(0.0, 1.0, (2,), device="cuda:1").device == x.device
    with torch.device("meta"):
        model = network()
    assert next(model.to_empty(device="cuda").parameters()).is_cuda
    lazy = nn.Sequential(nn.LazyConv2d(8, 3), nn.Flatten(), nn.LazyLinear(10)).cuda()
    lazy(torch.rand(2, 3, 8, 8, device=cuda)).sum().backward()
    adam = torch.optim.Adam((host := network()).parameters())
    host(torch.ones(2, 8)).sum().backward()
    adam.step()
    state = adam.state_dict()
    moved = torch.optim.Adam(host.cuda().parameters())
    moved.load_state_dict(state)
    assert moved.state[host[0].weight]["exp_avg"].is_cuda
    parameter = nn.Parameter(torch.ones(2))
    parameter.data = parameter.data.cuda()
    assert parameter.is_cuda


def compiled_and_scripted() -> None:
    model, x = network().cuda(), torch.randn(5, 8, device=cuda)
    assert torch.compile(model, mode="max-autotune")(x).shape == (5, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.jit.trace(model, x)(torch.randn(3, 8, device=cuda)).shape == (3, 4)
        torch.jit.script(model)(x).sum().backward()
    assert model[0].weight.grad is not None
    assert torch.fx.symbolic_trace(model)(x).is_cuda


def functional() -> None:
    models = [network().cuda() for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")
    x = torch.randn(5, 8, device=cuda)
    assert vmap(lambda p, b: functional_call(base, (p, b), (x,)))(parameters, buffers).shape == (3, 5, 4)

    def loss(weights, row, label):
        return F.cross_entropy(functional_call(models[0], weights, (row[None],)), label[None])

    weights = {name: value.detach() for name, value in models[0].named_parameters()}
    labels = torch.randint(0, 4, (5,), device=cuda)
    assert vmap(grad(loss), (None, 0, 0))(weights, x, labels)["0.weight"].shape == (5, 64, 8)


def attention_backends() -> None:
    q = torch.randn(2, 4, 16, 32, device=cuda, dtype=torch.float16, requires_grad=True)
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]):
        F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    assert F.scaled_dot_product_attention(q, q[:, :2], q[:, :2], enable_gqa=True).shape == q.shape
    mask = torch.ones(16, 16, dtype=torch.bool, device=cuda).tril()
    assert F.scaled_dot_product_attention(q, q, q, attn_mask=mask, dropout_p=0.1).dtype == torch.float16


def knobs() -> None:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = False, True
    torch.manual_seed(3)
    torch.cuda.manual_seed_all(3)
    first = torch.randint(0, 1000, (5,), device=cuda).tolist()
    torch.cuda.manual_seed_all(3)
    assert torch.randint(0, 1000, (5,), device=cuda).tolist() == first
    generator = torch.Generator(device="cuda").manual_seed(1)
    assert sorted(torch.randperm(9, generator=generator, device=cuda).tolist()) == list(range(9))
    assert torch.cuda.get_device_capability() >= (3, 0)
    assert "allocated" in torch.cuda.memory_summary().lower()
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total == torch.cuda.get_device_properties(0).total_memory
    buffer = io.BytesIO()
    torch.save(network().cuda().state_dict(), buffer, _use_new_zipfile_serialization=False)
    buffer.seek(0)
    assert next(iter(torch.load(buffer).values())).is_cuda


if __name__ == "__main__":
    for part in (
        mixed_precision_of_old, typed_tensors, numbers_to_python, copies_and_places, compiled_and_scripted, functional,
        attention_backends, knobs,
    ):  # fmt: skip
        part()
        print(part.__name__, "ok", flush=True)
