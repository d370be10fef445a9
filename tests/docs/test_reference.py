"""docs/reference.md says what the code says."""

from docs.make_reference import PAGE, reference


def test_the_reference_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run 'python docs/make_reference.py'"
