"""Reasons to wait stand in one table; all others follow from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuyard.core.reasons import WAIT_REASONS, WaitReason
from gpuyard.policies import plan
from gpuyard.results import TABLES

CONCEPTS = Path(__file__).parents[2] / "docs" / "concepts.md"


def test_the_code_of_a_reason_is_its_place() -> None:
    assert [reason.code for reason in WAIT_REASONS] == list(range(len(WAIT_REASONS)))


def test_names_and_labels_are_told_apart() -> None:
    assert len({reason.name for reason in WAIT_REASONS}) == len({reason.label for reason in WAIT_REASONS})
    assert len({reason.name for reason in WAIT_REASONS}) == len(WAIT_REASONS)


@pytest.mark.parametrize("reason", WAIT_REASONS, ids=lambda reason: reason.name)
def test_each_reason_has_a_constant_a_column_and_a_line_in_the_documentation(reason: WaitReason) -> None:
    assert getattr(plan, reason.name.upper()) == reason.code
    assert reason.column in TABLES["jobs"].columns
    assert f"| `{reason.name}` | {reason.lacks} |" in CONCEPTS.read_text(encoding="utf-8").splitlines()
