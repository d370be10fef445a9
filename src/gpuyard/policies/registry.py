"""Policies by name: `order+allocate`, shipped, from an installed package, or from a file."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gpuyard.core.errors import InputError, nearest
from gpuyard.core.kernel import Floats, Ints
from gpuyard.policies import order as orders
from gpuyard.policies.allocate.greedy import Greedy
from gpuyard.policies.allocate.opt import Opt
from gpuyard.policies.allocate.perjob import PerJob
from gpuyard.policies.allocate.placement import placement_mode
from gpuyard.policies.allocate.proportional import Proportional
from gpuyard.policies.allocate.tune import Tune
from gpuyard.policies.published import orders as published_orders
from gpuyard.policies.published.allocate import Published
from gpuyard.policies.published.opt import PublishedOpt
from gpuyard.policies.snapshot import Keys, Plan, Snapshot

Order = Callable[[Snapshot], Keys | Floats]


class Allocate(Protocol):
    """Anything that turns a snapshot and an order of its active jobs into a plan."""

    def plan(self, snapshot: Snapshot, order: Ints) -> Plan:
        """Decide who runs where with how much."""


@dataclass(frozen=True)
class Policy:
    """An order and an allocation under one name."""

    name: str
    order: Order
    allocate: Allocate
    priority: Callable[[Snapshot], Ints] = lambda snapshot: snapshot.priority
    faithful: bool = False


ORDERS: dict[str, Order] = {name: getattr(orders, name) for name in orders.__all__}
ALLOCATIONS: dict[str, Callable[..., Allocate]] = {
    "proportional": Proportional,
    "greedy": Greedy,
    "tune": Tune,
    "opt": Opt,
}
ALIASES = {"fair": "proportional"}


def resolve(
    text: str, *, faithful: bool = False, placement: str | None = None, opt_time_limit_s: float = 2.0
) -> Policy:
    """Find a policy by name. A part may be `path/to/file.py:Name`; alone, it is joined with `tune` or `fifo`."""
    parts = [part.strip() for part in text.split("+")]
    if len(parts) == 1 and ":" in parts[0]:
        found = _from_file(parts[0])
        parts = ["fifo", parts[0]] if hasattr(found, "plan") else [parts[0], "tune"]
    if len(parts) != 2 or not all(parts):
        raise InputError(
            "is not ORDER+ALLOCATE", field="policy", value=text,
            hint=f"Example: fifo+tune. Orders: {', '.join(sorted(ORDERS))}; allocations: {', '.join(ALLOCATIONS)}",
        )  # fmt: skip
    order, allocate = (part if ":" in part else part.lower() for part in parts)
    allocate = ALIASES.get(allocate, allocate)
    if faithful:
        return _published(order, allocate, placement, opt_time_limit_s)
    placement_mode(placement or "best-fit")
    return Policy(
        f"{_label(order)}+{_label(allocate)}",
        _find(order, ORDERS, "gpuyard.orders", "order"),
        _instance(_find(allocate, ALLOCATIONS, "gpuyard.allocations", "allocation"), placement, opt_time_limit_s),
    )


def _published(order: str, allocate: str, placement: str | None, opt_time_limit_s: float) -> Policy:
    if order not in ORDERS or allocate not in ALLOCATIONS:
        raise InputError(
            "has no published variant", field="policy", value=f"{order}+{allocate}", hint="Leave out --faithful"
        )
    if placement == "best-fit":
        raise InputError(
            "is not a placement of the original", field="placement", value=placement,
            hint="Use first-fit or consolidating, or leave out --faithful",
        )  # fmt: skip
    placement_mode(placement or "first-fit")
    fixed_set = order == "las"
    chosen: Allocate = Published(allocate, placement or "first-fit", fixed_set)
    if allocate == "opt":
        chosen = PublishedOpt(opt_time_limit_s)
    priority = published_orders.no_priority if order == "fifo" else Policy.priority
    return Policy(f"{order}+{allocate}", getattr(published_orders, order), chosen, priority, faithful=True)


def _label(part: str) -> str:
    return part.rpartition(":")[2] if ":" in part else part


def _find(name: str, shipped: dict[str, Any], group: str, what: str) -> Any:
    if ":" in name:
        return _from_file(name)
    if name in shipped:
        return shipped[name]
    installed = {entry.name: entry for entry in importlib.metadata.entry_points(group=group)}
    if name in installed:
        return installed[name].load()
    raise InputError(f"is not an {what}", field="policy", value=name, hint=nearest(name, [*shipped, *installed]))


def _from_file(text: str) -> Any:
    file, _, name = text.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise InputError("no such file", file=path, field="policy", value=text, hint="Give path/to/file.py:Name")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InputError("is not a Python file", file=path, field="policy", value=text)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise InputError(f"the policy file cannot be loaded: {why}", file=path, field="policy") from error
    if not hasattr(module, name):
        public = [each for each in vars(module) if not each.startswith("_")]
        raise InputError("is not defined there", file=path, field="policy", value=name, hint=nearest(name, public))
    found = getattr(module, name)
    if not callable(found) and not hasattr(found, "plan"):
        rule = "is neither an order, a function of a snapshot, nor an allocation, which has plan(snapshot, order)"
        raise InputError(rule, file=path, field="policy", value=name)
    try:
        return found() if isinstance(found, type) else found
    except TypeError as error:
        raise InputError(f"cannot be used: {error}", file=path, field="policy", value=name) from error


def _instance(found: Any, placement: str | None, opt_time_limit_s: float) -> Allocate:
    if isinstance(found, type) and issubclass(found, PerJob):
        found = found()
    if isinstance(found, PerJob) and placement:
        found = copy(found)
        found.placement = placement
    if not isinstance(found, type):
        return found  # type: ignore[no-any-return]
    settings: dict[str, Any] = {"placement": placement, "time_limit_s": opt_time_limit_s}
    fields = getattr(found, "__dataclass_fields__", {})
    return found(**{name: value for name, value in settings.items() if name in fields and value is not None})  # type: ignore[no-any-return]
