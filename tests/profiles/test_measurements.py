"""Measured steps as CSV: how well they predict each other, and what becomes of broken ones."""

from pathlib import Path

import pytest

from gpuyard.core.errors import InputError
from gpuyard.profiles.fitting import assess, thinned
from gpuyard.profiles.measurements import read_measurements

HEADING = "gpu,model,batch_size,forward_s,backward_s"


def write(tmp_path: Path, *lines: str, heading: str = HEADING) -> Path:
    path = tmp_path / "steps.csv"
    path.write_text("\n".join([heading, *lines]) + "\n", encoding="utf-8")
    return path


def test_rows_become_profiles_in_order_of_batch_size(tmp_path: Path) -> None:
    path = write(tmp_path, "# a comment", "Tesla_K80,net,8,0.2,0.4", "", "Tesla_K80,net,1,0.1,0.2", "Mine,net,1,1,2")
    k80, mine = read_measurements(path)
    assert (k80.gpu, k80.model, k80.batches) == ("K80", "net", (1, 8))
    assert k80.at(8).step_s == pytest.approx(0.6)
    assert mine.gpu == "Mine"


def test_memory_and_whether_a_row_is_measured_are_read_where_they_stand(tmp_path: Path) -> None:
    heading = f"{HEADING},measured,peak_mib,persistent_mib,host"
    (profile,) = read_measurements(write(tmp_path, "V100,net,1,1,2,1,10,5,a", "V100,net,2,1,2,0,,,b", heading=heading))
    first, second = profile.points
    assert (first.measured, first.peak_bytes, first.persistent_bytes) == (True, 10 * 2**20, 5 * 2**20)
    assert (second.measured, second.peak_bytes) == (False, None)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("V100,net,x,1,2", "row 2, field batch_size: 'x' is not a positive number"),
        ("V100,net,0,1,2", "row 2, field batch_size: '0' is not a positive number"),
        ("V100,net,1.5,1,2", "row 2, field batch_size: '1.5' is not a whole number"),
        ("V100,net,1,-1,2", "row 2, field forward_s: '-1' is not a positive number"),
        ("V100,net,1,1,nan", "row 2, field backward_s: 'nan' is not a positive number"),
        ("V100,net,1,1,inf", "row 2, field backward_s: 'inf' is not a positive number"),
        ("V100,net,1,1", "row 2: 4 cells, but there are 5 columns"),
        ("V100,net,1,1,2\nV100,net,1,1,2", "row 3, field batch_size: 1 stands twice for this GPU and model"),
        ("# nothing", "has no row of measurements"),
    ],
)
def test_broken_rows(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_measurements(write(tmp_path, line))
    assert message in str(caught.value)


@pytest.mark.parametrize("heading", ["gpu,model,batch,forward_s,backward_s", ""])
def test_a_column_that_is_missing(tmp_path: Path, heading: str) -> None:
    with pytest.raises(InputError, match=r"has no column '(batch_size|gpu)'"):
        read_measurements(write(tmp_path, heading=heading))


def test_of_a_short_table_each_row_is_told_from_the_others(tmp_path: Path) -> None:
    lines = [f"V100,net,{batch},{batch},{batch}" for batch in (1, 2, 4, 8)]
    fit = assess(read_measurements(write(tmp_path, *lines))[0])
    assert (fit.points, fit.held_out) == (4, 2)
    assert fit.errors == pytest.approx({"line": 0, "floor_line": 0, "piecewise": 0})


def test_of_a_long_table_thirteen_rows_tell_the_rest(tmp_path: Path) -> None:
    lines = [f"V100,net,{batch},{max(16, batch)},1" for batch in range(1, 201)]
    profile = read_measurements(write(tmp_path, *lines))[0]
    fit = assess(profile)
    assert (fit.points, fit.held_out) == (13, 187)  # 192 is the last but one, and 200 the largest
    assert fit.errors["piecewise"] == pytest.approx(0)
    assert (fit.errors["line"] or 0) > 0.01
    assert thinned(profile).batches == (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 200)


def test_two_rows_leave_nothing_to_test_on(tmp_path: Path) -> None:
    fit = assess(read_measurements(write(tmp_path, "V100,net,1,1,1", "V100,net,2,1,1"))[0])
    assert fit.held_out == 0
    assert set(fit.errors.values()) == {None}
