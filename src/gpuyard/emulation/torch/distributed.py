"""Stands in for NCCL: the process groups that a program makes for GPUs are groups of emulated ones."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed
from torch.distributed import Backend, ProcessGroup, ProcessGroupGloo

from gpuyard.emulation.torch import ddp, sync_batch_norm, unsupported
from gpuyard.emulation.torch.process_group import EmulatedGroup

c10d: Any = torch.distributed.distributed_c10d

NCCL_VERSION = (2, 27, 5)
NCCL_TIMEOUT = timedelta(minutes=10)

_new_group = c10d._new_process_group_helper


def new_group(
    size: int, rank: int, ranks: list[int], backend: str, store: Any, name: str, *args: Any, **named: Any
) -> Any:
    """Make a process group; if it is for GPUs, one of emulated ones."""
    if backend == Backend.UNDEFINED:
        backend = Backend.NCCL
    devices = c10d.BackendConfig(backend).get_device_backend_map()
    if "cuda" not in devices:
        return _new_group(size, rank, ranks, backend, store, name, *args, **named)
    group, prefixed = _new_group(size, rank, ranks, Backend.NCCL, store, name, *args, **named)
    if isinstance(group, EmulatedGroup):
        group.through_host = devices["cuda"] == Backend.GLOO
        if "cpu" in devices:
            group.host = _host_group(store, name, rank, size, named["timeout"])
        c10d._world.pg_map[group] = (backend, prefixed)
        c10d._world.pg_backend_config[group] = str(c10d.BackendConfig(backend))
    return group, prefixed


def _host_group(store: Any, name: str, rank: int, size: int, timeout: timedelta) -> ProcessGroup:
    """Make the part of a group that is for tensors of the host."""
    own = c10d.PrefixStore(f"{name}/cpu/", store)
    group = ProcessGroup(own, rank, size)
    gloo = ProcessGroupGloo(own, rank, size, timeout=timeout)
    group._set_default_backend(ProcessGroup.BackendType.GLOO)
    group._register_backend(torch.device("cpu"), ProcessGroup.BackendType.GLOO, gloo)
    return group


def install() -> None:
    """Make NCCL available to programs."""
    c10d._NCCL_AVAILABLE = True
    for module in (c10d, torch.distributed):
        setattr(module, "ProcessGroupNCCL", EmulatedGroup)  # noqa: B010 - torch's modules do not declare it
    c10d.default_pg_nccl_timeout = NCCL_TIMEOUT
    c10d._new_process_group_helper = new_group
    torch.cuda.nccl.version = lambda: NCCL_VERSION
    torch.cuda.nccl.is_available = lambda tensors: True
    ddp.install()
    sync_batch_norm.register()
    unsupported.install()
