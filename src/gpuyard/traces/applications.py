"""Applications from files: those of gpulet as they are, and ours in YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuyard.core.application import Application, Stage
from gpuyard.core.errors import InputError, nearest
from gpuyard.traces.json_objects import read_object
from gpuyard.traces.source import Source
from gpuyard.traces.yaml_rows import Record

_FIELDS = ("name", "rate_per_s", "slo_ms", "stages", "file")
_STAGE_FIELDS = ("model", "after", "per_request", "slo_ms")
_CONTENT = "an application, or a list of them under App_specs"


def from_record(source: Source, record: Record) -> Application:
    """An entry of a YAML file of services."""
    try:
        return _from_values(Path(source.name).parent, dict(record.values))
    except InputError as error:
        raise error if error.file is not None else error.located(source.name, record.row) from None


def _from_values(folder: Path, values: dict[str, Any]) -> Application:
    _known(values, _FIELDS, "an application")
    for name in ("name", "rate_per_s"):
        if name not in values:
            raise InputError("is missing", field=name)
    if ("file" in values) == ("stages" in values):
        raise InputError("needs either stages or the file that has them", field="stages")
    if "file" in values:
        found = read_gpulet_application(folder / str(values["file"]), values["rate_per_s"])
        return _with_slo(replace(found, name=values["name"]), values.get("slo_ms"))
    if "slo_ms" not in values:
        raise InputError("is missing", field="slo_ms")
    stages = values["stages"]
    if not isinstance(stages, dict) or not stages:
        raise InputError("must be names with their models", field="stages", value=stages)
    return Application(
        values["name"], values["rate_per_s"], values["slo_ms"], tuple(_stage(*each) for each in stages.items())
    )


def _with_slo(application: Application, slo_ms: float | None) -> Application:
    """With an SLO of its own, which is then split anew."""
    if slo_ms is None:
        return application
    stages = tuple(replace(stage, slo_ms=None) for stage in application.stages)
    return replace(application, slo_ms=slo_ms, stages=stages)


def _stage(name: Any, values: Any) -> Stage:
    values = {"model": values} if isinstance(values, str) else values
    if not isinstance(values, dict) or "model" not in values:
        raise InputError("must be a model, or {model: NAME, after: [STAGES]}", field=f"stages, {name}", value=values)
    _known(values, _STAGE_FIELDS, "a stage")
    after = values.get("after", [])
    after = [after] if isinstance(after, str) else after
    if not isinstance(after, list):
        raise InputError("must be names of stages", field=f"stages, {name}, after", value=after)
    rest = {field: values[field] for field in ("per_request", "slo_ms") if field in values}
    return Stage(str(name), values["model"], tuple(map(str, after)), **rest)


def _known(values: Mapping[str, Any], fields: tuple[str, ...], what: str) -> None:
    for name in values:
        if name not in fields:
            raise InputError(f"is not a field of {what}", value=name, hint=nearest(str(name), fields))


def read_gpulet_applications(path: Path, rates: Mapping[str, float]) -> list[Application]:
    """Read gpulet's file of one application, or its list of them; `rates` by name, "" for all others."""
    content = read_object(path, _CONTENT)
    if "App_specs" not in content:
        name = str(content.get("Name", path.stem))
        return [read_gpulet_application(path, _rate_of(name, rates, path))]
    found = []
    for number, each in enumerate(_list(path, content, "App_specs")):
        if not isinstance(each, dict) or not {"name", "file"} <= set(each):
            raise InputError("must be {name, file}", file=path, field=f"App_specs, {number}", value=each)
        file = path.parent / str(each["file"])
        named = read_gpulet_application(file, _rate_of(str(each["name"]), rates, path))
        found.append(replace(named, name=str(each["name"])))
    for name in set(rates) - {each.name for each in found} - {""}:
        raise InputError("is not an application of this file", file=path, field="rate", value=name)
    return found


def _rate_of(name: str, rates: Mapping[str, float], path: Path) -> float:
    if name not in rates and "" not in rates:
        raise InputError("has no rate", file=path, value=name, hint=f"Give --rate {name}=100")
    return rates.get(name, rates.get("", 0.0))


def read_gpulet_application(path: Path, rate_per_s: float) -> Application:
    """Read an application of gpulet's, with the SLO that each of its models has there."""
    content = read_object(path, _CONTENT)
    nodes = [
        (kind, each) for kind in ("Input", "Models", "Output") for each in _list(path, content, kind)
    ]  # fmt: skip
    for number, (kind, each) in enumerate(nodes):
        if not isinstance(each, dict) or each.get("ID") != number:
            found = each.get("ID") if isinstance(each, dict) else each
            rule = f"must be {number}, its position: inputs first, then models, then outputs"
            raise InputError(rule, file=path, field=f"{kind}, ID", value=found)
    _check_edges(path, [each for _, each in nodes])
    try:
        stages = _gpulet_stages(nodes)
        whole = Application(str(content.get("Name") or path.stem), rate_per_s, 1.0, stages)
    except InputError as error:
        raise error.located(path) from None
    return replace(whole, slo_ms=whole.longest({each.name: each.slo_ms or 0.0 for each in stages}))


def _gpulet_stages(nodes: list[tuple[str, dict[str, Any]]]) -> tuple[Stage, ...]:
    models = {each["ID"]: each for kind, each in nodes if kind == "Models"}
    for each in models.values():
        for field in ("model", "SLO"):
            if field not in each:
                raise InputError("is missing", field=f"Models, {each['ID']}, {field}")
    times = [each["model"] for each in models.values()]
    names = {
        number: each["model"] if times.count(each["model"]) == 1 else f"{each['model']}-{number}"
        for number, each in models.items()
    }
    return tuple(
        Stage(
            names[number], str(each["model"]),
            tuple(names[other] for other in each["input"] if other in names), slo_ms=each["SLO"],
        ) for number, each in models.items()
    )  # fmt: skip


def _check_edges(path: Path, nodes: list[dict[str, Any]]) -> None:
    """Whoever sends to a node must be among those that it receives from, and the other way round."""
    for each in nodes:
        for there, back in (("output", "input"), ("input", "output")):
            ends = each.get(there, [])
            for end in ends if isinstance(ends, list) else [ends]:
                if end not in range(len(nodes)) or isinstance(end, bool):
                    raise InputError("is not the ID of a node", file=path, field=f"{each['ID']}, {there}", value=end)
                if each["ID"] not in nodes[end].get(back, []):
                    rule = f"does not name {each['ID']} as its {back}"
                    raise InputError(rule, file=path, field=f"{each['ID']}, {there}", value=end)


def _list(path: Path, content: dict[str, Any], name: str) -> list[Any]:
    found = content.get(name)
    if not isinstance(found, list) or not found:
        raise InputError("must be a list with at least one entry", file=path, field=name)
    return found
