"""Errors are one line that people read."""

from gpuyard.core.errors import InputError


def test_of_a_value_as_long_as_a_file_only_the_beginning_is_told() -> None:
    said = str(InputError("must be a number", file="it.json", field="now_s", value="x" * 5_000_000))
    beginning = "'" + "x" * 499
    assert said == f"it.json, field now_s: {beginning}… (5000002 characters) must be a number"
