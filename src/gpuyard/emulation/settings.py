"""What is emulated and how: as values, and as the environment variables that carry them into a program's processes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpuyard.core.errors import InputError, nearest
from gpuyard.core.units import amount
from gpuyard.policies.naming import parse

if TYPE_CHECKING:
    from gpuyard.policies.timeshare import TimeSharing

PREFIX = "GPUYARD_"
CLOCKS = ("real", "virtual", "device")
GRANULARITIES = ("auto", "op", "pass")
BYTES = {"": 1e9, "mb": 1e6, "gb": 1e9, "mib": 2.0**20, "gib": 2.0**30}
UNPROFILED = "none"
"""The name of a profile that says: take none."""


@dataclass(frozen=True)
class Settings:
    """Everything a program's processes need to know. Each field travels as GPUYARD_<FIELD>."""

    gpus: str
    node: str = ""
    """Name of the emulated machine; programs that give the same name share its GPUs. Empty: named by its GPUs."""
    clock: Literal["real", "virtual", "device"] = "real"
    """virtual: waiting takes no time; device: nor does the host's own work, so that only GPU time is left."""
    speed: float = 1.0
    profile: str = ""
    """Name of the step profile to use, instead of the one that is recognised."""
    sharing: str = ""
    """How the GPUs are shared, as `emulated_sharing` reads it."""
    priority: int = 0
    share: float = 1.0
    memory_limit: str = ""
    jitter: float = 0.0
    """Coefficient of variation of a step's duration."""
    warm_up: float = 1.0
    """Factor on the duration of the first step."""
    seed: int = 0
    compute: bool = False
    loss: tuple[float, ...] = ()
    granularity: Literal["auto", "op", "pass"] = "auto"
    report: str = ""
    """Folder into which each process writes its part of the report."""

    @property
    def node_name(self) -> str:
        """Return the name of the emulated machine: programs that ask for the same machine find each other on it."""
        if self.node:
            return self.node
        speed = "" if self.speed == 1.0 else f"@{self.speed:g}"
        return self.gpus + speed + (f",{self.sharing}" if self.sharing else "")

    @property
    def memory_limit_bytes(self) -> int | None:
        """Return the most memory a process may take on each GPU, if limited."""
        return int(amount(self.memory_limit, BYTES, "memory_limit")) if self.memory_limit else None

    def check(self) -> Settings:
        """Refuse values that mean nothing, before anything is started; return the settings themselves."""
        for name, known in (("clock", CLOCKS), ("granularity", GRANULARITIES)):
            if getattr(self, name) not in known:
                value = getattr(self, name)
                raise InputError(f"is not a {name}", field=name, value=value, hint=nearest(value, known))
        for name, least, most, rule in (
            ("speed", 0.0, inf, "is not a positive number"),
            ("warm_up", 0.0, inf, "is not a positive number"),
            ("share", 0.0, 1.0 + 1e-9, "is no part of a GPU, above 0 and at most 1"),
            ("jitter", -1e-9, inf, "is not a number from 0 on"),
        ):
            if not least < getattr(self, name) < most:
                raise InputError(rule, field=name, value=getattr(self, name))
        if self.memory_limit_bytes == 0:
            raise InputError("leaves no memory at all", field="memory_limit", value=self.memory_limit)
        if self.sharing:
            emulated_sharing(self.sharing)
        return self

    def environment(self) -> dict[str, str]:
        """Return the variables that hand these settings to a program."""
        return {
            PREFIX + field.name.upper(): _write(getattr(self, field.name))
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings | None:
        """Read settings from the environment; None where no GPUs are asked for."""
        if not environment.get(PREFIX + "GPUS"):
            return None
        given: dict[str, Any] = {"gpus": environment[PREFIX + "GPUS"]}
        for field in fields(cls):
            text = environment.get(PREFIX + field.name.upper(), "")
            if text and field.name != "gpus":
                given[field.name] = _read(field.name, field.default, text)
        return cls(**given).check()


def emulated_sharing(written: str) -> TimeSharing:
    """Find how emulated GPUs are shared: by a shipped policy, and no other."""
    from gpuyard.policies.timeshare import TIME_SHARINGS, time_sharing

    if parse(written, "sharing").name.lower() in TIME_SHARINGS:
        return time_sharing(written)  # as every emulated process does: the registry imports far more
    from gpuyard.policies.registry import TIMESHARES

    TIMESHARES.find(written)  # a name that nobody knows is refused as such
    rule = "is not shipped with gpuyard: emulated GPUs are shared by a library in C, which cannot ask it"
    hint = f"Simulate it, or choose one of {', '.join(TIME_SHARINGS)}"
    raise InputError(rule, field="sharing", value=written, hint=hint)


def _write(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(f"{item!r}" for item in value)
    return str(int(value) if isinstance(value, bool) else value)


def _read(name: str, current: object, text: str) -> object:
    """Read one value by the type of its default."""
    variable = PREFIX + name.upper()
    try:
        if name == "loss":
            return read_loss(text)
        if isinstance(current, bool):
            return {"0": False, "1": True, "false": False, "true": True}[text.lower()]
        if isinstance(current, (int, float)):
            return type(current)(text)
    except (KeyError, ValueError):
        kind = "0 or 1" if isinstance(current, bool) else "a number"
        raise InputError(f"is not {kind}", field=variable, value=text) from None
    return text


def read_loss(text: str) -> tuple[float, ...]:
    """Read a loss curve: numbers separated by commas, one per step, or a file with a number on each line."""
    path = Path(text)
    source = path.read_text(encoding="utf-8").split() if path.is_file() else text.split(",")
    where = path if path.is_file() else None
    try:
        curve = tuple(float(item) for item in source if item.strip())
    except ValueError as error:
        raise InputError(f"is not a loss curve: {error}", file=where, field="loss", value=text[:40]) from None
    if not curve:
        raise InputError("holds no numbers", file=where, field="loss", value=text[:40])
    return curve
