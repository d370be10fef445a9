"""Functions marked @compilable: plain Python when called from Python, compiled into the kernels that call them."""

import os
import subprocess
import sys
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from gpuyard.core.arrays import Floats
from gpuyard.core.compilable import Marks, compilable
from gpuyard.core.kernel import inner, kernel
from gpuyard.core.kernel_cache import VARIABLE

ROOT = Path(__file__).resolve().parents[2]
njit: Any = numba.njit


class Pair(NamedTuple):
    above: Floats
    below: Floats


@compilable
def ratio(pair: Pair, place: int) -> float:
    return float(pair.above[place] / pair.below[place])


@compilable
def larger_ratio(pair: Pair) -> float:
    return max(ratio(pair, 0), ratio(pair, 1))


@compilable
def new_array(length: int) -> Floats:
    return np.zeros(length)


@inner
def in_part(pair: Pair) -> float:
    return larger_ratio(pair)


@kernel
def in_kernel(pair: Pair) -> float:
    return in_part(pair) + ratio(pair, 0)


PAIR = Pair(np.array([1.0, 6.0]), np.array([2.0, 3.0]))


def test_it_is_the_same_from_python_and_from_a_kernel() -> None:
    assert larger_ratio(PAIR) == 2.0
    assert in_kernel(PAIR) == 2.5


def test_it_stays_a_plain_function() -> None:
    assert isinstance(ratio, FunctionType)


def test_it_divides_by_zero_as_numpy_does_whoever_calls_it() -> None:
    checked = njit(lambda pair: larger_ratio(pair) + 1.0)  # numba's default would raise ZeroDivisionError
    assert checked(Pair(np.ones(2), np.array([1.0, 0.0]))) == np.inf


def test_it_borrows_its_arguments_so_it_cannot_make_arrays() -> None:
    with pytest.raises(TypingError, match="new_array"):
        njit(lambda: new_array(3)[0])()


def test_marks_reach_the_compiler_whether_they_came_before_or_after_it() -> None:
    marks = Marks()
    heard: list[object] = []
    marks.add(ratio)
    marks.listen(heard.append)
    marks.add(new_array)
    assert heard == [ratio, new_array]


PROGRAM = """
import sys
import numpy as np
from gpuyard.core.compilable import compilable

@compilable
def early(numbers, place):
    return numbers[place] + 1.0

print(early(np.arange(3.0), 2), "numba" in sys.modules)
from gpuyard.core.kernel import kernel

@compilable
def late(numbers):
    return early(numbers, 1)

@kernel
def both(numbers):
    return late(numbers) + early(numbers, 2)

print(both(np.arange(3.0)), sum(both.stats.cache_hits.values()))
"""


def test_without_kernels_numba_is_not_needed_and_callers_are_cached_on_disk(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program)]
    environment = {**os.environ, VARIABLE: str(tmp_path / "kernels")}
    first, second = (
        subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert first == "3.0 False\n5.0 0\n"
    assert second == "3.0 False\n5.0 1\n"
