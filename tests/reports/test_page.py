"""The report page: needs nothing but itself, and trusts no text from a run."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.results.builder import HOUR, build, job, span, three_jobs

from gpuyard.core.errors import InputError
from gpuyard.reports.page import build_report, write_report
from gpuyard.results import Run

VOID = {"meta", "br", "img", "path", "use", "image", "rect"}


class Outline(HTMLParser):
    """Checks that tags nest, and remembers what a browser would fetch or run."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.references: list[str] = []
        self.ids: list[str] = []
        self.scripts = 0
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        for name, value in attrs:
            assert not name.startswith("on"), f"inline handler {name}"
            if name in {"src", "href", "xlink:href", "data", "action"}:
                self.references.append(value or "")
            if name == "id":
                self.ids.append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def outline(page: str) -> Outline:
    parser = Outline()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def proportional() -> Run:
    return build([job(1, finish_s=9 * HOUR), job(2), job(3)], [span(1, 0, 9, [0])], policy="fifo+proportional")


@pytest.fixture(scope="module")
def page() -> str:
    return build_report([three_jobs(), proportional()])[0]


def test_the_page_fetches_nothing(page: str) -> None:
    assert all(reference.startswith(("data:", "#")) for reference in outline(page).references)
    assert set(re.findall(r"https?://[^\s\"'<]*", page)) <= {
        "http://www.w3.org/1999/xlink",
        "http://www.w3.org/2000/svg",
    }
    assert not re.search(r"url\((?!#)", page)
    assert "@import" not in page


def test_ids_stand_once(page: str) -> None:
    ids = outline(page).ids
    assert sorted(ids) == sorted(set(ids))


def test_text_from_runs_is_escaped_everywhere() -> None:
    evil = "<script>alert(1)</script>\"'&"
    jobs = [job(evil, model=evil, tenant=evil, wait_gpus_s=60.0)]
    run = build(jobs, [span(evil, 0, 1, [0])], policy=evil, workload=evil, version=evil, seed=evil)
    shown, _ = build_report([run])
    parsed = outline(shown)
    assert parsed.scripts == 1, "only the page's own"
    assert "<script>alert" not in shown
    assert any(evil in words for words in parsed.words), "the text is shown as it is"


def test_the_page_leads_with_the_finding_and_lists_the_inputs(page: str) -> None:
    assert "<h1>tune finishes jobs 1.47x sooner than proportional at 9 jobs/h</h1>" in page
    for words in ("1x2:cpus=8,memory=100", "three jobs", "0.1.0", "seed 42", "GPUs taken by jobs ahead", "8,640"):
        assert words in page, words


def test_equal_runs_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_report([three_jobs(), proportional()], tmp_path / name, details=1)
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "b").iterdir())
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_pictures_are_named_after_runs(tmp_path: Path) -> None:
    written = write_report([three_jobs(), three_jobs()], tmp_path)
    assert written == tmp_path / "report.html"
    assert {path.name for path in tmp_path.iterdir()} == {
        *("report.html", "jct-cdf.png", "policies.png", "waits.png"),
        *(f"fifo-tune-{number}-{kind}.png" for number in (1, 2) for kind in ("utilisation", "demand", "gpus")),
    }


def test_several_loads_get_a_curve() -> None:
    _, pictures = build_report([three_jobs(), build([job(1)], [span(1, 0, 1, [0])], load=4.0)], details=0)
    assert "load.png" in pictures
    assert not any(name.endswith("-gpus.png") for name in pictures)


def test_a_run_without_timeline_or_finished_jobs_still_has_a_page() -> None:
    run = build([job(1, finish_s=None, start_s=None, held_s=0.0)], [span(1, 0, 0, [0])])
    bare = Run(run.info, {"jobs": run.jobs, "timeline": run.timeline.clear()}, run.summary)
    shown, pictures = build_report([bare])
    assert "No measured job finished" in shown
    assert "kept no timeline" in shown
    assert "jct-cdf.png" in pictures


def test_a_report_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one run"):
        write_report([], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_failed_write_keeps_the_old_page(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("old")
    (tmp_path / "waits.png").mkdir()
    with pytest.raises(InputError, match="directory"):
        write_report([three_jobs()], tmp_path, details=0)
    assert (tmp_path / "report.html").read_text() == "old"
    assert not list(tmp_path.glob(".*.partial"))


def long_run(rows: int) -> Run:
    """128 GPUs, each with one span after the other."""
    rng = np.random.default_rng(3)
    per_gpu = rows // 128
    start = np.tile(np.arange(per_gpu) * 300.0, 128)
    gpu = np.repeat(np.arange(128), per_gpu)
    jobs = pl.DataFrame([job(number, finish_s=rng.uniform(1, 100) * HOUR) for number in range(2000)])
    columns = {"job_id": rng.integers(0, 2000, len(start)), "start_s": start, "end_s": start + 250.0}
    timeline = pl.DataFrame(columns).with_columns(
        gpu_ids=pl.Series(gpu, dtype=pl.Int32).reshape((len(gpu), 1)).arr.to_list(),
        cpus=3.0, memory_gb=50.0, storage_mbps=0.0, speed=1.0, ended=pl.lit("preempted"),
    )  # fmt: skip
    small = three_jobs()
    return Run(small.info | {"cluster": "16x8"}, {"jobs": jobs, "timeline": timeline}, small.summary)


def test_the_page_of_a_long_run_stays_small() -> None:
    run = long_run(400_000)
    shown, _ = build_report([run])
    assert len(shown) < 3_000_000


def test_a_report_that_cannot_be_written_says_where(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(InputError, match=r"out: the report could not be written"):
        write_report([three_jobs()], tmp_path / "out")
