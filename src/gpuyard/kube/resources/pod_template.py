"""What a template of pods must be so that pods can be made of it; the API server checks the rest, pod by pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuyard.core.errors import InputError
from gpuyard.kube import names

PLACED_BY_HAND = ("nodeName", "nodeSelector", "affinity", "topologySpreadConstraints", "schedulerName")
"""What a template must not say: where pods go is what is decided here."""
OF_GPUS = (*names.RESOURCES_OF_PODS, "nvidia.com/gpu", "amd.com/gpu")
"""What its containers must not ask for: each pod gets one GPU, and its first container has it."""
TEMPLATE = "spec.template"


def check_template(template: Mapping[str, Any], where: str) -> None:
    """InputError unless pods can be made of a template."""
    spec = _mapping(template.get("spec"), where, f"{TEMPLATE}.spec")
    metadata = _mapping(template.get("metadata") or {}, where, f"{TEMPLATE}.metadata")
    for name in ("labels", "annotations"):
        _mapping(metadata.get(name) or {}, where, f"{TEMPLATE}.metadata.{name}")
    if not _list(spec.get("containers"), where, f"{TEMPLATE}.spec.containers"):
        rule = "must be a template of pods with a container"
        raise InputError(rule, file=where, field=f"{TEMPLATE}.spec.containers", value=spec.get("containers"))
    _list(spec.get("volumes"), where, f"{TEMPLATE}.spec.volumes")
    _mapping(spec.get("overhead") or {}, where, f"{TEMPLATE}.spec.overhead")
    for field, container in _containers(spec, where):
        _check_container(container, where, field)
    for name in PLACED_BY_HAND:
        if spec.get(name):
            rule, hint = "says where pods go, which a policy decides", "Leave it out; gpuTypes names types of GPUs"
            raise InputError(rule, file=where, field=f"{TEMPLATE}.spec.{name}", value=spec[name], hint=hint)


def _containers(spec: Mapping[str, Any], where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name in ("containers", "initContainers"):
        for at, container in enumerate(_list(spec.get(name), where, f"{TEMPLATE}.spec.{name}")):
            yield f"{TEMPLATE}.spec.{name}[{at}]", container


def _check_container(container: Mapping[str, Any], where: str, field: str) -> None:
    for name in ("env", "volumeMounts"):
        _list(container.get(name), where, f"{field}.{name}")
    resources = _mapping(container.get("resources") or {}, where, f"{field}.resources")
    for name in ("requests", "limits"):
        asked = _mapping(resources.get(name) or {}, where, f"{field}.resources.{name}")
        for resource in OF_GPUS:
            if resource in asked:
                rule, hint = "asks for GPUs, which a policy decides about", "Leave it out; each pod gets one GPU"
                place = f"{field}.resources.{name}"
                raise InputError(rule, file=where, field=place, value=resource, hint=hint)


def _mapping(found: Any, where: str, field: str) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise InputError("must be a mapping, as a pod has it", file=where, field=field, value=found)
    return found


def _list(found: Any, where: str, field: str) -> list[Mapping[str, Any]]:
    """A list of mappings; none where there is nothing."""
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        raise InputError("must be a list of mappings, as a pod has it", file=where, field=field, value=found)
    return found
