"""Functions that Python runs as they are and that kernels compile into themselves; numba need not be there.

A compilable function takes numbers, arrays and named tuples of arrays, makes no arrays of its own and may call other
compilable functions. Core stays free of numba: the functions are only noted here, and `core.kernel`, once imported,
tells the compiler of those noted so far and of each new one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Marks:
    """Functions that were marked, in order, and who wants to hear of them."""

    def __init__(self) -> None:
        self._functions: list[Callable[..., Any]] = []
        self._listeners: list[Callable[[Callable[..., Any]], object]] = []

    def add(self, function: Callable[..., Any]) -> None:
        """Note a function and pass it on to all who listen."""
        self._functions.append(function)
        for listener in self._listeners:
            listener(function)

    def listen(self, listener: Callable[[Callable[..., Any]], object]) -> None:
        """Call this with every function marked so far, and with each new one at once."""
        for function in self._functions:
            listener(function)
        self._listeners.append(listener)


MARKS = Marks()


def compilable(function: F) -> F:
    """Mark a function that kernels may call; from Python it is just that function."""
    MARKS.add(function)
    return function
