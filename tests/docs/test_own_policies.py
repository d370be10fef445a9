"""A policy of one's own that cannot be used is one clear line."""

from pathlib import Path

import pytest
from tests.docs.pages import ROOT

import gpuyard
from gpuyard.core.errors import InputError
from gpuyard.policies.allocate.tune import Tune
from gpuyard.policies.policy import Order, Policy
from gpuyard.policies.resolve import resolve

EXAMPLES = ROOT / "examples" / "yard_policies.py"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1", "'mine' is not defined there. Known: x"),
        ("mine = 1", "'mine' is neither an order, a function of a snapshot, nor an allocation"),
        ("def mine(:", "cannot be loaded: SyntaxError: invalid syntax (policies.py, line 1)"),
        (
            "from gpuyard.policies.allocate.perjob import PerJob\nclass mine(PerJob): pass",
            "'mine' cannot be used: TypeError: Can't instantiate abstract class mine with abstract method amounts",
        ),
        ("import nothing_like_it", "cannot be loaded: ModuleNotFoundError: No module named 'nothing_like_it'"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "policies.py").write_text(text)
    with pytest.raises(InputError) as caught:
        resolve(f"{tmp_path / 'policies.py'}:mine")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("order", "says"),
    [
        (lambda snapshot: snapshot.gpus[:1], "not an array of shape (1,)"),
        (lambda snapshot: None, "one key for each active job"),
    ],
)
def test_keys_that_do_not_fit_the_jobs_are_refused(order: Order, says: str) -> None:
    jobs = gpuyard.Workload.from_jobs(gpuyard.Job(name, 0, 1, "gnmt", duration_s=60) for name in range(3))
    with pytest.raises(InputError) as caught:
        gpuyard.simulate("1x8", jobs, Policy("mine+tune", order, Tune()))
    assert says in str(caught.value)


def test_keys_may_be_whole_numbers() -> None:
    jobs = gpuyard.Workload.from_jobs(gpuyard.Job(name, 0, 1, "gnmt", duration_s=60) for name in range(3))
    policy = Policy("last+tune", lambda snapshot: -snapshot.active, Tune())  # type: ignore[arg-type, return-value]
    starts = gpuyard.simulate("1x1", jobs, policy).jobs["start_s"].to_list()
    assert starts == sorted(starts, reverse=True)


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
    assert len(parts) == 9
    assert all(len(part.strip().splitlines()) <= 15 for part in parts)
