"""`gpuyard emulate --out`: a run folder of the emulated world, however the program ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from uuid import uuid4

import pytest
from tests.emulation.torch.conftest import Finished, environment

from gpuyard.results import load_run

pytest.importorskip("torch", reason="torch is not installed")

TRAIN = """
import os, signal, sys, time, torch
def train(steps):
    model = torch.nn.Linear(256, 256).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        model(torch.randn(64, 256, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
"""


def command(out: Path, program: str, *options: str) -> list[str]:
    launch = [sys.executable, "-m", "gpuyard", "emulate", "--out", str(out), "--node", f"test-{uuid4().hex[:12]}"]
    script = out.parent / "program.py"
    script.write_text(TRAIN + dedent(program), encoding="utf-8")
    return [*launch, *options, "--", "python", str(script), "--lr", "0.1"]


def emulate(out: Path, program: str, *options: str) -> Finished:
    return subprocess.run(
        command(out, program, *options), env=environment(), capture_output=True, text=True, timeout=900, check=False
    )


def test_a_training_program_becomes_a_run(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = emulate(out, "train(5)", "--gpus", "2xV100", "--clock", "device", "--seed", "4")
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith(f"gpuyard: the run is in {out}\n")
    run = load_run(out)
    assert (run.world, run.info["gpus"], run.info["seed"], run.info["exit_code"]) == ("emulated", "2xV100", 4, 0)
    assert run.info["command"] == ["python", str(tmp_path / "program.py"), "--lr", "0.1"]
    assert (run.info["options"]["clock"], run.info["interrupted"]) == ("device", False)
    (program,) = run["programs"].to_dicts()
    assert program["command"].endswith("program.py --lr 0.1")
    assert (program["program"], program["gpu_ids"], program["gpu_kinds"]) == (0, [0], ["V100"])
    assert (program["steps"], program["exit_code"]) == (5, 0)
    assert program["peak_reserved_bytes"] >= program["peak_memory_bytes"] > 256 * 256 * 4
    assert program["durations_from"].startswith("op-class")
    assert 0 < program["expected_error"] < 1
    steps = run["steps"]
    assert steps["step"].to_list() == [0, 1, 2, 3, 4]
    assert steps["start_s"].to_list()[1:] == steps["end_s"].to_list()[:-1]
    assert (steps["end_s"] > steps["start_s"]).all()
    assert steps["end_s"].max() <= program["emulated_s"]
    assert run.summary["gpu_s"] == pytest.approx(program["gpu_s"])
    assert run.summary["mean_step_s"] > 0


def test_the_same_program_gives_the_same_bytes_where_only_the_gpu_takes_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        done = emulate(tmp_path / name, "train(3)", "--gpus", "V100", "--clock", "device", "--node", "same")
        assert done.returncode == 0, done.stderr
    first, second = ((tmp_path / name / "steps.parquet").read_bytes() for name in ("one", "two"))
    assert first == second


@pytest.mark.parametrize(
    ("ending", "code", "known"),
    [
        ("raise ValueError('diverged')", 1, 1),
        ("sys.exit(7)", 7, 7),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, 137),
    ],
)
def test_a_program_that_fails_is_kept_with_what_it_did(tmp_path: Path, ending: str, code: int, known: int) -> None:
    out = tmp_path / "run"
    done = emulate(out, f"train(2)\n{ending}", "--clock", "device")
    assert done.returncode == code, done.stderr
    run = load_run(out)
    assert run.info["exit_code"] == code
    (program,) = run["programs"].to_dicts()
    assert program["exit_code"] == known
    assert program["steps"] >= 1
    assert run.summary["failed"] == 1


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_program_that_is_told_to_end_is_kept_and_said_to_be_interrupted(tmp_path: Path, name: str) -> None:
    out = tmp_path / "run"
    waits = "train(1)\nprint('trained', flush=True)\ntime.sleep(600)"
    number = getattr(signal, name)
    with subprocess.Popen(
        command(out, waits, "--clock", "device", "--quiet"), env=environment(), start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "trained\n"
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does at Ctrl-C
        else:
            process.send_signal(number)
        process.wait(900)
    run = load_run(out)
    assert run.info["interrupted"]
    assert run.info["exit_code"] == process.returncode != 0
    assert run["programs"]["steps"].to_list() == [1]


def test_each_process_of_a_program_is_a_row_in_order_of_rank(tmp_path: Path) -> None:
    starts = """
    import subprocess
    if "RANK" not in os.environ:
        ranks = [
            subprocess.Popen([sys.executable, __file__], env={**os.environ, "RANK": str(rank)}) for rank in (1, 0)
        ]
        sys.exit(max(rank.wait() for rank in ranks))
    torch.cuda.set_device(int(os.environ["RANK"]))
    train(2 + int(os.environ["RANK"]))
    """
    out = tmp_path / "run"
    done = emulate(out, starts, "--gpus", "V100+K80", "--clock", "device")
    assert done.returncode == 0, done.stderr
    run = load_run(out)
    rows = run["programs"].select("program", "gpu_ids", "gpu_kinds", "steps", "exit_code").rows()
    assert rows == [(0, [0], ["V100"], 2, None), (1, [1], ["K80"], 3, None)]
    assert run["steps"].select("program", "step").rows() == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]


def test_a_program_without_gpus_is_a_run_without_programs(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert emulate(out, "pass").returncode == 0
    run = load_run(out)
    assert run["programs"].height == 0
    assert "steps" not in run


def test_a_folder_that_is_taken_is_refused_before_the_program_runs(tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    done = emulate(out, "print('ran')")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is in the way and holds other files than a run's" in done.stderr
    assert [path.name for path in tmp_path.iterdir() if path.name != "program.py"] == ["run"]


IN_PROCESS = """
import gpuyard
session = gpuyard.emulate("V100", clock="device", out=OUT)
train(4)
ENDING
"""


@pytest.mark.parametrize(
    ("ending", "code"), [("session.close()", None), ("", None), ("raise ValueError('diverged')", 1)]
)
def test_gpus_emulated_in_a_python_process_give_the_same_folder(tmp_path: Path, ending: str, code: int | None) -> None:
    out = tmp_path / "run"
    program = TRAIN + IN_PROCESS.replace("OUT", repr(str(out))).replace("ENDING", ending)
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == (code or 0), done.stderr
    run = load_run(out)
    assert (run.world, run.info["exit_code"]) == ("emulated", code)
    (row,) = run["programs"].to_dicts()
    assert (row["steps"], row["gpu_kinds"], row["exit_code"]) == (4, ["V100"], code)
    assert run["steps"].height == 4
    assert json.loads((out / "run.json").read_text(encoding="utf-8"))["gpus"] == "V100"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
