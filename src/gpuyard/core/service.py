"""What is served: inference that has to answer so many requests a second, each in time."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.core.arguments import check_name, check_number, check_served
from gpuyard.core.errors import InputError
from gpuyard.core.workload import ANY_TYPE, DEFAULT_TENANT

_TEXTS: dict[str, tuple[type, ...]] = {"service_id": (str, int), "model": (str,), "tenant": (str,)}


@dataclass(frozen=True, slots=True)
class Service:
    """One inference service as a user would describe it; a Job ends when its work is done, a service goes on."""

    service_id: int | str
    model: str
    rate_per_s: float
    """Requests that arrive in a second, on the mean."""
    slo_ms: float
    """The service-level objective: milliseconds within which a request has to be answered."""
    tenant: str = DEFAULT_TENANT
    priority: int = 0
    """Whoever has the higher one is served first when not everything fits."""
    gpu_types: str = ANY_TYPE
    """Types this service can use, joined by '|'; empty means any."""
    at_once: int = 1
    """Requests that come together: a stage of an application is asked several times for each of its requests."""

    def __post_init__(self) -> None:
        for name in ("rate_per_s", "slo_ms"):
            check_served(getattr(self, name), name, self._whose)
        for name, kinds in _TEXTS.items():
            if not isinstance(getattr(self, name), kinds):
                raise self._refusal("must be text", name)
            check_name(str(getattr(self, name)), name, self._whose)
        check_number(self.at_once, "at_once", least=1, whole=True)
        if isinstance(self.priority, bool) or not isinstance(self.priority, int):
            raise self._refusal("must be a whole number", "priority")
        if not isinstance(self.gpu_types, str):
            raise self._refusal("must be text: types joined by '|'", "gpu_types")

    @property
    def _whose(self) -> str:
        return f" (service {self.service_id!r})"

    def _refusal(self, rule: str, field: str) -> InputError:
        value = getattr(self, field)
        unquoted = isinstance(value, (int, float)) and rule.startswith("must be text")
        hint = f"In YAML, put it in quotes: '{value}'" if unquoted else None
        return InputError(rule + self._whose, field=field, value=value, hint=hint)
