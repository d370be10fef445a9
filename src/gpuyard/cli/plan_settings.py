"""What `gpuyard plan` plans with: options of the command line before gpulet's files, and those before the usual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuyard.cli.output import say
from gpuyard.core.errors import InputError, nearest

if TYPE_CHECKING:
    from gpuyard.core.application import Application
    from gpuyard.core.service import Service
    from gpuyard.policies.partition import Partition
    from gpuyard.policies.partition.deployment import Deployment, Devices
    from gpuyard.profiles import Zoo
    from gpuyard.traces.gpulet_settings import SchedulerSettings
    from gpuyard.traces.services import Asked

USUAL = {"gpus": "4x2080ti", "policy": "elastic", "buffer": 1.1, "interference": True}


@dataclass(frozen=True)
class PlanOptions:
    """The options as they were given; None: they were not."""

    gpus: str | None
    policy: str | None = None
    profile: Path | None = None
    interference: bool | None = None
    buffer: float | None = None
    minimise: str | None = None
    faithful: bool = False
    scheduler: Path | None = None
    devices: Path | None = None
    zoo: Zoo | None = None
    """With profiles of the user's own."""

    def given(self, *names: str) -> list[str]:
        """Those of these options that were given."""
        return [name for name in names if getattr(self, name) is not None]


def check_targets(targets: Mapping[str, Path | None], inputs: Sequence[Path | None]) -> None:
    """Raise InputError for a file to write that is one to read, or that has no folder; by the names of options."""
    for field, path in targets.items():
        if path is None:
            continue
        if not path.parent.is_dir():
            raise InputError("is in a folder that does not exist", field=field, value=str(path))
        if path.exists() and any(each.exists() and path.samefile(each) for each in inputs if each is not None):
            raise InputError("is read, and cannot be written to as well", field=field, value=str(path))


def planned(asked: Asked, options: PlanOptions) -> tuple[Deployment, Partition]:
    """A deployment for what is asked, and the policy that planned it."""
    blank, policy = _without_plan(options, asked)
    return _deployed(blank, asked, policy), policy


def planned_from(before: Deployment, asked: Asked, options: PlanOptions) -> tuple[Deployment, Partition]:
    """A deployment for what is asked that keeps what it can of another; GPUs and latencies are that one's."""
    from gpuyard.policies.partition.revising import replan

    for name in options.given("gpus", "profile", "interference", "buffer", "scheduler", "devices"):
        raise InputError("cannot go with --from: the plan has its own", field=name, value=str(getattr(options, name)))
    for name, is_given in (("faithful", options.faithful), ("profiles", options.zoo is not None)):
        if is_given:
            raise InputError("cannot go with --from", field=name)
    policy = _policy(options, before.buffer, before.interference, None)
    shrink = _only_gpus(options.minimise) or False
    as_before = tuple(_as_before(before, each) for each in asked.applications)
    for applications in dict.fromkeys((as_before, asked.applications)):
        services = _services(before, asked.services, applications, policy)
        found = replan(before, services, policy, shrink=shrink, worth=10**6)
        found = replace(found, applications=asked.applications)
        if not found.end_to_end.violations(found.applications):
            break
    return found, policy


def _as_before(before: Deployment, application: Application) -> Application:
    """With the parts of its SLO that its stages have, if they still fit."""
    ids = {stage.name: application.service_id(stage.name) for stage in application.stages}
    if not all(name in before.service for name in ids.values()):
        return application
    parts = {stage: before.service[name].slo_ms for stage, name in ids.items()}
    if application.longest(parts) > application.slo_ms * (1 + 1e-9):
        return application
    stages = tuple(replace(stage, slo_ms=parts[stage.name]) for stage in application.stages)
    return replace(application, stages=stages)


def _devices(options: PlanOptions, gpus: str, asked: Asked) -> Devices | None:
    """GPU types of the user's own: of gpulet's files, or with models of profile files."""
    from gpuyard.policies.partition.deployment import own_devices
    from gpuyard.profiles.inference import read_devices

    if options.devices is not None and options.zoo is not None:
        raise InputError("cannot go with --profiles: both say what models take on a GPU type", field="devices")
    if options.zoo is not None:
        return own_devices(options.zoo, gpus, asked.models)
    return read_devices(options.devices) if options.devices is not None else None


def _without_plan(options: PlanOptions, asked: Asked) -> tuple[Deployment, Partition]:
    from gpuyard.policies.partition import PartitionPlan
    from gpuyard.policies.partition.deployment import Deployment, serving_cluster
    from gpuyard.profiles.inference import read_latencies, with_slices
    from gpuyard.traces.gpulet_settings import read_scheduler

    file = read_scheduler(options.scheduler) if options.scheduler is not None else None
    values = _values(options, file)
    devices = _devices(options, values["gpus"], asked)
    cluster = serving_cluster(values["gpus"], devices)
    latencies = read_latencies(options.profile) if options.profile is not None else None
    blank = Deployment(
        (), cluster, PartitionPlan(()), values["buffer"], values["interference"], options.faithful, latencies,
        devices=devices,
    )  # fmt: skip
    if file is not None and file.parts is not None and not options.faithful:
        known = {key: with_slices(gpu, file.parts) for key, gpu in blank.known.items()}
        blank = replace(blank, devices=known, latencies=None)
    options = replace(options, policy=values["policy"])
    return blank, _policy(options, blank.buffer, blank.interference, file.most_models if file else None)


def _values(options: PlanOptions, file: SchedulerSettings | None) -> dict[str, Any]:
    """What counts of each setting, and a word about what does not."""
    found = dict(USUAL)
    if file is not None:
        unused = [*file.unused, *(["Avail_Parts"] if options.faithful and file.parts is not None else [])]
        if unused:
            say(f"{options.scheduler}: has no effect, nor has it in gpulet: {', '.join(unused)}")
        found |= {name: value for name in USUAL if (value := getattr(file, name)) is not None}
    for name in options.given(*USUAL):
        value = getattr(options, name)
        if file is not None and getattr(file, name) not in (None, value):
            say(f"--{name} {value} counts, not {getattr(file, name)} of {options.scheduler}")
        found[name] = value
    return found


def _only_gpus(minimise: str | None) -> bool | None:
    if minimise not in (None, "gpus"):
        raise InputError("is nothing that can be minimised; gpus can", field="minimise", value=minimise)
    return True if minimise else None


def _policy(options: PlanOptions, buffer: float, interference: bool, most_models: int | None) -> Partition:
    from gpuyard.policies.partition.published.policy import SHIPPED
    from gpuyard.policies.registry import PARTITIONS

    if options.faithful and options.minimise is not None:
        raise InputError("cannot go with --faithful", field="minimise", value=options.minimise)
    name = options.policy or str(USUAL["policy"])
    values: dict[str, Any] = {"buffer": buffer, "interference": interference}
    values |= {} if most_models is None else {"most_models": most_models}
    minimise = _only_gpus(options.minimise)
    if not options.faithful:
        found: Partition = PARTITIONS.find(name, minimise=minimise, **values)
        return found
    if name not in SHIPPED:
        raise InputError("has no published variant", field="policy", value=name, hint=nearest(name, SHIPPED))
    return SHIPPED[name](**values)


def _services(
    blank: Deployment, services: tuple[Service, ...], applications: tuple[Application, ...], policy: Partition
) -> tuple[Service, ...]:
    """All services, with those of the applications' stages."""
    from gpuyard.policies.partition.splitting import best_split, stage_services

    if not applications:
        return services
    rough = [each for one in applications
             for each in stage_services(one, {stage.name: one.slo_ms for stage in one.stages})]  # fmt: skip
    latency = replace(blank, services=(*services, *rough)).latency
    return best_split(applications, services, blank.cluster, blank.known, latency, policy)


def _deployed(blank: Deployment, asked: Asked, policy: Partition) -> Deployment:
    services = _services(blank, asked.services, asked.applications, policy)
    plan = policy.plan(services, blank.cluster, blank.known)
    return replace(blank, services=services, plan=plan, applications=asked.applications)
