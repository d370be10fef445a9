"""docs/formats.md shows only what works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gpuyard.cli import main
from gpuyard.core.cluster import NodeGroup
from gpuyard.traces import READERS, read, read_cluster
from gpuyard.traces.sharing import read_experiment

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_every_reader_is_listed() -> None:
    assert {reader.name for reader in READERS} <= set(re.findall(r"`([a-z-]+)`", PAGE.read_text()))


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (commands,) = blocks("bash")
    for line in commands.splitlines():
        with pytest.raises(SystemExit) as done:
            main(shlex.split(line)[1:])
        assert not done.value.code, line
    assert len(read("replay.csv")) == 100


@pytest.mark.parametrize("number", range(3))
def test_the_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.chdir(tmp_path)
    snippets = blocks("python")
    assert len(snippets) == 3
    exec(compile(snippets[number], str(PAGE), "exec"), {})


def test_the_files_are_read(tmp_path: Path) -> None:
    workload, cluster, sharing = blocks("yaml")
    (tmp_path / "w").write_text(workload)
    (tmp_path / "c").write_text(cluster)
    (tmp_path / "s.yaml").write_text(sharing)
    jobs = read(tmp_path / "w")
    assert jobs.job_id.tolist() == ["0", "1", "notebook"]
    groups = read_cluster(str(tmp_path / "c")).groups
    assert groups[0] == NodeGroup(16)
    assert groups[1].kind.gpu_memory_gb == 80
    experiment = read_experiment(tmp_path / "s.yaml")
    assert experiment.policy == "shares"
    assert [job.share for job in experiment.jobs] == [0.6, 0.4]
