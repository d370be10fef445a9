"""What a plan would become if there were more or other requests, and how many more it could bear."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpuyard.core.application import Application
from gpuyard.core.errors import InputError, nearest
from gpuyard.core.service import Service
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.interface import Partition
from gpuyard.policies.partition.moves import Move, moves
from gpuyard.policies.partition.revising import replan
from gpuyard.policies.partition.rooms import Rooms
from gpuyard.profiles.inference import inference_model

MOST_FACTOR = 1024.0
PRECISION = 0.01
_PERCENT = re.compile(r"([+-]\d+(?:\.\d+)?)\s*%")
_ONE_MORE = re.compile(r"\+([^:=]+):([^:]+):([^:]+)")
_RATE = re.compile(r"([^=]+)=(.+)")


@dataclass(frozen=True, eq=False)
class Outlook:
    """A deployment beside the one that there is."""

    deployment: Deployment
    moves: tuple[Move, ...]
    fits_until: float
    """The largest factor on all rates for which there is a plan; 0: not even for these."""

    @property
    def least_room(self) -> float:
        """What the service with the least room could take beside its rate, as a part of it."""
        rooms = Rooms(self.deployment)
        return min(rooms.headroom(each.service_id) / each.rate_per_s for each in self.deployment.services)


def outlook(present: Deployment, changes: Sequence[str], policy: Partition) -> Outlook:
    """The deployment that changes such as "+20%", "resnet50=300" or "+bert:50:22" would lead to, with fewest moves."""
    services = present.services
    for change in changes:
        services = changed(services, change, present.applications)
    after = replan(present, services, policy) if changes else present
    rates = {each.service_id: each.rate_per_s for each in services}
    applications = tuple(
        replace(each, rate_per_s=rates[each.service_id(each.stages[0].name)] / each.stages[0].per_request)
        for each in present.applications
    )
    after = replace(after, applications=applications)
    return Outlook(after, moves(present, after), largest_factor(after, policy))


def largest_factor(of: Deployment, policy: Partition) -> float:
    """By bisection; plans are made anew, for all GPUs that there are."""

    def fits(factor: float) -> bool:
        services = [replace(each, rate_per_s=each.rate_per_s * factor) for each in of.services]
        return not policy.plan(services, of.cluster, of.known).unserved

    low, high = (1.0, 2.0) if not of.plan.unserved or fits(1.0) else (0.0, 1.0)
    while low and high < MOST_FACTOR and fits(high):
        low, high = high, 2 * high
    while high - low > PRECISION * max(low, PRECISION):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def changed(
    services: tuple[Service, ...], change: str, applications: Sequence[Application] = ()
) -> tuple[Service, ...]:  # fmt: skip
    """The services after one change; some may be stages of applications."""
    text = change.strip()
    if found := _PERCENT.fullmatch(text):
        factor = 1.0 + float(found[1]) / 100.0
        if factor <= 0:
            raise _refusal("leaves no requests", change)
        return tuple(replace(each, rate_per_s=each.rate_per_s * factor) for each in services)
    if found := _ONE_MORE.fullmatch(text):
        model = found[1].strip()
        names = {each.service_id for each in services}
        name = next(each for each in (model, *(f"{model}-{n}" for n in range(2, 10**6))) if each not in names)
        numbers = (_number(found[2], change), _number(found[3], change))
        return (*services, Service(name, inference_model(model), *numbers))
    if found := _RATE.fullmatch(text):
        name = found[1].strip()
        asked: dict[int | str, float] = {
            each.service_id(stage.name): stage.per_request
            for each in applications if each.name == name for stage in each.stages
        }  # fmt: skip
        return _with_rate(services, name, _number(found[2], change), change, asked)
    raise _refusal("is no change", change, "Write +20%, resnet50=300 or +bert:50:22 (model, rate, SLO)")


def _with_rate(
    services: tuple[Service, ...], name: str, rate: float, change: str, asked: Mapping[int | str, float]
) -> tuple[Service, ...]:
    """A service by its name, an application by its, or all services of a model.

    `asked` says how often each stage of an application of this name is asked for each of its requests.
    """
    ids = {str(each.service_id) for each in services}
    kinds = (
        {name} & ids, {each for each in ids if each.startswith(f"{name}/")},
        {str(each.service_id) for each in services if each.model == inference_model(name)},
    )  # fmt: skip
    meant = next((each for each in kinds if each), None)
    if meant is None:
        raise _refusal("names no service", change, nearest(name, ids))
    return tuple(
        replace(each, rate_per_s=rate * asked.get(each.service_id, 1.0)) if str(each.service_id) in meant else each
        for each in services
    )


def _number(text: str, change: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise _refusal("must have numbers above 0", change)
    return value


def _refusal(rule: str, change: str, hint: str | None = None) -> InputError:
    return InputError(rule, field="what-if", value=change, hint=hint)
