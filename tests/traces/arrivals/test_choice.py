"""Loads by name: each takes the files that it can use, and says so where it cannot."""

from pathlib import Path

import numpy as np
import pytest

from gpuyard.core.errors import InputError
from gpuyard.traces.arrivals import LOADS, constant, make_arrivals, poisson, recorded, write_arrivals

RATES: dict[str | int, float] = {"a": 40.0, 2: 20.0}


@pytest.fixture
def requests(tmp_path: Path) -> str:
    write_arrivals(constant(RATES, 10.0), tmp_path / "requests.csv")
    return str(tmp_path / "requests.csv")


@pytest.fixture
def rates(tmp_path: Path) -> str:
    (tmp_path / "rates.txt").write_text("1\n3\n")
    return str(tmp_path / "rates.txt")


def test_loads_without_files_are_their_makers() -> None:
    np.testing.assert_array_equal(make_arrivals("poisson", RATES, 9.0, 4).times_s, poisson(RATES, 9.0, 4).times_s)
    np.testing.assert_array_equal(make_arrivals("constant", RATES, 9.0).times_s, constant(RATES, 9.0).times_s)


def test_a_file_of_requests_is_cut_at_the_duration(requests: str) -> None:
    assert make_arrivals("file", RATES, 5.0, files=[requests]).counts == {"a": 200, 2: 100}
    assert make_arrivals("file", RATES, 50.0, files=[requests]).counts == {"a": 400, 2: 200}


def test_a_trace_is_scaled_unless_it_shall_not_be(requests: str) -> None:
    assert make_arrivals("trace", RATES, 5.0, files=[requests]).counts == {"a": 200, 2: 100}
    as_it_is = make_arrivals("trace", RATES, 5.0, files=[requests], speed=1.0, by="service", scaled=False)
    assert as_it_is.counts == {"a": 200, 2: 100}
    own = make_arrivals("trace", RATES, 5.0, files=[f"a={requests}", f"2={requests}"])
    np.testing.assert_array_equal(own.times_s, recorded(requests, RATES, 5.0).times_s)


def test_a_shared_rate_file_gives_the_shape_and_an_own_one_the_rates(rates: str) -> None:
    shared = make_arrivals("fluctuating", RATES, 400.0, files=[rates]).counts
    assert abs(shared["a"] - 16_000) < 5 * 16_000**0.5
    own = make_arrivals("fluctuating", RATES, 400.0, files=[f"2={rates}", f"a={rates}"]).counts
    assert abs(own["a"] - 800) < 5 * 800**0.5
    assert list(own) == ["a", 2]
    assert make_arrivals("fluctuating", {"a": 99.0}, 400.0, files=[rates], scaled=False).counts["a"] < 1000


@pytest.mark.parametrize(
    ("load", "files", "rule"),
    [
        ("poison", [], "Did you mean 'poisson'"),
        ("poisson", ["x"], "needs a load that follows a file"),
        ("trace", [], "name it with --trace"),
        ("file", ["x", "y"], "takes one file"),
        ("trace", ["a=x", "b=y"], "is not SERVICE=FILE"),
        ("trace", ["a=x", "y"], "is not SERVICE=FILE"),
        ("fluctuating", ["a=x"], "has no file of its own"),
        ("trace", ["absent"], "does not exist"),
    ],
)
def test_wrong_files_are_refused(load: str, files: list[str], rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        make_arrivals(load, RATES, 10.0, files=files)


def test_every_load_says_what_it_is() -> None:
    assert all(LOADS.values())
