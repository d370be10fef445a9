"""`gpuyard run` as a command: what it does before the clock of a run goes."""

from pathlib import Path

import pytest

from gpuyard.cli import main
from gpuyard.core.errors import GpuyardError
from gpuyard.runtime.scheduler import Scheduler

JOBS = "gpuyard: workload/1\njobs:\n- {job_id: one, arrival_s: 0, gpus: 1, model: resnet50, iterations: 10}\n"


def test_what_policies_need_is_compiled_before_the_clock_of_a_run_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or minutes of compiling count as time that jobs have waited for their first decision."""
    done: list[str] = []

    def begin(scheduler: Scheduler) -> int:
        done.append("begins")
        scheduler._server.stop(0).wait()
        scheduler.close()
        raise GpuyardError("enough seen")

    monkeypatch.setattr("gpuyard.simulation.compiling.load_kernels", lambda policy: done.append(policy.name))
    monkeypatch.setattr(Scheduler, "run", begin)
    (tmp_path / "jobs.yaml").write_text(JOBS)
    words = ["run", str(tmp_path / "jobs.yaml"), "--cluster", "1x1:cpus=3", "--policy", "las+tune", "--out", "runs"]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main([*words, "--quiet"])
    assert done == ["las+tune", "begins"]
    assert capsys.readouterr().err == "error: enough seen\n"
