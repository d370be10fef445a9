"""What must be true of a deployment from outside, before anybody counts on it; broken promises are violations."""

from __future__ import annotations

from collections import Counter

from gpuyard.core.application import Application
from gpuyard.core.errors import InputError, LedgerError
from gpuyard.core.grants import WHOLE
from gpuyard.core.service import Service
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.interface import Slice


def check_unique(services: tuple[Service, ...]) -> None:
    """Raise InputError where two services have one name."""
    for name, times in Counter(str(each.service_id) for each in services).items():
        if times > 1:
            raise InputError("stands twice: a service has one rate and one SLO", field="services", value=name)


def check_names(services: tuple[Service, ...], applications: tuple[Application, ...]) -> None:
    """Raise InputError where an application has the name of another, or of a service: requests go by names."""
    taken = {str(each.service_id) for each in services}
    for each in applications:
        if each.name in taken:
            raise InputError("is the name of something else that is served", field="application", value=each.name)
        taken.add(each.name)


def check_deployment(of: Deployment) -> None:
    """Raise InputError for services and slices that cannot be as they are said to be."""
    for name in of.plan.unserved:
        if name not in of.service:
            raise InputError("finds no place, but is not among the services", field="unserved", value=name)
    check_names(of.services, of.applications)
    for application in of.applications:
        for stage in application.stages:
            if application.service_id(stage.name) not in of.service:
                raise InputError("is a stage, but not among the services", field="stage", value=stage.name)
    for number, part in enumerate(of.plan.slices):
        _check_slice(of, part, f"slices.{number}")
    _check_whole(of)
    _check_room(of)


def _check_slice(of: Deployment, part: Slice, field: str) -> None:
    if not part.thousandths:
        raise InputError("must be a thousandth of a GPU or more", field=f"{field}.share", value=0)
    if part.turns and not part.period_s:
        raise InputError("must be above 0 where models take turns", field=f"{field}.duty_ms", value=0)
    kind = of.gpu_type(part)
    for turn in part.turns:
        model = of.known[kind].models.get(of.service[turn.service].model)
        if model is None:
            rule = f"has no latency profile on {kind}"
            raise InputError(rule, field=f"{field}.models", value=of.service[turn.service].model)
        if part.thousandths not in [percent * 10 for percent in model.latency_ms]:
            known = ", ".join(f"{percent / 100:g}" for percent in sorted(model.latency_ms))
            rule = f"is no share on which {model.name} has latencies: {known}"
            raise InputError(rule, field=f"{field}.share", value=part.thousandths / WHOLE)


def _check_whole(of: Deployment) -> None:
    """No more than one GPU of each."""
    taken = Counter[int]()
    for part in of.plan.slices:
        taken[of.gpu_number(part)] += part.thousandths
    for gpu, thousandths in taken.items():
        if thousandths > WHOLE:
            rule = f"is more than there is of GPU {gpu}: its slices must have shares of 1 together"
            raise InputError(rule, field="slices", value=thousandths / WHOLE)


def _check_room(of: Deployment) -> None:
    """Nor more memory than the ledger would grant."""
    try:
        of.plan.take(of.ledger())
    except LedgerError as error:
        raise InputError(f"take what is not there: {error}", field="slices") from None
