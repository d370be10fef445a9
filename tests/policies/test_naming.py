"""Policies as they are written: `name:option=value`, for every kind of policy alike."""

import pickle
import subprocess
import sys
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.core.errors import InputError
from gpuyard.policies.naming import (
    SPANS,
    Choice,
    PolicyName,
    Quantity,
    look_up,
    option,
    option_values,
    options_of,
    parse,
    written,
)


@dataclass(frozen=True)
class Packing:
    limit_s: float = option("limit", 2.0, Quantity("is not a positive time", SPANS, "ms", least=1e-9))
    weight: float = option("weight", 0.5, Quantity("is not a factor from 0 to 1", most=1.0))
    fit: str = option("fit", "best", Choice(("best", "first")))
    seen: int = 0  # not an option: it is not declared as one


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("fifo", "fifo", {}),
        ("spatial:capacity=1.2,interference=0.9", "spatial", {"capacity": "1.2", "interference": "0.9"}),
        (" tune : fit = best , weight=1 ", "tune", {"fit": "best", "weight": "1"}),
        ("my/file.py:Mine", "my/file.py:Mine", {}),
        ("my/file.py:Mine:limit=2ms", "my/file.py:Mine", {"limit": "2ms"}),
        ("", "", {}),
    ],
)
def test_a_name_and_its_options_are_told_apart(text: str, name: str, options: dict[str, str]) -> None:
    assert parse(text) == PolicyName(name, options)


WORDS = st.text("abcdefghijklmnopqrstuvwxyz0123456789.-_/", min_size=1, max_size=8)


@given(WORDS, st.dictionaries(WORDS, WORDS, max_size=4), st.booleans())
def test_what_is_written_reads_the_same(name: str, options: dict[str, str], is_file: bool) -> None:
    said = PolicyName(f"{name}.py:Mine" if is_file else name, options)
    assert parse(str(said)) == said
    assert pickle.loads(pickle.dumps(said)) == said
    assert hash(parse(str(said))) == hash(said)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tune:weight", "field policy: 'weight' lacks a value: write weight=…"),
        ("tune:weight=", "field policy: 'weight' lacks a value: write weight=…"),
        ("tune:=3", "field policy: '=3' is not an option of tune: write option=value"),
        ("tune:", "field policy: '' is not an option of tune: write option=value"),
        ("tune:fit=best,", "field policy: '' is not an option of tune: write option=value"),
        ("tune:weight=1,weight=0", "field policy: 'weight' is given twice"),
        ("tune:wieght=1", "field policy: 'wieght' is not an option of tune. Did you mean 'weight'?"),
        ("tune:weight=2", "field policy, weight: '2' is not a factor from 0 to 1"),
        ("tune:weight=heavy", "field policy, weight: 'heavy' is not a number"),
        ("tune:limit=2", "field policy, limit: '2' is not a number with a unit of s, ms, us"),
        ("tune:limit=0ms", "field policy, limit: '0ms' is not a positive time"),
        ("tune:fit=frist", "field policy, fit: 'frist' is not one of best, first. Did you mean 'first'"),
        ("tune:seen=3", "field policy: 'seen' is not an option of tune. Known: fit, limit, weight"),
    ],
)
def test_mistakes_name_option_value_and_rule(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        option_values(parse(text), Packing)
    assert message in str(caught.value)


def test_whoever_asks_says_where_the_mistake_is() -> None:
    with pytest.raises(InputError, match="field sharing, weight: '2' is not a factor"):
        option_values(parse("tune:weight=2", "sharing"), Packing, "sharing")


def test_what_has_no_options_says_so() -> None:
    with pytest.raises(InputError, match=r"'age' is not an option of fifo\. fifo has no options"):
        option_values(parse("fifo:age=1"), lambda snapshot: snapshot)


def test_options_become_attributes_and_may_be_left_out() -> None:
    assert option_values(parse("tune:limit=2s,fit=first"), Packing) == {"limit_s": 2.0, "fit": "first"}
    assert option_values(parse("tune"), Packing) == {}
    assert list(options_of(Packing)) == ["limit", "weight", "fit"]


def test_a_policy_is_written_with_all_its_options() -> None:
    policy = Packing(limit_s=0.0025, weight=1.0)
    assert str(written("tune", policy)) == "tune:limit=2.5ms,weight=1,fit=best"
    assert Packing(**option_values(written("tune", policy), Packing)) == policy


def test_a_name_that_is_not_known_gets_the_nearest() -> None:
    assert look_up("fifo", {"fifo": 1}, "an order") == 1
    with pytest.raises(InputError, match=r"field policy: 'fiffo' is not an order\. Did you mean 'fifo'\?"):
        look_up("fiffo", {"fifo": 1}, "an order")


def test_it_is_light_to_import() -> None:
    """Every process of an emulated program imports it."""
    heavy = ("numpy", "numba", "scipy", "polars", "pydantic", "yaml", "torch")
    script = f"import sys, gpuyard.policies.naming; print(*[each for each in {heavy} if each in sys.modules])"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""
