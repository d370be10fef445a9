"""A policy of one's own that cannot be used is one clear line."""

from pathlib import Path

import pytest
from tests.docs.pages import ROOT

from gpuyard.core.errors import InputError
from gpuyard.policies.registry import resolve

EXAMPLES = ROOT / "examples" / "yard_policies.py"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1", "'mine' is not defined there. Known: x"),
        ("mine = 1", "'mine' is neither an order, a function of a snapshot, nor an allocation"),
        ("def mine(:", "cannot be loaded: SyntaxError: invalid syntax (policies.py, line 1)"),
        ("import nothing_like_it", "cannot be loaded: ModuleNotFoundError: No module named 'nothing_like_it'"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "policies.py").write_text(text)
    with pytest.raises(InputError) as caught:
        resolve(f"{tmp_path / 'policies.py'}:mine")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        (f"{EXAMPLES}:patient", "patient+tune"),
        (f"{EXAMPLES}:Frugal", "fifo+Frugal"),
        (f"las+{EXAMPLES}:Halves", "las+Halves"),
        (f"{EXAMPLES}:narrow_first+{EXAMPLES}:Frugal", "narrow_first+Frugal"),
    ],
)
def test_one_part_is_enough(policy: str, name: str) -> None:
    assert resolve(policy).name == name


def test_an_allocation_of_ones_own_takes_at_most_fifteen_lines() -> None:
    parts = EXAMPLES.read_text(encoding="utf-8").split("\n\n\n")[1:]
    assert len(parts) == 4
    assert all(len(part.strip().splitlines()) <= 15 for part in parts)
