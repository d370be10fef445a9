"""`gpuyard emulate -- command`: the command's output, exit code and signals are its own."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from tests.emulation.torch.conftest import Finished, environment

from gpuyard.cli import main

LAUNCH = [sys.executable, "-m", "gpuyard", "emulate"]


def python(program: str, *options: str) -> Finished:
    """Run a Python program on a machine that nobody else uses."""
    return subprocess.run(
        [*LAUNCH, "--node", f"test-{uuid4().hex[:12]}", *options, "--", "python", "-c", program],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def only_line(done: Finished) -> str:
    assert "Traceback" not in done.stderr
    (line,) = done.stderr.splitlines()
    return line


TRAINING = """
import sys, torch
model = torch.nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    model(torch.randn(64, 256, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
print("trained", torch.cuda.get_device_name())
sys.exit(3)
"""


def test_a_training_run_is_reported_and_its_exit_code_passed_on(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    target = tmp_path / "report.json"
    done = python(TRAINING, "--gpus", "A100", "--report", str(target))
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("trained NVIDIA A100")
    assert "3 steps on A100" in done.stderr
    report = json.loads(target.read_text(encoding="utf-8"))
    for key in ("gpu", "wall_seconds", "device_seconds", "peak_memory_bytes", "steps", "duration_model"):
        assert report[key], key
    assert (report["gpu"], report["steps"]) == ("A100", 3)
    assert 0 < report["device_seconds"] < report["wall_seconds"]


def test_a_command_that_uses_no_gpu_is_told_so() -> None:
    done = python("print('hello')")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert "no process of the command used an emulated GPU" in only_line(done)


def test_quiet_means_quiet() -> None:
    assert python("pass", "--quiet").stderr == ""


@pytest.mark.parametrize(
    ("program", "code"),
    [("raise SystemExit(17)", 17), ("import os; os.kill(os.getpid(), 9)", 137), ("import os; os.abort()", 134)],
)
def test_exit_codes_are_those_of_the_command(program: str, code: int) -> None:
    assert python(program, "--quiet").returncode == code


def test_the_command_gets_its_input_and_its_arguments() -> None:
    done = subprocess.run(
        [*LAUNCH, "--quiet", "--clock", "virtual", "--", "python", "-c", "import sys; print(sys.argv, input())", "--x"],
        env=environment(), input="typed\n", capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.stdout == "['-c', '--x'] typed\n"


WAITS = """
import signal, sys, time
def end(number, frame):
    print("told", number, flush=True)
    sys.exit(5)
signal.signal(signal.SIGNAL, end)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_the_command_decides_what_to_do_when_it_is_told_to_end(name: str) -> None:
    number = getattr(signal, name)
    with subprocess.Popen(
        [*LAUNCH, "--quiet", "--clock", "virtual", "--", "python", "-c", WAITS.replace("SIGNAL", name)],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does at Ctrl-C
        else:
            process.send_signal(number)
        out, err = process.communicate(timeout=900)
    assert (process.returncode, out, err) == (5, f"told {int(number)}\n", "")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--", "no-such-program"], "'no-such-program' is not a program that can be run"),
        (["--gpus", "V10", "--", "true"], "'V10' is not a GPU kind gpuyard knows. Did you mean 'v100'"),
        (["--gpus", "99xV100", "--", "true"], "a machine has at most 16"),
        (["--clock", "vertual", "--", "true"], "'vertual'"),
        (["--speed", "0", "--", "true"], "0.0 is not a positive number"),
        (["--speed", "quick", "--", "true"], "Invalid value for '--speed'"),
        (["--memory-limit", "lots", "--", "true"], "'lots' is not a number with a unit of"),
        (["--share", "2", "--", "true"], "2.0 is no part of a GPU"),
        (["--jitter", "-1", "--", "true"], "-1.0 is not a number from 0 on"),
        (["--sharing", "fair", "--clock", "virtual", "--", "true"], "'fair' is not a sharing policy"),
        (["--loss", "down", "--", "true"], "is not a loss curve"),
        (["--profile", "resnet5", "--gpus", "V100", "--", "true"], "resnet5"),
        (["--report", "no/such/folder/report.json", "--", "true"], "is in a folder that does not exist"),
        ([], "Missing argument"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(
    args: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["emulate", *args])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_without_torch_it_says_what_to_install() -> None:
    blocked = "import sys; sys.modules['torch'] = None; from gpuyard.cli import main; main(['emulate', '--', 'true'])"
    done = subprocess.run(
        [sys.executable, "-c", blocked], env=environment(), capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 1
    assert only_line(done).endswith("gpuyard emulate needs the 'torch' extra: pip install 'gpuyard[torch]'")


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    done = subprocess.run(
        [*LAUNCH, "--quiet", "--node", f"test-{uuid4().hex[:12]}", "--", "python", "-c", "pass"],
        env=environment(TMPDIR=str(tmp_path)), capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []
