"""The cases with real processes: what both worlds are told is the same."""

import pytest

from benchmarks.real.cases import CASES, RealCase
from benchmarks.real.curves import published
from gpuyard.simulation.options import make_options


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_worlds_are_told_the_same(case: RealCase) -> None:
    options = make_options(case.options())
    words = case.words()
    assert options.policy == words[words.index("--policy") + 1] == case.policy
    assert options.cluster == words[words.index("--cluster") + 1]
    assert options.static == ("--static" in words) == (case.trace != "dynamic")
    assert options.small == ("--small" in words) == case.trace.startswith("gpemu")


def test_every_case_has_a_name_of_its_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES) == 12


def test_published_times_are_those_of_forty_jobs() -> None:
    hours = published("las", "tune")
    assert not hours or (len(hours) == 40 and sum(hours) / 40 == pytest.approx(2.69306, abs=1e-4))
