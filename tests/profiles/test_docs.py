"""The examples in docs/profiles.md are what they say."""

import re
from pathlib import Path

from gpuyard.profiles import gpu_kinds, load_zoo, operation_costs
from gpuyard.profiles.reading import bundled_yaml

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "profiles.md").read_text(encoding="utf-8")


def example(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    assert found is not None
    return found.group(1)


def test_example_file_loads(tmp_path: Path) -> None:
    path = tmp_path / "profiles.yaml"
    path.write_text(example("yaml"), encoding="utf-8")
    assert load_zoo([path]).profile("mynet").best() == (6, 125, 80, 1.9)


def test_stated_errors_of_gpu_speeds_are_those_measured() -> None:
    errors = bundled_yaml("gpu_speed.yaml")["errors"]
    rows = [line.split("|")[3:5] for line in TEXT.splitlines() if line.startswith(("| 4, mean", "| 5, from"))]
    stated = [
        [f" {errors[name][figure]:.1%} " for figure in ("median", "p90")] for name in ("other_model", "other_gpu")
    ]
    assert rows == stated
    assert f"the {errors['other_gpu']['pairs']} measured pairs" in TEXT


def test_every_bundled_model_is_listed() -> None:
    for name in load_zoo().names:
        assert f"`{name}`" in TEXT


def test_the_errors_of_fitted_costs_are_those_in_use() -> None:
    rows = {
        cells[0]: cells[1:] for line in TEXT.splitlines() if (cells := [cell.strip() for cell in line.split("|")[1:-1]])
    }
    costs = [operation_costs(kind) for kind in gpu_kinds() if kind.measured]
    assert rows["median"] == [f"{each.expected_error:.1%}" for each in costs]
    assert rows["90% below"] == [f"{each.expected_error_p90:.1%}" for each in costs]
