"""A user's own policy of launching that cannot be used is one clear line, not a traceback."""

from collections.abc import Sequence
from typing import Any

import pytest

from gpuyard.core.errors import InputError
from gpuyard.policies.launch_terms import ask_terms
from gpuyard.policies.timeshare.launch import Launching, LaunchTerms


class Mine(Launching):
    """Answers with what it was made with, or raises it."""

    name = "mine"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def terms(self, claims: Sequence[Any]) -> list[LaunchTerms]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]


CLAIMS: Any = (object(), object())


@pytest.mark.parametrize(
    ("answer", "rule"),
    [
        (ZeroDivisionError("division by zero"), "'mine' raised ZeroDivisionError: division by zero, in terms: raise"),
        (None, "'mine' its terms must be a list of one LaunchTerms for each of 2 claims"),
        ([LaunchTerms()], "'mine' its terms must be a list of one LaunchTerms for each of 2 claims"),
        ([LaunchTerms(), 1], "'mine' its terms must be a list of one LaunchTerms for each of 2 claims"),
    ],
    ids=["raises", "nothing", "too few", "numbers"],
)
def test_what_is_wrong_is_said_with_file_and_row(answer: Any, rule: str) -> None:
    with pytest.raises(InputError) as refusal:
        ask_terms(Mine(answer), CLAIMS)
    assert str(refusal.value).startswith(f"{__file__}, row ")
    assert rule in str(refusal.value)


def test_terms_are_taken_as_they_are() -> None:
    terms = [LaunchTerms(1), LaunchTerms(None)]
    assert ask_terms(Mine(terms), CLAIMS) is terms
