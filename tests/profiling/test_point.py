"""A command at one point, as a real process: what is measured, and what is said when nothing can be."""

import os
import sys
import time
from pathlib import Path

import pytest

from gpuyard.core.errors import InputError
from gpuyard.profiling import point
from gpuyard.profiling.point import PointFailedError, PointRunner

LOOP = """
from gpuyard.client import steps
{before}
batches = steps([1, 2, 3, 4])
for epoch in range({epochs}):
    for batch in batches:
        {body}
"""


def runner(script: str, **options: float) -> PointRunner:
    return PointRunner((sys.executable, "-c", script), **{"steps": 4, "repeats": 2, "timeout_s": 600, **options})  # type: ignore[arg-type]


def looping(body: str = "pass", before: str = "", epochs: int = 100) -> str:
    return LOOP.format(body=body, before=before, epochs=epochs)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_steps_are_timed_and_the_command_is_ended_when_there_are_enough(tmp_path: Path) -> None:
    found = runner(looping(f"open({str(tmp_path / 'steps')!r}, 'a').write('x')"))(2)
    assert len(found.step_s) == 2
    assert min(found.step_s) > 0
    assert found.epoch_steps == 4
    assert (tmp_path / "steps").read_text() == "x" * 12  # a warm-up of four steps and twice four


def test_a_command_has_its_cpus_in_the_environment_in_its_words_and_as_its_affinity(tmp_path: Path) -> None:
    told = tmp_path / "told"
    before = f"""
import os, sys
names = "SYNERGY_CPU_THIS_SERVER", "SYNERGY_MEM_THIS_SERVER"
said = [*(os.environ[name] for name in names), sys.argv[1], str(len(os.sched_getaffinity(0)))]
open({str(told)!r}, "w").write(" ".join(said))
"""
    ours = os.sched_getaffinity(0)
    command = (sys.executable, "-c", looping(before=before), "--workers={cpus}")
    PointRunner(command, steps=4, repeats=1)(1, memory_gb=0.25)
    assert told.read_text() == "1 0.25 --workers=1 1"
    assert os.sched_getaffinity(0) == ours


def test_one_batch_is_repeated_where_only_the_gpu_is_to_be_measured(tmp_path: Path) -> None:
    script = looping(f"open({str(tmp_path / 'batches')!r}, 'a').write(str(batch))")
    runner(script)(2, synthetic=True)
    assert (tmp_path / "batches").read_text() == "1" * 12


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("pass", "ended and never called gpuyard.client.steps: wrap its loader"),
        ("raise SystemExit(7)", r"failed \(exit code 7\): it printed nothing"),
        ("import sys; sys.exit('no data | here')", r"failed \(exit code 1\): no data | here"),
        ("import os; os.kill(os.getpid(), 9)", r"failed \(ended by SIGKILL\): it printed nothing"),
        (looping("1 / 0"), r"failed \(exit code 1\): .*ZeroDivisionError: division by zero"),
        (looping(epochs=2), "ended after 8 steps, and 12 are needed: 3 times 4, of which the first is a warm-up"),
        ("from gpuyard.client import steps\nfor batch in steps([]): pass", "ended after 0 steps, and 3 are needed"),
        (
            "from gpuyard.client import steps\nfor _ in range(9):\n  for batch in steps([1, 2, 3]): break",
            "Call steps once, before the first epoch",
        ),
        ("print('x' * 10**6); print('the end'); raise SystemExit(3)", r"exit code 3.*\| the end"),
    ],
)
def test_a_command_without_enough_steps_is_told(script: str, said: str) -> None:
    with pytest.raises(PointFailedError, match=said):
        runner(script)(2)


def test_a_command_that_hangs_is_ended_after_its_time(tmp_path: Path) -> None:
    script = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(3600)"
    with pytest.raises(PointFailedError, match=r"went on for 5 s .* and never called gpuyard.client.steps"):
        runner(script, timeout_s=5)(2)
    if (tmp_path / "pid").exists():
        assert not alive(int((tmp_path / "pid").read_text()))


def test_a_command_that_does_not_end_when_it_is_measured_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(point, "LEAVE_S", 0.2)
    script = f"try:\n  exec({looping()!r})\nfinally:\n  import time; time.sleep(3600)"
    assert len(runner(script)(2).step_s) == 2


def test_processes_that_a_command_leaves_behind_are_ended(tmp_path: Path) -> None:
    before = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
open({str(tmp_path / "pid")!r}, "w").write(str(child.pid))
"""
    runner(looping(before=before))(2)
    pid = int((tmp_path / "pid").read_text())
    while alive(pid):
        time.sleep(0.01)


def test_how_far_a_point_is_is_told() -> None:
    told: list[float] = []
    script = looping("import time; time.sleep(0.1)")
    watching = PointRunner((sys.executable, "-c", script), steps=2, repeats=2, watch=told.append)
    watching(1)
    assert told == sorted(told)
    assert all(0 <= part < 1 for part in told)


def test_a_command_that_is_none_is_told_by_its_name() -> None:
    with pytest.raises(InputError, match="'no-such-program' cannot be started: No such file or directory"):
        PointRunner(("no-such-program",))(2)
