"""The studies of the paper: cases run, the page has a place for each, and a lost shape is a failure."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import document
from benchmarks.limits import failures
from benchmarks.paper import __main__ as program
from benchmarks.paper import differences, optimum, over_load, packers, sensitivity
from benchmarks.paper.cases import Case, Figures, run_case
from benchmarks.paper.section import Study

STUDIES = [over_load.STUDY, sensitivity.RATIO, sensitivity.SPLIT, packers.STUDY, optimum.STUDY, differences.STUDY]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "fidelity.md"


def tiny(case: Case) -> Figures:
    return run_case(replace(case, jobs=40, window=(10, 20), nodes=min(case.nodes, 4)), lambda _: None)


@pytest.mark.parametrize(
    "case",
    [
        Case("fifo+tune", faithful=True),
        Case("srtf+proportional", multi_gpu=True, load=4.0, penalty=False),
        Case("drf+tune", tenants=True),
        Case("fifo+tune", steps=False, restart_cost_s=300.0, checkpoint_cost_s=60.0),
    ],
)
def test_a_case_runs(case: Case) -> None:
    figures = tiny(case)
    assert 0 < figures.mean <= figures.p99
    assert len(figures.by_tenant) == (3 if case.tenants else 0)


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_the_page_has_a_place_for_each_study(study: Study) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"<!-- {study.name} -->" in text
    assert f"<!-- /{study.name} -->" in text


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_equal_results_everywhere_lose_the_shape(study: Study) -> None:
    same = dict.fromkeys(study.cases, Figures(10.0, 20.0, 30.0, (1.0, 2.0, 3.0)))
    found = study.checks(same)
    assert found
    flat = {"opt", "greedy", "ratio", "split"}  # for these, no difference is within the claim
    assert bool(failures(found)) != (study.name in flat)


def test_a_study_is_written_and_fails_when_its_shape_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slower_with_tune(cases: object) -> dict[Case, Figures]:
        return {case: Figures(20.0 if "tune" in case.policy else 10.0, 20.0, 30.0) for case in optimum.STUDY.cases}

    monkeypatch.setattr(program, "run_cases", slower_with_tune)
    monkeypatch.setattr(program, "fill", lambda page, part, text: document.fill(page, part, text, tmp_path))
    monkeypatch.setattr(optimum, "draw", lambda figure, name, title: document.draw(figure, name, title, tmp_path))
    (tmp_path / "fidelity.md").write_text("<!-- opt -->\n<!-- /opt -->\n")
    assert program.main(["opt"]) == 1
    assert "![Tune comes within" in (tmp_path / "fidelity.md").read_text()
    assert (tmp_path / "figures" / "opt.png").is_file()


def test_an_unknown_study_is_refused() -> None:
    assert program.main(["optimum"]) == 2
