"""The cases with real processes: what both worlds are told is the same."""

import json
from pathlib import Path

import pytest

from benchmarks.real.both_worlds import run_real
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


def test_a_run_that_was_interrupted_or_went_at_another_speed_is_not_taken_for_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[0]
    for name, complete, speed in (("a", False, case.speed), ("b", True, case.speed + 1)):
        made(tmp_path / case.name / f"real-{name}", complete, speed)

    def run(words: list[str], **_others: object) -> None:
        assert words[words.index("--speed") + 1] == str(case.speed)
        made(tmp_path / case.name / "real-c", True, case.speed)

    monkeypatch.setattr("benchmarks.real.both_worlds.subprocess.run", run)
    assert run_real(case, tmp_path).name == "real-c"
    monkeypatch.delattr("benchmarks.real.both_worlds.subprocess.run")
    assert run_real(case, tmp_path).name == "real-c"


def made(folder: Path, complete: bool, speed: float) -> None:
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"complete": complete, "speed": speed}))
