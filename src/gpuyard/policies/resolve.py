"""From `order+allocate` as it is written to a policy."""

from __future__ import annotations

from types import NoneType
from typing import Any

from gpuyard.core.arguments import check_kind
from gpuyard.core.errors import InputError
from gpuyard.policies.naming import PolicyName, parse
from gpuyard.policies.order.starvation import Starvation
from gpuyard.policies.policy import Policy
from gpuyard.policies.registry import ALLOCATIONS, ORDERS, PLACEMENTS, from_file


def resolve(
    text: str,
    *,
    placement: str | None = None,
    opt_time_limit_s: float | None = None,
    starvation_s: float | None = None,
) -> Policy:
    """Find a policy by name. A part may be `path/to/file.py:Name`; alone, it is joined with `tune` or `fifo`."""
    check_kind(text, "policy", "a policy's name", str)
    check_kind(placement, "placement", "a placement's name", str, NoneType)
    order, allocate = split_name(text)
    return Policy(
        f"{label(order)}+{label(allocate)}",
        ORDERS.find(order),
        _allocation(allocate, placement, opt_time_limit_s),
        starvation=None if starvation_s is None else Starvation(starvation_s),
    )


def split_name(text: str) -> tuple[str, str]:
    """Split `order+allocate`, or complete it."""
    parts = [part.strip() for part in text.split("+")]
    if len(parts) == 1 and ".py:" in (own := parse(parts[0]).name):
        allocates = hasattr(from_file(own), "plan")
        parts = ["fifo", parts[0]] if allocates else [parts[0], "tune"]
    if len(parts) != 2 or not all(parts):
        known = f"Orders: {', '.join(sorted(ORDERS.names))}; allocations: {', '.join(ALLOCATIONS.names)}"
        raise InputError("is not ORDER+ALLOCATE", field="policy", value=text, hint=f"Example: fifo+tune. {known}")
    return parts[0], parts[1]


def label(part: str) -> str:
    """What results call a part of a policy: its name and options, without the folder that its file lies in."""
    name = parse(part)
    known = name.name if ".py:" in name.name else ALLOCATIONS.aliases.get(name.name.lower(), name.name.lower())
    return str(PolicyName(_short(known), {option: _short(value) for option, value in name.options.items()}))


def _short(text: str) -> str:
    """A policy of one's own is called by its name, wherever its file lies; folders of runs are called so."""
    return text.rpartition(":")[2] if ".py:" in text else text


def _allocation(written: str, placement: str | None, opt_time_limit_s: float | None) -> Any:
    where = None if placement is None else PLACEMENTS.chosen(placement)
    found = ALLOCATIONS.find(written, placement=where, time_limit_s=opt_time_limit_s)
    if where is not None and not hasattr(type(found), "__dataclass_fields__") and hasattr(found, "placement"):
        found.placement = where  # an object made for this very policy: see Kind.find
    return found
