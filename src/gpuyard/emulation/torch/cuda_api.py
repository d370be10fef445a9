"""The functions of `torch.cuda`, answered by emulated GPUs. Each public name replaces the one of that name there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from gpuyard.emulation.torch.moves import index_of
from gpuyard.emulation.torch.state import state
from gpuyard.emulation.torch.streams import gpu_of

CUDA_VERSION = "12.8"


def is_available() -> bool:
    """Say that there are GPUs, unless all are hidden."""
    return device_count() > 0


def device_count() -> int:
    """Return how many GPUs this program sees."""
    return 0 if state.session is None else len(state.session.kinds)


def is_initialized() -> bool:
    """Say that nothing needs to be started."""
    return True


def init() -> None:
    """Do nothing: there is nothing to start."""


_lazy_init = init


def _is_in_bad_fork() -> bool:
    return False


def _lazy_call(callable: Any, **_: Any) -> None:
    callable()


def current_device() -> int:
    """Return the index of the GPU in use."""
    return state.current


def set_device(device: Any) -> None:
    """Choose the GPU in use."""
    index = index_of(device)
    if index is not None and index >= 0:
        state.gpu(index)
        state.current = index


class device:  # noqa: N801
    """`with torch.cuda.device(1)`."""

    def __init__(self, device: Any) -> None:
        index = index_of(device)
        self.idx = -1 if index is None else index
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = state.current
        if self.idx >= 0:
            set_device(self.idx)

    def __exit__(self, *_: object) -> None:
        state.current = self.prev_idx


class device_of(device):  # noqa: N801
    """`with torch.cuda.device_of(tensor)`."""

    def __init__(self, obj: torch.Tensor) -> None:
        super().__init__(obj.device if obj.is_cuda else -1)


def _exchange_device(index: int) -> int:
    previous = state.current
    if index >= 0:
        set_device(index)
    return previous


_maybe_exchange_device = _exchange_device


def synchronize(device: Any = None) -> None:
    """Make the host wait for everything on a GPU."""
    gpu_of(device).synchronize()


def get_device_name(device: Any = None) -> str:
    """Return the name of the emulated kind."""
    return gpu_of(device).kind.name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Return the compute capability."""
    return gpu_of(device).kind.compute_capability


def get_device_properties(device: Any = None) -> SimpleNamespace:
    """Return what a program may ask about a GPU."""
    gpu = gpu_of(device)
    kind = gpu.kind
    return SimpleNamespace(
        name=kind.name,
        major=kind.compute_capability[0],
        minor=kind.compute_capability[1],
        total_memory=gpu.memory_bytes,
        multi_processor_count=kind.multiprocessors,
        max_threads_per_multi_processor=2048,
        warp_size=32,
        is_integrated=0,
        is_multi_gpu_board=0,
        shared_memory_per_block=48 << 10,
        shared_memory_per_block_optin=96 << 10,
        shared_memory_per_multiprocessor=96 << 10,
        regs_per_multiprocessor=65536,
        L2_cache_size=6 << 20,
        gcnArchName="",
        uuid=f"GPU-{gpu_of(device).index}",
    )


_get_device_properties = get_device_properties


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Say that GPUs of one machine reach each other."""
    return gpu_of(device) is not gpu_of(peer_device)


def get_arch_list() -> list[str]:
    """Return the architectures that kernels exist for."""
    return sorted({"sm_{}{}".format(*kind.compute_capability) for kind in state.session.kinds}) if state.session else []


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Say whether the GPU computes in bfloat16, by itself or slowly."""
    return including_emulation or gpu_of().kind.compute_capability >= (8, 0)


def is_tf32_supported() -> bool:
    """Say whether the GPU has tf32."""
    return gpu_of().kind.compute_capability >= (8, 0)


def ipc_collect() -> None:
    """Do nothing: no memory is shared with other processes."""


def current_blas_handle() -> int:
    """Return a handle that nothing can be done with."""
    return 0


current_solver_handle = current_blas_handle


def _sleep(cycles: int) -> None:
    """Keep the GPU busy for a number of cycles."""
    gpu = gpu_of()
    gpu.launch(cycles / (gpu.kind.max_clock_mhz * 1e6))


def set_sync_debug_mode(debug_mode: Any) -> None:
    """Accept any mode: nothing is synchronised behind a program's back."""


def get_sync_debug_mode() -> int:
    """Return that nothing is reported."""
    return 0
