"""Refuses in one sentence, instead of failing somewhere inside, what is not emulated: sharded models."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, NoReturn

import torch

from gpuyard.emulation.torch.dispatch import SPECIAL

FSDP = "torch.distributed.fsdp"
REFUSAL = (
    "gpuyard does not emulate models whose parameters are sharded (FSDP, DTensor, functional collectives): "
    "use torch.nn.parallel.DistributedDataParallel, which exchanges gradients over emulated GPUs"
)


def refuse(*args: Any, **kwargs: Any) -> NoReturn:
    """Say that this is not emulated, and what is."""
    raise NotImplementedError(REFUSAL)


class ShardingFinder:
    """Lets FSDP be imported, as libraries do just to know its name, and replaces what would shard a model."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where the package is, with a loader that puts the refusal in."""
        if name != FSDP:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_replace(module: Any) -> None:
                load(module)
                module.FullyShardedDataParallel.__init__ = refuse
                module.fully_shard = refuse

            spec.loader.exec_module = load_and_replace
        return spec


def install() -> None:
    """Be ready for a program that shards its model."""
    if FSDP not in sys.modules:
        sys.meta_path.insert(0, ShardingFinder())
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if namespace == "_c10d_functional":
            operation = getattr(getattr(torch.ops, namespace), name)
            SPECIAL[getattr(operation, schema.overload_name or "default")] = refuse
