"""What goes wrong on a GPU goes wrong here too, with the errors that programs know, and the program can go on."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def error_of(mistake: Callable[[], Any]) -> Exception:
    try:
        mistake()
    except Exception as error:  # the point of this program
        return error
    raise AssertionError("nothing went wrong")


def on_different_devices() -> None:
    model = nn.Linear(4, 2).cuda()
    found = [
        error_of(lambda: model(torch.randn(3, 4))),
        error_of(lambda: nn.Linear(4, 2)(torch.randn(3, 4, device="cuda"))),
        error_of(lambda: torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1")),
        error_of(
            lambda: nn.functional.cross_entropy(model(torch.randn(3, 4).cuda()), torch.zeros(3, dtype=torch.long))
        ),
    ]
    for error in found:
        assert isinstance(error, RuntimeError)
        assert "Expected all tensors to be on the same device" in str(error)


def shapes_and_types() -> None:
    x = torch.randn(3, 4, device="cuda")
    pictures = torch.randn(1, 3, 8, 8, device="cuda")
    assert "shapes cannot be multiplied" in str(error_of(lambda: x @ x))
    assert "same dtype" in str(error_of(lambda: x @ x.half().T))
    assert "should be the same" in str(error_of(lambda: nn.Conv2d(3, 4, 3).cuda()(pictures.half())))
    assert "to have 3 channels, but got 4" in str(
        error_of(lambda: nn.Conv2d(3, 4, 3).cuda()(pictures[:, [0, 0, 1, 2]]))
    )
    assert isinstance(error_of(x.numpy), TypeError)
    assert "host memory first" in str(error_of(x.numpy))
    assert "size of tensor a" in str(error_of(lambda: x + torch.ones(3, device="cuda")))
    assert "is invalid for input of size 12" in str(error_of(lambda: x.view(5)))
    assert "invalid device ordinal" in str(error_of(lambda: torch.ones(1, device="cuda:7")))
    assert "does not require grad" in str(error_of(lambda: x.sum().backward()))
    assert isinstance(error_of(lambda: x[5]), IndexError)
    assert "Long, Int" in str(error_of(lambda: nn.Embedding(4, 2).cuda()(torch.ones(1, device="cuda"))))


def out_of_memory() -> None:
    """A program finds the largest batch that fits by trying, in forward and backward passes."""
    model = nn.Sequential(*[nn.Conv2d(3 if not layer else 256, 256, 3, padding=1) for layer in range(4)]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch, failures = 4096, 0
    while True:
        try:
            optimizer.zero_grad(set_to_none=True)
            model(torch.empty(batch, 3, 128, 128, device="cuda")).mean().backward()
            optimizer.step()
            break
        except torch.cuda.OutOfMemoryError as error:
            assert "CUDA out of memory. Tried to allocate" in str(error)
            failures += 1
            batch //= 2
        torch.cuda.empty_cache()
    print(f"batch {batch} fits after {failures} failures")
    assert failures > 0
    assert torch.cuda.max_memory_allocated() <= torch.cuda.get_device_properties(0).total_memory


def exceptions_in_a_backward_pass() -> None:
    """They arrive as they were raised, whether from a function, a hook or the GPU."""

    class Refuses(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
            raise ValueError("no gradient today")

    x = torch.ones(3, device="cuda", requires_grad=True)
    error = error_of(lambda: Refuses.apply(x).sum().backward())
    assert isinstance(error, ValueError)
    assert str(error) == "no gradient today"

    def complain(gradient: torch.Tensor) -> None:
        raise KeyError("hook")

    y = x * 2
    y.register_hook(complain)
    assert isinstance(error_of(lambda: y.sum().backward()), KeyError)
    z = (x * x).sum()
    z.backward()
    assert "second time" in str(error_of(z.backward))
    assert x.grad is not None


if __name__ == "__main__":
    for part in (on_different_devices, shapes_and_types, out_of_memory, exceptions_in_a_backward_pass):
        part()
        print(part.__name__, "ok", flush=True)
