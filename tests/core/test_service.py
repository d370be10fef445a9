"""A service as a value."""

from dataclasses import FrozenInstanceError, replace
from math import inf, nan
from typing import Any

import pytest

from gpuyard.core.errors import InputError
from gpuyard.core.service import Service

CHAT = Service("chat", "bert", rate_per_s=120, slo_ms=50)


def test_what_is_left_out_is_as_for_a_job() -> None:
    assert (CHAT.tenant, CHAT.priority, CHAT.gpu_types) == ("default", 0, "")


def test_a_service_is_a_value() -> None:
    assert replace(CHAT) == CHAT
    assert {CHAT, replace(CHAT), replace(CHAT, slo_ms=60)} == {CHAT, replace(CHAT, slo_ms=60)}
    with pytest.raises(FrozenInstanceError):
        CHAT.slo_ms = 10  # type: ignore[misc]


@pytest.mark.parametrize(
    ("change", "field", "rule"),
    [
        *[({"rate_per_s": rate}, "rate_per_s", "must be a finite number above 0") for rate in (0, -1, inf, nan)],
        *[({"slo_ms": slo}, "slo_ms", "must be a finite number above 0") for slo in (0, -5.0, inf, nan)],
        *[({name: 123456789012345678901234567890}, name, "is beyond 1e+09") for name in ("rate_per_s", "slo_ms")],
        *[({name: " "}, name, "must not be blank") for name in ("model", "tenant")],
        *[({"model": text}, "model", "must be printable") for text in ("a\nb", "\x1b[31m", "\ud800")],
        ({"priority": 0.5}, "priority", "must be a whole number"),
    ],
)
def test_nonsense_is_refused(change: dict[str, Any], field: str, rule: str) -> None:
    with pytest.raises(InputError, match="service 'chat'") as caught:
        replace(CHAT, **change)
    assert caught.value.field == field
    assert rule in str(caught.value)


def test_a_service_needs_an_id() -> None:
    with pytest.raises(InputError, match="field service_id: '' must not be blank"):
        replace(CHAT, service_id="")
