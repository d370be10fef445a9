"""gpulet's rate traces: text, one number of requests a second on each line."""

from __future__ import annotations

from os import PathLike

import numpy as np

from gpuyard.core.arguments import check_number
from gpuyard.core.arrays import Floats
from gpuyard.core.errors import InputError
from gpuyard.traces.source import Source

STEP_S = 20.0
"""How long a line's rate holds."""


def read_rates(path: str | PathLike[str]) -> Floats:
    """Read a rate file; 0 is a rate like any other, and fractions count, which gpulet cuts off."""
    source = Source.open(path)
    lines = source.text().rstrip().splitlines()
    if not lines:
        raise InputError("holds no rates", file=source.name, hint="Write one number of requests a second on each line")
    return np.array([_rate(source.name, row, line.strip()) for row, line in enumerate(lines, 1)])


def _rate(file: str, row: int, text: str) -> float:
    try:
        rate = float(text)
        check_number(rate, "rate", least=0)
    except ValueError:
        rule = "is not a number of requests a second"
        raise InputError(rule, file=file, row=row, field="rate", value=text) from None
    except InputError as error:
        raise error.located(file, row) from None
    return rate
