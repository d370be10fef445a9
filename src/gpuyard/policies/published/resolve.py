"""The original's policies by name."""

from __future__ import annotations

from gpuyard.core.errors import InputError
from gpuyard.policies.naming import parse
from gpuyard.policies.policy import Allocate, Order, Policy
from gpuyard.policies.published import orders
from gpuyard.policies.published.allocate import MECHANISMS, Published
from gpuyard.policies.published.opt import PublishedOpt
from gpuyard.policies.published.starvation import LIMIT_S, PublishedStarvation
from gpuyard.policies.registry import ALLOCATIONS, PLACEMENTS
from gpuyard.policies.resolve import split_name

PUBLISHED_ORDERS: dict[str, Order] = {
    "fifo": orders.fifo,
    "srtf": orders.srtf,
    "srsf": orders.srsf,
    "las": orders.las,
    "ftf": orders.ftf,
    "drf": orders.drf,
    "tetris": orders.tetris,
}
_PLACEMENTS = ("first-fit", "consolidating")


def resolve_published(
    text: str,
    *,
    round_s: float,
    starvation_s: float | None = None,
    placement: str | None = None,
    opt_time_limit_s: float | None = None,
) -> Policy:
    """Find one of the original's policies; InputError for what it does not have."""
    order, allocate = (parse(part) for part in split_name(text))
    mechanism = ALLOCATIONS.aliases.get(allocate.name.lower(), allocate.name.lower())
    if order.name.lower() not in PUBLISHED_ORDERS or mechanism not in (*MECHANISMS, "opt"):
        raise InputError("has no published variant", field="policy", value=text, hint="Leave out --faithful")
    if order.options or allocate.options:
        raise InputError("has no options in its published variant", field="policy", value=text)
    where = placement or "first-fit"
    PLACEMENTS.find(where)
    if where not in _PLACEMENTS:
        raise InputError(
            "is not a placement of the original", field="placement", value=where,
            hint=f"Use {' or '.join(_PLACEMENTS)}, or leave out --faithful",
        )  # fmt: skip
    name = order.name.lower()
    chosen: Allocate = Published(mechanism, where, fixed_set=name == "las")
    if mechanism == "opt":
        chosen = PublishedOpt() if opt_time_limit_s is None else PublishedOpt(opt_time_limit_s)
    # FIFO sorts by arrival alone, whatever the priority, and so passes over the rule for jobs that wait too long.
    limit_s = LIMIT_S if starvation_s is None else starvation_s
    starvation = None if name == "fifo" else PublishedStarvation(round_s, limit_s)
    return Policy(
        f"{name}+{mechanism}", PUBLISHED_ORDERS[name], chosen,
        starvation=starvation, keeps_progress=False, knows_priorities=False,
    )  # fmt: skip
