"""Objects of a program that graphs refer to: destroyed with the last of them, once."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

import pytest
from tests.native.cuda.driver import INVALID_VALUE, Driver

Make = Callable[[int], ctypes.c_void_p]


@pytest.fixture
def destroyed() -> list[int]:
    return []


@pytest.fixture
def make(driver: Driver, destroyed: list[int]) -> Iterator[Make]:
    """Make an object with so many references; its number is remembered when it is destroyed."""
    destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda number: destroyed.append(number or 0))

    def made(references: int) -> ctypes.c_void_p:
        new = ctypes.c_void_p()
        driver.call("cuUserObjectCreate", ctypes.byref(new), ctypes.c_void_p(7), destroy, references, 1)
        return new

    yield made
    assert destroyed == [7], "once, whatever held it"


@pytest.fixture
def graph(driver: Driver) -> ctypes.c_void_p:
    new = ctypes.c_void_p()
    driver.call("cuGraphCreate", ctypes.byref(new), 0)
    return new


def test_the_last_reference_destroys(driver: Driver, make: Make, destroyed: list[int]) -> None:
    new = make(2)
    driver.call("cuUserObjectRetain", new, 1)
    driver.call("cuUserObjectRelease", new, 2)
    assert destroyed == []
    driver.call("cuUserObjectRelease", new, 1)
    assert driver.result("cuUserObjectRelease", new, 1) == INVALID_VALUE


def test_a_graph_its_copies_and_what_was_made_of_it_hold_an_object(
    driver: Driver, make: Make, graph: ctypes.c_void_p, destroyed: list[int]
) -> None:
    new, clone, made = make(1), ctypes.c_void_p(), ctypes.c_void_p()
    driver.call("cuGraphRetainUserObject", graph, new, 1, 1)  # hands its reference over
    driver.call("cuGraphClone", ctypes.byref(clone), graph)
    driver.call("cuGraphInstantiateWithFlags", ctypes.byref(made), graph, ctypes.c_uint64(0))
    for function, holder in (("cuGraphDestroy", graph), ("cuGraphDestroy", clone), ("cuGraphExecDestroy", made)):
        assert destroyed == []
        driver.call(function, holder)


def test_a_graph_gives_back_what_it_has_and_no_more(
    driver: Driver, make: Make, graph: ctypes.c_void_p, destroyed: list[int]
) -> None:
    new = make(1)
    driver.call("cuGraphRetainUserObject", graph, new, 3, 0)
    assert driver.result("cuGraphReleaseUserObject", graph, new, 4) == INVALID_VALUE
    driver.call("cuGraphReleaseUserObject", graph, new, 2)
    driver.call("cuUserObjectRelease", new, 1)
    assert destroyed == []
    driver.call("cuGraphReleaseUserObject", graph, new, 1)
    assert driver.result("cuGraphReleaseUserObject", graph, new, 1) == INVALID_VALUE
    driver.call("cuGraphDestroy", graph)


def test_what_makes_no_sense_is_refused(driver: Driver, make: Make, graph: ctypes.c_void_p) -> None:
    new, none = make(1), ctypes.c_void_p()
    destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
    for references, flags in ((0, 1), (1, 0)):
        wrong = driver.result("cuUserObjectCreate", ctypes.byref(none), None, destroy, references, flags)
        assert wrong == INVALID_VALUE
    assert driver.result("cuUserObjectRetain", new, 0) == INVALID_VALUE
    assert driver.result("cuUserObjectRetain", graph, 1) == INVALID_VALUE
    assert driver.result("cuGraphRetainUserObject", graph, new, 1, 2) == INVALID_VALUE
    driver.call("cuUserObjectRelease", new, 1)
    driver.call("cuGraphDestroy", graph)
