"""Amounts as people write them: '500GB', '1.5h', '24'."""

from __future__ import annotations

import re

from gpuyard.core.errors import InputError

SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
GIGABYTES = {"": 1.0, "mb": 1e-3, "gb": 1.0, "tb": 1e3, "mib": 1 / 1024, "gib": 1.0, "tib": 1024.0}
MEGABYTES_PER_SECOND = {"": 1.0, "mb/s": 1.0, "mbps": 1.0, "gb/s": 1000.0, "gbps": 1000.0}
GIGABITS_PER_SECOND = {"": 1.0, "gbps": 1.0, "gb/s": 1.0, "mbps": 1e-3}
PLAIN = {"": 1.0}

_AMOUNT = re.compile(r"^\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z/]*)\s*$")


def amount(text: str, units: dict[str, float], field: str) -> float:
    """Read a number with an optional unit; raises InputError naming the units that are known."""
    match = _AMOUNT.match(text)
    unit = match.group(2).lower() if match else None
    if match is None or unit not in units:
        known = ", ".join(name for name in units if name)
        raise InputError("is not a number" + (f" with a unit of {known}" if known else ""), field=field, value=text)
    return float(match.group(1)) * units[unit]


def seconds(text: str, field: str = "time") -> float:
    """Read a time span: '300', '5m', '1.5h', '2d'."""
    return amount(text, SECONDS, field)


def gigabytes(text: str, field: str = "memory") -> float:
    """Read an amount of memory: '500', '500GB', '1TB', '262144MiB' (as GiB, as machines count it)."""
    return amount(text, GIGABYTES, field)
