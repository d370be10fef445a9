"""One point of a study: all that a run depends on, as plain values that files and command lines can carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from gpuyard.core import units
from gpuyard.core.errors import InputError, nearest
from gpuyard.simulation.options import Options

DEFAULT_CLUSTER = "16x8:cpus=24,memory=500GB"
"""The 128 GPUs of Synergy's main experiment."""

DEFAULT_LOAD = 9.0
DEFAULT_JOBS = 8000
DEFAULT_WINDOW = (4000, 5000)
"""Of the generated jobs these are measured: the cluster is full before and after."""

_DEFAULTS = Options()


def _seconds(value: Any) -> Any:
    try:
        return units.seconds(value) if isinstance(value, str) else value
    except InputError as error:
        raise ValueError(error.rule) from None


def _split(value: Any) -> Any:
    shares = value.split(",") if isinstance(value, str) else value
    try:
        image, language, speech = (float(share) for share in shares)
    except (TypeError, ValueError):
        image = language = speech = float("nan")
    if not (min(image, language, speech) >= 0 and 0 < image + language + speech < float("inf")):
        raise ValueError("must be three shares, IMAGE,LANGUAGE,SPEECH, none negative and not all 0")
    return image, language, speech


def _window(value: Any) -> Any:
    if value is None or value == "all":
        return value
    ends = value.split(":") if isinstance(value, str) else value
    try:
        first, last = (int(end) for end in ends)
    except (TypeError, ValueError):
        first = last = -1
    if not 0 <= first < last:
        raise ValueError("must be FIRST:LAST with 0 <= FIRST < LAST, or all")
    return first, last


def _quotas(value: Any) -> Any:
    """Read 'vision=16,speech=8', or several of it, as a mapping."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)):
        return value
    pairs = [str(item).rpartition("=")[::2] for item in items]
    if not all(tenant for tenant, _ in pairs):
        raise ValueError("must be TENANT=GPUS")
    return dict(pairs)


Seconds = Annotated[float, BeforeValidator(_seconds), Field(ge=0, allow_inf_nan=False)]
PositiveSeconds = Annotated[Seconds, Field(gt=0)]


class Setting(BaseModel):
    """One run's inputs; the names are those of the command line's options."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    policy: str = Field(default="fifo+tune", min_length=1)
    load: Annotated[float, Field(gt=0)] | None = None
    workload: str | None = None
    """A file; none: the generated workload."""
    cluster: str = DEFAULT_CLUSTER
    split: Annotated[tuple[float, float, float], BeforeValidator(_split)] = (20.0, 70.0, 10.0)
    seed: int = Field(default=42, ge=0)
    jobs: Annotated[int, Field(gt=0)] | None = None
    multi_gpu: bool | None = None
    small: bool = False
    arrivals: Literal["exponential", "trace", "static"] | None = None
    static: bool = False
    window: Annotated[tuple[int, int] | Literal["all"] | None, BeforeValidator(_window)] = None
    placement: str | None = None
    faithful: bool = False
    round: PositiveSeconds = _DEFAULTS.round_s
    restart_cost: Seconds = _DEFAULTS.restart_s
    migration_cost: Seconds = _DEFAULTS.migration_s
    checkpoint_every: PositiveSeconds = _DEFAULTS.checkpoint_every_s
    checkpoint_cost: Seconds = _DEFAULTS.checkpoint_s
    failures: str | None = None
    """A file of node failures."""
    failure_rate: float = Field(default=_DEFAULTS.failures_per_node_year, ge=0)
    repair_time: PositiveSeconds = _DEFAULTS.repair_s
    quota: Annotated[dict[str, Annotated[float, Field(ge=0)]], BeforeValidator(_quotas)] = Field(default_factory=dict)
    opt_time_limit: PositiveSeconds = _DEFAULTS.opt_time_limit_s
    timeline: bool = True

    @property
    def generated(self) -> bool:
        """Whether the workload is made rather than read."""
        return self.workload is None

    @property
    def measured(self) -> tuple[int, int] | None:
        """The window of jobs whose completion times count; None: all."""
        if self.window == "all":
            return None
        if self.window is None:
            return DEFAULT_WINDOW if self.generated and self.jobs is None else None
        return self.window

    def differing(self) -> dict[str, Any]:
        """Return what is not at its default, as JSON knows it."""
        return self.model_dump(mode="json", exclude_defaults=True)


def make_setting(values: Mapping[str, Any], *, file: object = None) -> Setting:
    """Check values from outside and return a setting; InputError names file, field, value and rule."""
    try:
        return Setting.model_validate(dict(values))
    except ValidationError as error:
        raise explain(error, Setting, file=file) from None


def explain(error: ValidationError, model: type[BaseModel], *, file: object = None) -> InputError:
    """Turn the first complaint of pydantic into an InputError."""
    first = error.errors(include_url=False)[0]
    place = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        return InputError("is not a setting", file=file, value=place[-1], hint=nearest(place[-1], model.model_fields))
    if not place:
        return InputError("must be names with values", file=file, value=first["input"])
    rule = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return InputError(rule[:1].lower() + rule[1:], file=file, field=place[0], value=first["input"])
