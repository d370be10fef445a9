"""Lists of services to plan for: gpulet's task lists as they are, and our YAML; and plans in gpulet's own format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpuyard.core.application import Application
from gpuyard.core.arguments import check_path
from gpuyard.core.errors import InputError, nearest
from gpuyard.core.served_names import check_served_names
from gpuyard.core.service import Service
from gpuyard.policies.partition.interface import PartitionPlan
from gpuyard.profiles import Zoo
from gpuyard.profiles.inference import gpulet_ids, inference_model
from gpuyard.traces.applications import from_record, read_gpulet_applications
from gpuyard.traces.source import Source
from gpuyard.traces.yaml_rows import Record, read_lists

VERSION = "services/1"
_FIELDS = ("service_id", "model", "rate_per_s", "slo_ms", "priority", "gpu_types")
"""What a planner of slices goes by; it would pass over all else that a service may have."""


@dataclass(frozen=True)
class Asked:
    """All that a file asks for."""

    services: tuple[Service, ...]
    applications: tuple[Application, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    """By model, the row that asks for it first, where the file has rows."""

    @property
    def models(self) -> tuple[str, ...]:
        """All that are asked for."""
        of_stages = (stage.model for each in self.applications for stage in each.stages)
        return tuple(dict.fromkeys([*(each.model for each in self.services), *of_stages]))

    def named_by(self, zoo: Zoo | None) -> Asked:
        """The same with each model's one name instead of any of them."""
        names = {name: inference_model(name, zoo) for name in self.models}
        rows = {names[name]: row for name, row in sorted(self.rows.items(), key=lambda each: -each[1])}
        services = tuple(replace(each, model=names[each.model]) for each in self.services)
        applications = tuple(
            replace(each, stages=tuple(replace(stage, model=names[stage.model]) for stage in each.stages))
            for each in self.applications
        )
        return Asked(services, applications, rows)

    def located(self, error: InputError, path: str | Path) -> InputError:
        """An error that a planner found; with the place of the model if it is about one, as planners know no files."""
        about_model = error.file is None and error.field == "model"
        return error.located(path, self.rows.get(str(error.value))) if about_model else error


def read_asked(path: str | Path, rates: Mapping[str, float] | None = None, zoo: Zoo | None = None) -> Asked:
    """Read services and applications; one that nobody asks anything of is left out.

    `rates` are those of gpulet's applications, whose files have none; "" is for all others. Models are found by any of
    the names that they have in the zoo, or in the bundled one.
    """
    return _read(path, rates).named_by(zoo)


def _read(path: str | Path, rates: Mapping[str, float] | None) -> Asked:
    check_path(path, "tasks")
    if not Path(path).is_file():
        raise InputError("does not exist", file=path, hint="Name a task list, or a YAML file of services")
    if Path(path).suffix.lower() == ".json":
        found = read_gpulet_applications(Path(path), rates or {})
        _check_paths(path, [], [(None, each) for each in found])
        return Asked((), _without_twins(path, found))
    if rates:
        raise InputError("is for gpulet's applications; this file has its rates", file=path, field="rate")
    source = Source.open(path)
    if Path(path).suffix.lower() not in (".yaml", ".yml"):
        listed = list(_task_list(source))
        if not listed:
            raise InputError("names no service with a rate above 0", file=path)
        return Asked(_unique(path, listed), rows=_rows_of_models(listed, []))
    lists = read_lists(source, VERSION, ("services", "applications"))
    services = [(record.row, _from_record(source, record)) for record in lists["services"]]
    applications = [(record.row, from_record(source, record)) for record in lists["applications"]]
    _check_paths(path, services, applications)
    return Asked(
        _unique(path, services), _without_twins(path, [each for _, each in applications], services),
        _rows_of_models(services, applications),
    )  # fmt: skip


def _check_paths(
    path: str | Path, services: Sequence[tuple[int, Service]], applications: Sequence[tuple[int | None, Application]]
) -> None:
    """What is planned is to be served: no name may be in the way of another. Rows are told where there are any."""
    rows: dict[str, int | None] = {str(each.service_id): row for row, each in services}
    for row, each in applications:
        rows |= {each.name: row, **{each.service_id(stage.name): row for stage in each.stages}}
    try:
        check_served_names(rows)
    except InputError as error:
        raise error.located(path, rows[str(error.value)]) from None


def _rows_of_models(services: list[tuple[int, Service]], applications: list[tuple[int, Application]]) -> dict[str, int]:
    pairs = [(row, each.model) for row, each in services]
    pairs += [(row, stage.model) for row, each in applications for stage in each.stages]
    return {model: row for row, model in reversed(pairs)}


def _unique(path: str | Path, found: list[tuple[int, Service]]) -> tuple[Service, ...]:
    for service, times in Counter(service.service_id for _, service in found).items():
        if times > 1:
            row = [row for row, each in found if each.service_id == service][1]
            rule = "stands twice: a service has one rate and one SLO"
            raise InputError(rule, file=path, row=row, field="service_id", value=service)
    return tuple(service for _, service in found)


def _without_twins(
    path: str | Path, found: list[Application], services: Sequence[tuple[int, Service]] = ()
) -> tuple[Application, ...]:  # fmt: skip
    for name, times in Counter(each.name for each in found).items():
        if times > 1:
            raise InputError("stands twice: an application has one rate and one SLO", file=path, value=name)
    names = {name for each in found for name in (each.name, *(each.service_id(stage.name) for stage in each.stages))}
    for row, service in services:
        if str(service.service_id) in names:
            rule = "is the name of an application, or of a stage of one, too"
            raise InputError(rule, file=path, row=row, field="service_id", value=service.service_id)
    return tuple(found)


def _from_record(source: Source, record: Record) -> Service:
    for name in record.values:
        if name not in _FIELDS:
            hint = nearest(name, _FIELDS)
            raise InputError(
                "is not a field of a service to plan for", file=source.name, row=record.row, value=name, hint=hint
            )
    values = {"service_id": record.values.get("model"), **record.values}
    for name in ("model", "rate_per_s", "slo_ms"):
        if name not in values:
            raise InputError("is missing", file=source.name, row=record.row, field=name)
    return _service(source, record.row, values)


def _task_list(source: Source) -> Iterable[tuple[int, Service]]:
    """Gpulet's: the number of tasks, then a line `model_id,rate,slo_ms,` for each."""
    lines = [(row, line.strip()) for row, line in enumerate(source.text().splitlines(), start=1) if line.strip()]
    count = lines[0][1].rstrip(",") if lines else ""
    if not count.isdigit() or int(count) != len(lines) - 1:
        rule = f"must be the number of tasks, of which {max(len(lines) - 1, 0)} follow"
        raise InputError(rule, file=source.name, row=1, value=count, hint="Then come lines of model_id,rate,slo_ms,")
    ids = gpulet_ids()
    for row, line in lines[1:]:
        cells = [each.strip() for each in line.rstrip(",").split(",")]
        if len(cells) != 3:
            raise InputError("must be model_id,rate,slo_ms,", file=source.name, row=row, value=line)
        number, rate, slo_ms = (
            _number(source, row, *pair) for pair in zip(("model_id", "rate", "slo_ms"), cells, strict=True)
        )
        if number not in range(len(ids)):
            rule = f"is not the number of a model, 0 to {len(ids) - 1}"
            raise InputError(rule, file=source.name, row=row, field="model_id", value=cells[0])
        if rate:
            name = ids[int(number)]
            values = {"service_id": name, "model": name, "rate_per_s": rate, "slo_ms": slo_ms}
            yield row, _service(source, row, values)


def _number(source: Source, row: int, field: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError("is not a number", file=source.name, row=row, field=field, value=text) from None


def _service(source: Source, row: int, values: dict[str, Any]) -> Service:
    try:
        return Service(**values)
    except InputError as error:
        raise error.located(source.name, row) from None


def model_list(plan: PartitionPlan) -> str:
    """A plan as gpulet's ModelList.txt has it: `gpu,percent,twin,model,batch,duty_ms` for each turn; or EMPTY."""
    if plan.unserved:
        return "EMPTY\n"
    numbers = {place: n for n, place in enumerate(dict.fromkeys((each.node, each.gpu) for each in plan.slices))}
    lines, halves = [], Counter[tuple[str, int]]()
    for each in plan.slices:
        place = (each.node, each.gpu)
        head = f"{numbers[place]},{each.thousandths // 10},{halves[place]}"
        halves[place] += each.thousandths == 500
        lines += [f"{head},{turn.service},{turn.batch},{each.period_s * 1000:.6f}" for turn in each.turns]
        lines += [] if each.turns else [f"{head},reserved,32,0.000000"]
    return "\n".join(lines) + "\n"
