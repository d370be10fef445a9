"""What an emulated GPU draws and how warm it is: both follow its utilisation, at once and in a straight line."""

from __future__ import annotations

IDLE_CELSIUS = 34.0
BUSY_CELSIUS = 74.0


def watts(idle: float, busy: float, utilisation: float) -> float:
    """Power drawn at a utilisation between 0 and 1."""
    return idle + (busy - idle) * utilisation


def celsius(utilisation: float) -> float:
    """Temperature at a utilisation between 0 and 1."""
    return IDLE_CELSIUS + (BUSY_CELSIUS - IDLE_CELSIUS) * utilisation


def c_header() -> str:
    """Write the figures as a C header for the emulated NVML library."""
    return f"#pragma once\n\n#define IDLE_CELSIUS {IDLE_CELSIUS}\n#define BUSY_CELSIUS {BUSY_CELSIUS}\n"
