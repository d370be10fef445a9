"""Files of rates and of requests: read as they are, refused with file, row, value and rule."""

from pathlib import Path

import numpy as np
import pytest

from gpuyard.core.errors import InputError
from gpuyard.traces.arrivals import fluctuating, poisson, read_arrivals, read_rates, write_arrivals


def test_a_rate_file_has_one_number_a_line(tmp_path: Path) -> None:
    file = tmp_path / "rates.txt"
    file.write_text("100\n0\n 12.5\n\n")
    np.testing.assert_array_equal(read_rates(file), [100, 0, 12.5])
    assert fluctuating({"a": file}, 60.0).counts["a"] > 1500


@pytest.mark.parametrize(
    ("text", "row", "value"),
    [
        ("10\nfast\n", 2, "fast"),
        ("10\n-3\n", 2, -3.0),
        ("10\n\n20\n", 2, ""),
        ("nan\n", 1, None),
        ("1\n2\ninf\n", 3, None),
    ],
)
def test_a_bad_rate_is_named_with_file_and_row(tmp_path: Path, text: str, row: int, value: object) -> None:
    file = tmp_path / "rates.txt"
    file.write_text(text)
    with pytest.raises(InputError, match="number") as caught:
        read_rates(file)
    assert caught.value.file == str(file)
    assert caught.value.row == row
    assert value is None or caught.value.value == value


def test_an_empty_or_absent_rate_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(InputError, match="holds no rates"):
        read_rates(tmp_path / "empty")
    with pytest.raises(InputError, match="does not exist"):
        read_rates(tmp_path / "absent")


def test_requests_come_back_from_their_file_to_the_last_digit(tmp_path: Path) -> None:
    made = poisson({"a": 50.0, 2: 30.0}, 10.0)
    write_arrivals(made, tmp_path / "requests.csv")
    read = read_arrivals(tmp_path / "requests.csv", made.services)
    np.testing.assert_array_equal(read.times_s, made.times_s)
    np.testing.assert_array_equal(read.service, made.service)
    assert read.services == made.services


def test_a_file_of_requests_may_be_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "requests.csv").write_text("service,time_s,why\nb,2.5,\na,0.5,\nb,1,\n")
    read = read_arrivals(tmp_path / "requests.csv")
    assert read.times_s.tolist() == [0.5, 1.0, 2.5]
    assert [read.services[each] for each in read.service] == ["a", "b", "b"]


@pytest.mark.parametrize(
    ("text", "row", "rule"),
    [
        ("time,service\n1,a\n", 1, "must have a header"),
        ("time_s,service\n1,a\n-2,a\n", 3, "0 or more"),
        ("time_s,service\nsoon,a\n", 2, "is not a number"),
        ("time_s,service\n1,c\n", 2, "is not a service here"),
        ("time_s,service\n1,\n", 2, "is not a service here"),
        ("time_s,service\n", None, "holds no requests"),
    ],
)
def test_a_bad_file_of_requests_is_named_with_its_row(tmp_path: Path, text: str, row: int | None, rule: str) -> None:
    (tmp_path / "requests.csv").write_text(text)
    with pytest.raises(InputError, match=rule) as caught:
        read_arrivals(tmp_path / "requests.csv", ("a", "b"))
    assert caught.value.row == row
