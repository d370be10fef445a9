"""YAML takes 1e4 for text: whoever reads a number from a file says so, and what to write instead."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuyard.core.errors import InputError
from gpuyard.profiles import load_zoo
from gpuyard.simulation.sweep_file import read_sweep
from gpuyard.traces import read, read_cluster
from gpuyard.traces.sharing import read_experiment

JOB = "gpuyard: workload/1\njobs:\n- {{job_id: 0, arrival_s: {}, gpus: 1, model: gnmt, duration_s: 9}}\n"
SHARED = "gpuyard: sharing/1\nseconds: 10\njobs:\n- {{name: a, kernels: {}, kernel_ms: 1}}\n"
CONTENTS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a workload": (read, JOB),
    "a cluster": (read_cluster, "gpuyard: cluster/1\ngroups:\n- {{count: 1, gpus: 4, memory_gb: {}}}\n"),
    "a sweep": (lambda path: read_sweep(path, path.parent), "axes: {{policy: [fifo+tune]}}\nfixed: {{jobs: {}}}\n"),
    "an experiment": (read_experiment, SHARED),
    "a profile": (
        lambda path: load_zoo([path]),
        "models:\n  mine: {{batch: {}, iteration_s: 1.0, throughput: [[1]]}}\n",
    ),
}


def refusal(what: str, number: str, folder: Path) -> str:
    read_file, content = CONTENTS[what]
    path = folder / "file.yaml"
    path.write_text(content.format(number), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_file(path)
    return str(caught.value)


@pytest.mark.parametrize("what", CONTENTS)
def test_a_number_that_yaml_reads_as_text_is_told_as_one_to_write(what: str, tmp_path: Path) -> None:
    told = refusal(what, "1e4", tmp_path)
    assert "'1e4'" in told
    assert told.endswith("It is text: write 10000 without quotes")


@pytest.mark.parametrize("what", CONTENTS)
def test_other_texts_are_refused_without_that_hint(what: str, tmp_path: Path) -> None:
    assert "It is text" not in refusal(what, "many", tmp_path)


def test_a_time_may_be_written_with_an_exponent(tmp_path: Path) -> None:
    """Its reader takes texts, such as 5m, and so has no need to refuse one."""
    path = tmp_path / "sweep.yaml"
    path.write_text("axes: {round: [1e2, 1.5e1m]}\nfixed: {jobs: 4}\n", encoding="utf-8")
    assert [point.options.round_s for point in read_sweep(path, tmp_path)] == [100.0, 900.0]
