"""Lets any CUDA program take part in sharing: the library before the driver, and a few variables."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from gpuyard.core.errors import InputError
from gpuyard.core.units import amount
from gpuyard.native import find
from gpuyard.policies.timeshare.launch import LEVELS, Launching
from gpuyard.sharing.calls import LIBRARY
from gpuyard.sharing.commands import find_program, run_command, search_path
from gpuyard.sharing.group import group_path

LEVEL_NAMES = {"low": 0, "normal": 10, "high": 20}
"""Priorities for people; any number from 0 to 63 will do."""
VARIABLE = "GPUYARD_GATE"
"""How variables begin that tell the gate a program's terms."""
BYTES = {"": 1e9, "mb": 1e6, "gb": 1e9, "mib": 2.0**20, "gib": 2.0**30}


@dataclass(frozen=True)
class ProgramTerms:
    """What a program brings along."""

    group: str = "default"
    level: int = 0
    sync_every: int = 0
    window: int = 0
    share: float = 1.0
    slo_s: float = 0.0
    memory_bytes: int | None = None
    hold_s: float = 0.0

    def environment(self) -> dict[str, str]:
        """Return the variables that say so to the gate."""
        values = {
            "": self.group,
            "_LEVEL": self.level,
            "_SYNC_EVERY": self.sync_every,
            "_WINDOW": self.window,
            "_SHARE": self.share,
            "_SLO": self.slo_s or None,
            "_MEMORY": self.memory_bytes,
            "_HOLD": self.hold_s or None,
        }
        return {f"{VARIABLE}{name}": str(value) for name, value in values.items() if value is not None}


def read_level(text: str) -> int:
    """Read a priority: a name or a number."""
    if text in LEVEL_NAMES:
        return LEVEL_NAMES[text]
    if not text.isascii() or not text.isdigit() or int(text) >= LEVELS:
        names = ", ".join(LEVEL_NAMES)
        raise InputError(f"is neither {names} nor a number from 0 to {LEVELS - 1}", field="priority", value=text)
    return int(text)


def read_memory(text: str) -> int | None:
    """Read an amount of memory, as in 4GiB; None for no limit."""
    return int(amount(text, BYTES, "memory")) if text else None


def without_terms(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which no group and no terms are named, but for the limit of memory that was set."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith(VARIABLE) or name == f"{VARIABLE}_MEMORY"
    }


def gated_environment(terms: ProgramTerms, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment of a program behind the gate; whatever else is preloaded stays.

    Terms of whoever starts this, and is behind the gate itself, are not the program's; only the limit of memory is, as
    long as the program has none of its own.
    """
    others = [each for each in environment.get("LD_PRELOAD", "").replace(":", " ").split() if LIBRARY not in each]
    preloaded = ":".join([str(find(LIBRARY)), *others])
    return {**without_terms(environment), **terms.environment(), "LD_PRELOAD": preloaded, "PATH": search_path()}


def run_here(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command on the machine's own GPUs, and return its exit code."""
    return run_command([find_program(command), *command[1:]], environment).exit_code


def share_program(
    command: Sequence[str],
    terms: ProgramTerms,
    policy: Launching | None,
    run: Callable[[Sequence[str], Mapping[str, str]], int] = run_here,
) -> int:
    """Run a command behind the gate, and return its exit code; with a policy, control its group meanwhile."""
    from gpuyard.sharing.controller import controlling

    environment = gated_environment(terms)
    group_path(terms.group)  # a name that is none would leave the program without gate and limits
    with controlling(terms.group, policy) if policy is not None else nullcontext():
        return run(command, environment)
