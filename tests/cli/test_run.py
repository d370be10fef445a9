"""`gpuyard run` as a command: what it does before the clock of a run goes."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuyard.cli import main
from gpuyard.core.errors import GpuyardError
from gpuyard.runtime.real_cluster import RunRules
from gpuyard.runtime.scheduler import RunSettings, Scheduler
from gpuyard.runtime.settling import Patience

JOBS = "gpuyard: workload/1\njobs:\n- {job_id: one, arrival_s: 0, gpus: 1, model: resnet50, iterations: 10}\n"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str | RunSettings]]:
    """Gives the command's options to a run that ends before its clock goes; returns what was done until then."""
    done: list[str | RunSettings] = []

    def begin(scheduler: Scheduler) -> int:
        done.append(scheduler._settings)
        scheduler._server.stop(0).wait()
        scheduler.close()
        raise GpuyardError("enough seen")

    def run(*options: str) -> list[str | RunSettings]:
        words = ["run", str(tmp_path / "jobs.yaml"), "--cluster", "1x1:cpus=3", "--policy", "las+tune", "--out", "runs"]
        with pytest.raises(SystemExit):
            main([*words, "--quiet", *options])
        return done

    monkeypatch.setattr("gpuyard.simulation.compiling.load_kernels", lambda policy: done.append(policy.name))
    monkeypatch.setattr(Scheduler, "run", begin)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.yaml").write_text(JOBS)
    return run


def test_what_policies_need_is_compiled_before_the_clock_of_a_run_goes(
    runs: Callable[..., list[str | RunSettings]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Or minutes of compiling count as time that jobs have waited for their first decision."""
    compiled, begun = runs()
    assert compiled == "las+tune"
    assert isinstance(begun, RunSettings)
    assert capsys.readouterr().err == "error: enough seen\n"


@pytest.mark.parametrize(("speed", "beat_s", "lease_s"), [(30.0, 0.5, 60.0), (7.5, 1.0, 80.0)])
def test_a_run_is_done_as_its_options_say(
    speed: float, beat_s: float, lease_s: float, runs: Callable[..., list[str | RunSettings]]
) -> None:
    """Rounds and costs by the clock of the run; beats and leases, which follow from rounds, by that of the machine."""
    costs = ("--restart-cost", "40s", "--migration-cost", "50s", "--checkpoint-every", "15m")
    _, found = runs("--speed", str(speed), "--round", "300", "--tries", "4", "--leave", "20", *costs)
    assert isinstance(found, RunSettings)
    assert found.rules == RunRules(300.0, start_cost_s=40.0, move_cost_s=50.0)
    assert found.patience == Patience(beat_s, leave_s=20.0, tries=4)
    assert (found.speed, found.save_every_s, found.lease_s) == (speed, 900.0, lease_s)


def test_a_program_that_calls_the_command_hears_signals_as_before(
    runs: Callable[..., list[str | RunSettings]],
) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    runs()
    assert [signal.getsignal(number) for number in numbers] == before
