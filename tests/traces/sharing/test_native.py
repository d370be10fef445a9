"""Experiments in YAML: every field, every way in which jobs come, and every fault with its row."""

import os
from pathlib import Path

import numpy as np
import pytest

from gpuyard.core.errors import InputError
from gpuyard.core.sharing import SharingExperiment
from gpuyard.traces.sharing import read_experiment

HEAD = "gpuyard: sharing/1\nseconds: 5\n"


def read(folder: Path, text: str, **options: object) -> SharingExperiment:
    path = folder / "experiment.yaml"
    path.write_text(text)
    return read_experiment(path, **options)  # type: ignore[arg-type]


def test_every_field_finds_its_place(tmp_path: Path) -> None:
    text = HEAD + (
        "policy: shares\nsharing: time-slice\njobs:\n"
        "  - {name: a, kernels: 4, kernel_ms: 0.5, layers: 2, priority: -3, think_ms: 20, share: 0.5, demand: 0.25,\n"
        "     slo_ms: 9, gated: false, sync_every: 4, window: 2, sync_layers: true, streams: 3, launch_us: 5,\n"
        "     sync_us: 20, warm_up: 2, least_jobs: 7, gpu: 1, expected_kernel_ms: 0.1}\n"
    )
    found = read(tmp_path, text)
    (job,) = found.jobs
    assert (found.seconds, found.policy, found.sharing) == (5, "shares", "time-slice")
    assert job.sequence.durations_s == (0.0005,) * 4
    assert job.sequence.layer_ends == (2, 4)
    assert (job.priority, job.thinks_s, job.share, job.demand, job.slo_s) == (-3, (0.02,), 0.5, 0.25, 0.009)
    assert (job.gated, job.sync_every, job.window, job.layers, job.streams) == (False, 4, 2, True, 3)
    assert (job.launch_s, job.sync_s) == pytest.approx((5e-6, 20e-6))
    assert (job.warm_up, job.least_jobs, job.gpu, job.expected_kernel_s) == (2, 7, 1, 0.0001)


def test_jobs_come_in_the_ways_they_are_told_to(tmp_path: Path) -> None:
    (tmp_path / "times.csv").write_text("time_s,service\n0.5,c\n7,c\n0.25,other\n")
    text = HEAD + (
        "jobs:\n  - {name: a, kernel_ms: [1, 2.5], rate_per_s: 100}\n"
        "  - {name: b, kernels: 1, kernel_ms: 1, arrivals_s: [0, 2, 2.5, 5]}\n"
        "  - {name: c, kernels: 1, kernel_ms: 1, arrivals: times.csv}\n"
        "  - {name: d, model: retinanet_resnet50_fpn, batch: 2, think_ms: 20, think_jitter_ms: 2}\n"
    )
    a, b, c, d = read(tmp_path, text, seed=3).jobs
    assert a.sequence.durations_s == (0.001, 0.0025)
    assert a.arrivals_s is not None
    assert len(a.arrivals_s) == pytest.approx(500, rel=0.2)
    assert max(a.arrivals_s) < 5
    assert (b.arrivals_s, c.arrivals_s) == ((0, 2, 2.5), (0.5,))  # what comes later than the end does not come
    assert min(d.thinks_s) >= 0.018
    assert max(d.thinks_s) <= 0.022
    assert np.mean(d.thinks_s) == pytest.approx(0.02, rel=0.01)
    assert read(tmp_path, text, seed=3).jobs == (a, b, c, d)
    assert read(tmp_path, text, seed=4).jobs[0] != a
    assert read(tmp_path, text, seconds=1.0).seconds == 1.0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("gpuyard: sharing/2\njobs: []\n", "is not a version this gpuyard reads; it reads sharing/1"),
        ("gpuyard: sharing/1\njobs: [{name: a, kernels: 1, kernel_ms: 1}]\n", "field seconds: is missing"),
        (HEAD + "jobs: []\n", "field jobs: must be a list with at least one entry"),
        (HEAD + "polcy: none\njobs: [{name: a}]\n", "row 3: 'polcy' is not a part of this file"),
        (HEAD + "jobs:\n  - {kernels: 1, kernel_ms: 1}\n", "row 4, field name: is missing"),
        (HEAD + "jobs:\n  - {name: a}\n", "row 4, field kernels: is missing. Give kernels and kernel_ms, sequence, or"),
        (HEAD + "jobs:\n  - {name: a, kernels: 1, kernel_ms: 0}\n", "row 4, field kernel_ms: 0 must be a finite"),
        (HEAD + "jobs:\n  - {name: a, kernels: 1.5, kernel_ms: 1}\n", "row 4, field kernels: 1.5 must be a whole"),
        (HEAD + "jobs:\n  - {name: a, kernels: 2, kernel_ms: [1]}\n", "which says itself how many kernels there are"),
        (HEAD + "jobs:\n  - {name: a, kernels: 1, kernel_ms: 1, share: 2}\n", "row 4, field share: 2 is beyond 1"),
        (HEAD + "jobs:\n  - {name: a, kernels: 1, kernel_ms: 1, think: 2}\n", "row 4: 'think' is not a field of a job"),
        (HEAD + "jobs:\n  - {name: a, kernels: 1, kernel_ms: 1, think_ms: 1, think_jitter_ms: 2}\n",
         "row 4, field think_jitter_ms: 2 is more than think_ms, 1"),
        (HEAD + "seconds: 6\njobs:\n  - {name: a, kernels: 1, kernel_ms: 1}\n", "'seconds' stands twice"),
        (HEAD + "jobs: &a [*a]\n", "must be a mapping of fields to values"),
        (HEAD + f"jobs:\n  - {{name: {'n' * 5000}, kernels: 1, kernel_ms: 1}}\n", "has 5000 letters, more than 100"),
        (HEAD + "jobs:\n  - {name: a, kernels: 1, kernel_ms: 1, sync_us: -1}\n", "row 4, field sync_us: -1 must be"),
        (HEAD + "jobs:\n  - {name: a, kernels: 1, kernel_ms: 1, think_ms: 1, rate_per_s: 2}\n",
         "row 4, field think_ms: 1 excludes rate_per_s: jobs come in one way"),
        (HEAD + "jobs:\n  - {name: a, kernels: 1, kernel_ms: 1, arrivals_s: [2, 1]}\n", "must be times from 0 on"),
        (HEAD + "jobs:\n  - {name: a, kernels: 1, kernel_ms: 1, arrivals_s: [0, .nan]}\n", "must be times from 0 on"),
        (HEAD + "jobs:\n  - {name: a, kernels: 1, kernel_ms: 1, arrivals_s: [.nan]}\n", "must be times from 0 on"),
        (HEAD + "jobs:\n  - {name: a, kernels: 1, kernel_ms: 1, arrivals_s: 3}\n", "arrivals_s: 3 must be a list"),
        (HEAD + "jobs:\n  - {name: a, kernels: 1, kernel_ms: 1, arrivals_s: null}\n", "arrivals_s: must be a list"),
        (HEAD + "jobs:\n  - {name: a, kernels: 1, kernel_ms: 1}\n  - {name: a, kernels: 1, kernel_ms: 1}\n",
         "field name: 'a' is the name of two jobs"),
        (HEAD + "policy: sharez\njobs:\n  - {name: a, kernels: 1, kernel_ms: 1}\n",
         "field policy: 'sharez' is not a policy of launching"),
        (HEAD + "sharing: fiffo\njobs:\n  - {name: a, kernels: 1, kernel_ms: 1}\n",
         "field sharing: 'fiffo' is not a sharing policy. Did you mean 'fifo'?"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert complaint in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.yaml: does not exist"):
        read_experiment(tmp_path / "nowhere.yaml")


def test_what_is_no_file_is_said_to_be_what_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    for path, complaint in (
        (tmp_path, "is a folder"),
        (tmp_path / "pipe.yaml", "is not a regular file"),
        (tmp_path / "nothing.yaml", "does not exist"),
        (tmp_path / f"{'n' * 300}.yaml", "cannot be read: File name too long"),
    ):
        with pytest.raises(InputError, match=complaint):
            read_experiment(path)
