"""Turns the emulation on in this process: registers the device with torch and stands in for `torch.cuda`."""

from __future__ import annotations

import atexit
import os
from types import ModuleType
from typing import Any

import torch
from torch.optim import optimizer as torch_optimizer

from gpuyard.core.errors import GpuyardError
from gpuyard.emulation import nvml
from gpuyard.emulation.session import Session
from gpuyard.emulation.settings import Settings
from gpuyard.emulation.torch import (
    accelerator,
    autocast,
    backend,
    cuda_api,
    cuda_memory,
    cuda_random,
    data_parallel,
    distributed,
    factories,
    graphs,
    grouping,
    lazy,
    legacy,
    moves,
    profiler,
    saving,
    steps,
    streams,
    values,
    vision,
)
from gpuyard.emulation.torch.state import state
from gpuyard.emulation.torch.tensor import BACKEND, EmulatedTensor

SUPPORTED = ("2.13",)
"""Versions of torch, by their first two numbers, that the tests have seen."""


class UnsupportedTorchError(GpuyardError):
    """The installed torch is not one that the emulated device was tested with."""


def check_torch() -> None:
    """Refuse a torch that the emulated device is not known to work with; says what to install."""
    version = ".".join(torch.__version__.split(".")[:2])
    if version not in SUPPORTED and os.environ.get("GPUYARD_ANY_TORCH") != "1":
        raise UnsupportedTorchError(
            f"torch {torch.__version__} is installed, but gpuyard emulates GPUs under torch {', '.join(SUPPORTED)}: "
            f"pip install 'torch=={SUPPORTED[-1]}.*', or set GPUYARD_ANY_TORCH=1 to try this one"
        )


def activate(settings: Settings, *, as_cuda: bool = True) -> Session:
    """Emulate GPUs in this process from now on; with `as_cuda` programs find them under `torch.cuda`."""
    if state.session is not None:
        raise GpuyardError("GPUs are already emulated in this process")
    check_torch()
    session = state.session = Session(settings)
    state.chance.seed(settings.seed)
    values.ComputeMode.compute = settings.compute
    backend.register(_device_module())
    autocast.register()
    torch.autograd.set_multithreading_enabled(False)  # a second thread would only add waiting for the interpreter lock
    torch_optimizer._foreach_supported_types.append(EmulatedTensor)
    moves.install()
    factories.install()
    grouping.install()
    lazy.install()
    saving.install()
    steps.install()
    if as_cuda:
        _stand_in_for_cuda()
    else:
        EmulatedTensor.device = property(lambda self: torch.device(BACKEND, self.block.gpu.index))
    vision.watch_import()
    if session.node is not None:
        os.environ["GPUYARD_NODE"] = settings.node_name  # for NVML, and for processes that this one starts
        nvml.preload()
    os.register_at_fork(after_in_child=_after_fork)
    atexit.register(_close, os.getpid())
    with session.rehearsing():
        self_test()
    return session


def self_test() -> None:
    """Run one small training step, so that a torch that does not fit fails here and clearly."""
    try:
        weight = torch.ones(2, 2, device=moves.inside_device(), requires_grad=True)
        (weight @ weight).sum().backward()
        assert weight.grad is not None
        assert weight.grad.shape == (2, 2)
    except Exception as error:
        raise UnsupportedTorchError(
            f"torch {torch.__version__} does not run on the emulated device ({type(error).__name__}: {error}): "
            f"pip install 'torch=={SUPPORTED[-1]}.*'"
        ) from error


def _public(module: ModuleType) -> dict[str, Any]:
    """Return what a module defines itself."""
    return {
        name: value
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__ and not isinstance(value, ModuleType)
    }


def _everything() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for module in (cuda_api, cuda_memory, cuda_random, graphs):
        found.update({name: value for name, value in _public(module).items() if name not in ("_index", "_counters")})
    found.pop("Generator")
    found.update(
        Stream=streams.Stream, Event=streams.Event, ExternalStream=streams.Stream, StreamContext=streams.StreamContext,
        stream=streams.StreamContext, current_stream=streams.current_stream, default_stream=streams.default_stream,
        set_stream=streams.set_stream,
    )  # fmt: skip
    return found


def _device_module() -> ModuleType:
    """Make `torch.emu`."""
    module = ModuleType(f"torch.{BACKEND}")
    vars(module).update(_everything())
    module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
    return module


def _stand_in_for_cuda() -> None:
    """Replace what programs ask `torch.cuda` for."""
    for name, value in _everything().items():
        for module in (torch.cuda, torch.cuda.memory, torch.cuda.random, torch.cuda.streams, torch.cuda.graphs):
            if module is torch.cuda or hasattr(module, name):
                setattr(module, name, value)
    torch.cuda._initialized = True
    torch.version.cuda = cuda_api.CUDA_VERSION
    torch.Generator = cuda_random.Generator
    EmulatedTensor.device = property(lambda self: torch.device("cuda", self.block.gpu.index))
    EmulatedTensor.is_cuda = property(lambda self: True)
    legacy.install()
    profiler.install()
    data_parallel.install()
    distributed.install()
    accelerator.install()
    autocast.stand_in_for_cuda()
    torch.compile = _uncompiled
    torch.backends.mha.set_fastpath_enabled(False)  # it makes nested tensors, which are not emulated
    torch.backends.cudnn.is_available = lambda: True
    torch.backends.cudnn.is_acceptable = lambda tensor: tensor.is_cuda
    torch.backends.cudnn.version = lambda: 90100


def _uncompiled(model: Any = None, **_: Any) -> Any:
    """Return a model as it is: durations are those of torch's eager mode."""
    if model is None:
        return lambda function: function
    if state.session is not None and not any("torch.compile" in notice for notice in state.session.report.notices):
        state.session.notice("torch.compile is ignored: emulated durations are those of eager mode")
    return model


def _after_fork() -> None:
    """A forked child, such as a DataLoader's worker, has no client of its own and reports nothing."""
    if state.session is not None:
        state.session.abandon()


def _close(owner: int) -> None:
    if state.session is not None and os.getpid() == owner:
        state.session.close()
