"""Floats by exact fractions: what an operation gives if it is rounded once, by any rounding."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal, NamedTuple

Rounding = Literal["rn", "rz", "rm", "rp"]


class Format(NamedTuple):
    """A binary float."""

    digits: int
    """Of the significand, the leading one included."""
    least_exponent: int
    """Of the smallest normal number."""
    most_exponent: int


F16, BF16, F32, F64 = Format(11, -14, 15), Format(8, -126, 127), Format(24, -126, 127), Format(53, -1022, 1023)


def rounded(value: Fraction, form: Format, rounding: Rounding = "rn", *, zero_sign: float = 1.0) -> float:
    """Return the number of a format for an exact value; all formats here fit a Python float."""
    if value == 0:
        return math.copysign(0.0, zero_sign)
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent = exponent if size >= Fraction(2) ** exponent else exponent - 1
    step = Fraction(2) ** (max(exponent, form.least_exponent) - form.digits + 1)
    steps, rest = divmod(size, step)
    up = {
        "rn": rest * 2 > step or (rest * 2 == step and steps % 2 == 1),
        "rz": False,
        "rm": rest > 0 and value < 0,
        "rp": rest > 0 and value > 0,
    }[rounding]
    result = (steps + up) * step
    if result >= Fraction(2) ** (form.most_exponent + 1):
        most = (2 - Fraction(2) ** (1 - form.digits)) * Fraction(2) ** form.most_exponent
        outward = rounding == "rn" or (rounding == "rp" and value > 0) or (rounding == "rm" and value < 0)
        return (math.inf if outward else float(most)) * (1 if value > 0 else -1)
    return float(result) * (1 if value > 0 else -1)
