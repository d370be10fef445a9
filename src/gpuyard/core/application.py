"""Applications: requests that go through several models, and have to be answered in time as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

from gpuyard.core.arguments import check_name, check_served
from gpuyard.core.errors import InputError, nearest
from gpuyard.core.service import Service

MOST_STAGES = 100


@dataclass(frozen=True)
class Stage:
    """One model of an application, and what it waits for."""

    name: str
    model: str
    after: tuple[str, ...] = ()
    """Stages whose answers it needs; none: the request itself is enough."""
    per_request: float = 1.0
    """How often it is asked for each request of the application."""
    slo_ms: float | None = None
    """Its own part of the time that there is; None: to be chosen."""

    @property
    def at_once(self) -> int:
        """The most that it is asked for one request of the application."""
        return ceil(self.per_request)

    def __post_init__(self) -> None:
        for field in ("name", "model"):
            text = getattr(self, field)
            if not isinstance(text, str):
                raise InputError("must be text", field=field, value=text)
            check_name(text, field)
        if "/" in self.name:
            raise InputError("must not have a '/'", field="stage", value=self.name)
        check_served(self.per_request, "per_request")
        if self.slo_ms is not None:
            check_served(self.slo_ms, "slo_ms")


@dataclass(frozen=True)
class Application:
    """Stages in the order in which they can run; a request ends with the last of them."""

    name: str
    rate_per_s: float
    slo_ms: float
    """From a request's arrival to the answer of the last stage."""
    stages: tuple[Stage, ...]

    def __post_init__(self) -> None:
        check_served(self.rate_per_s, "rate_per_s")
        check_served(self.slo_ms, "slo_ms")
        if not isinstance(self.name, str):
            raise InputError("must be text", field="name", value=self.name)
        check_name(self.name, "name")
        if not self.stages:
            raise self._refusal("needs at least one stage", "stages")
        if len(self.stages) > MOST_STAGES:
            raise self._refusal(f"are too many: at most {MOST_STAGES}", "stages", len(self.stages))
        names = [stage.name for stage in self.stages]
        for name in names:
            if names.count(name) > 1:
                raise self._refusal("stands twice", "stage", name)
        for stage in self.stages:
            for other in stage.after:
                if other not in names:
                    raise self._refusal("is not a stage", "after", other, nearest(str(other), names))
        object.__setattr__(self, "stages", self._in_order())

    def _refusal(self, rule: str, field: str, value: object = None, hint: str | None = None) -> InputError:
        return InputError(f"{rule} (application {self.name!r})", field=field, value=value, hint=hint)

    def _in_order(self) -> tuple[Stage, ...]:
        """Stages after all that they wait for."""
        found: dict[str, Stage] = {}
        while len(found) < len(self.stages):
            ready = [each for each in self.stages if each.name not in found and set(each.after) <= set(found)]
            if not ready:
                left = next(each.name for each in self.stages if each.name not in found)
                raise self._refusal("waits for itself: stages go round in a circle", "after", left)
            found |= {each.name: each for each in ready}
        return tuple(found.values())

    def service_id(self, stage: str) -> str:
        """What a stage's service is called: two applications may have the same model."""
        return f"{self.name}/{stage}"

    def at_rates(self, rates: Mapping[int | str, float]) -> Application:
        """The same at the rate for which all its stages are ready, where their services are planned for these."""
        rate_per_s = min(rates[self.service_id(stage.name)] / stage.per_request for stage in self.stages)
        return replace(self, rate_per_s=rate_per_s)

    def as_service(self) -> Service:
        """As those see it who ask it: one service whose models are those of its stages."""
        models = "+".join(dict.fromkeys(stage.model for stage in self.stages))
        return Service(self.name, models, self.rate_per_s, self.slo_ms)

    @cached_property
    def _next(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {each.name: [] for each in self.stages}
        for each in self.stages:
            for other in each.after:
                found[other].append(each.name)
        return found

    def longest(self, times: Mapping[str, float]) -> float:
        """The time until the last stage has answered, if each takes so long."""
        return max(self._until(times).values())

    def longest_through(self, times: Mapping[str, float]) -> dict[str, float]:
        """For each stage, the time that the longest way through it takes."""
        until, rest = self._until(times), dict[str, float]()
        for each in reversed(self.stages):
            rest[each.name] = max((times[name] + rest[name] for name in self._next[each.name]), default=0.0)
        return {name: until[name] + rest[name] for name in until}

    def _until(self, times: Mapping[str, float]) -> dict[str, float]:
        """When each stage has answered."""
        found: dict[str, float] = {}
        for each in self.stages:
            found[each.name] = times[each.name] + max((found[other] for other in each.after), default=0.0)
        return found
