"""A run at a prompt is a line, in a notebook a small table."""

from __future__ import annotations

from pathlib import Path

from .builder import emulated, three_jobs


def test_a_run_is_one_short_line(tmp_path: Path) -> None:
    assert repr(three_jobs()) == "Run(fifo+tune on 1x2:cpus=8,memory=100, 3 measured jobs, mean JCT 2.50 h, not saved)"
    saved = three_jobs(cluster_note="x" * 10_000).save(tmp_path / "a")
    assert repr(saved).endswith(f"mean JCT 2.50 h, {tmp_path / 'a'})")


def test_a_run_of_programs_says_what_ran_on_which_gpus() -> None:
    assert repr(emulated()) == "Run(python train.py on 1xA100, 10 steps, 6.00 s of GPU time, not saved)"


def test_the_longest_inputs_still_give_a_line() -> None:
    run = emulated(command=["python", "-c", "print()\n" * 500])
    assert len(repr(run)) < 300


def test_a_notebook_shows_the_figures() -> None:
    shown = three_jobs()._repr_html_()
    assert "<th" in shown
    assert ">mean_jct_h</th><td>2.5</td>" in shown
    assert len(shown) < 3_000


def test_a_notebook_runs_nothing_that_a_run_says() -> None:
    shown = three_jobs(policy="<script>alert(1)</script>")._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
