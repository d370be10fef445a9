"""Amounts as people write them: '500GB', '1.5h', '24'."""

from __future__ import annotations

import re

from gpuyard.core.errors import InputError

SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
GB_PER_MIB = 2**20 / 1e9
"""A GB is 10^9 bytes, here and in every name that ends in _gb; machines count in MiB, of 2^20 bytes."""
GB_OF_GIB = 2**30 / 1e9

GIGABYTES = {
    **{"": 1.0, "mb": 1e-3, "gb": 1.0, "tb": 1e3},
    **{"mib": GB_PER_MIB, "gib": 1024 * GB_PER_MIB, "tib": 1024**2 * GB_PER_MIB},
}
MEGABYTES_PER_SECOND = {"": 1.0, "mb/s": 1.0, "mbps": 1.0, "gb/s": 1000.0, "gbps": 1000.0}
GIGABITS_PER_SECOND = {"": 1.0, "gbps": 1.0, "gb/s": 1.0, "mbps": 1e-3}
PLAIN = {"": 1.0}

LARGEST = 1e18
"""No number from outside may be larger; products of a few of them are still finite."""

_AMOUNT = re.compile(r"^\s*((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)\s*([A-Za-z/]*)\s*$")


def amount(text: str, units: dict[str, float], field: str) -> float:
    """Read a number with an optional unit; raises InputError naming the units that are known."""
    match = _AMOUNT.match(text)
    unit = match.group(2).lower() if match else None
    if match is None or unit not in units:
        known = ", ".join(name for name in units if name)
        raise InputError("is not a number" + (f" with a unit of {known}" if known else ""), field=field, value=text)
    value = float(match.group(1)) * units[unit]
    if value > LARGEST:
        raise InputError(f"is beyond {LARGEST:g}", field=field, value=text)
    return value


def seconds(text: str, field: str = "time") -> float:
    """Read a time span: '300', '5m', '1.5h', '2d'."""
    return amount(text, SECONDS, field)
