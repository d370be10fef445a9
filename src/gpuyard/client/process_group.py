"""Whether this process trains a model together with others, and which of them it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

WORLD_SIZE = "WORLD_SIZE"


def is_one_of_several(environment: Mapping[str, str]) -> bool:
    """As whoever started it says, or PyTorch once processes have met."""
    group = process_group()
    return (environment.get(WORLD_SIZE) or "1") != "1" or (group is not None and group.get_world_size() > 1)


def rank_of(environment: Mapping[str, str] = os.environ) -> int:
    """Its number among them."""
    group = process_group()
    return int(environment.get("RANK") or 0) if group is None else int(group.get_rank())


def process_group() -> Any:
    """PyTorch's module of processes that have met; None before, and where nobody has loaded it."""
    distributed = sys.modules.get("torch.distributed")
    return (
        distributed if distributed is not None and distributed.is_available() and distributed.is_initialized() else None
    )
