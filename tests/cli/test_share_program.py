"""`gpuyard share -- COMMAND` puts any program behind the gate, and `gpuyard smi` shows who shares."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gpuyard.cli import main
from gpuyard.sharing.calls import GateFault, gate_library
from gpuyard.sharing.group import Group, Terms
from gpuyard.sharing.monitor import read_groups
from gpuyard.sharing.program import ProgramTerms, gated_environment


@pytest.fixture(autouse=True)
def shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUYARD_SHM", str(tmp_path))


def gpuyard(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


SHOW = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if 'GATE' in k or k == 'LD_PRELOAD'}))"


def run_shared(*options: str, script: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpuyard", "share", *options, "--", sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_program_finds_the_gate_and_its_terms_in_its_environment() -> None:
    options = ["--priority", "high", "--memory", "4GiB", "--share", "0.5", "--sync-every", "8", "--slo", "0.1"]
    done = run_shared(*options, "--group", "mine", script=SHOW)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("LD_PRELOAD").endswith("libgpuyard-gate.so")
    assert found == {
        "GPUYARD_GATE": "mine",
        "GPUYARD_GATE_LEVEL": "20",
        "GPUYARD_GATE_SYNC_EVERY": "8",
        "GPUYARD_GATE_WINDOW": "0",
        "GPUYARD_GATE_SHARE": "0.5",
        "GPUYARD_GATE_SLO": "0.1",
        "GPUYARD_GATE_MEMORY": str(4 << 30),
        "GPUYARD_GATE_HOLD": "0.001",
    }


def test_the_exit_code_is_the_program_s() -> None:
    assert run_shared(script="raise SystemExit(7)").returncode == 7
    assert run_shared(script="import os; os.kill(os.getpid(), 9)").returncode == 137


def test_whatever_else_is_preloaded_stays() -> None:
    first = gated_environment(ProgramTerms(), {"LD_PRELOAD": "other.so"})
    again = gated_environment(ProgramTerms(), first)
    assert first["LD_PRELOAD"].endswith("libgpuyard-gate.so:other.so")
    assert again["LD_PRELOAD"] == first["LD_PRELOAD"], "the gate once is enough"


def test_a_program_behind_the_gate_gives_those_it_starts_no_terms_but_its_memory() -> None:
    outer = gated_environment(ProgramTerms("outer", 5, 4, slo_s=0.1, memory_bytes=4096, hold_s=0.5), {"HOME": "/"})
    inner = gated_environment(ProgramTerms("inner", 7), outer)
    assert inner == gated_environment(ProgramTerms("inner", 7, memory_bytes=4096), {"HOME": "/"})
    assert gated_environment(ProgramTerms(memory_bytes=10), outer)["GPUYARD_GATE_MEMORY"] == "10"


def test_with_a_policy_the_group_is_controlled_while_the_program_runs() -> None:
    script = """
from gpuyard.sharing.group import Group, Terms
import time
group = Group("default")
group.connect("gpu", Terms(3))
while not group.look(0).controlled or group.look(0).clients[0].terms.sync_every != 5:
    time.sleep(0.001)
print(group.look(0).clients[0].terms)
"""
    done = run_shared("--policy", "shares:sync=5", script=script)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Terms(level=0, sync_every=5, window=0, hold_ns=0)\n"


TORCH = """
import os, torch
from gpuyard.sharing.group import Group

x = torch.ones(64, 64, device="cuda")
(x @ x).sum().item()
(found,) = Group("default").look(0).clients
print(torch.cuda.get_device_name(), found.pid == os.getpid(), found.terms, found.jobs_begun, found.launches)
"""


def test_one_option_runs_a_program_on_emulated_gpus_behind_the_gate() -> None:
    options = ["--priority", "high", "--sync-every", "8"]
    short = run_shared("--gpus", "V100", *options, script=TORCH)
    command = [sys.executable, "-m", "gpuyard", "emulate", "--gpus", "V100", "--"]
    command += [sys.executable, "-m", "gpuyard", "share", *options, "--", sys.executable, "-c", TORCH]
    long = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (short.returncode, long.returncode) == (0, 0), short.stderr + long.stderr
    assert "V100" in short.stdout
    assert "True Terms(level=20, sync_every=8, window=0, hold_ns=0) 1 " in short.stdout
    assert short.stdout == long.stdout
    assert "steps on V100: " in short.stderr


def test_on_emulated_gpus_the_exit_code_is_the_program_s_and_quiet_says_nothing() -> None:
    done = run_shared("--gpus", "V100", "--quiet", script="raise SystemExit(7)")
    assert (done.returncode, done.stderr) == (7, "")


RULE_OF_NAMES = "is no name of a group: 1 to 64 letters, digits, '.', '_' and '-'"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--priority", "64"], "field priority: '64' is neither low, normal, high nor a number from 0 to 63"),
        (["--priority", "-1"], "is neither low"),
        (["--memory", "much"], "memory"),
        (["--share", "0"], "share"),
        (["--sync-every", "-4"], "sync_every"),
        (["--hold", "2"], "hold"),
        (["--policy", "fair"], "fair"),
        (["--gpus", "V1000"], "V1000"),
        (["--group", "../a", "--policy", "none"], "is no name of a group"),
        *((["--group", name], RULE_OF_NAMES) for name in ("team a", "../x", "a/b", "é", "\udce9", "", "x" * 65)),
    ],
)
def test_what_makes_no_sense_is_refused(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpuyard("share", *options, "--", "true") == 2
    printed = capsys.readouterr().err
    assert said in printed
    assert printed.count("\n") == 1


def test_a_bad_name_in_the_environment_is_told_by_the_same_rule() -> None:
    assert gate_library().error_text(GateFault.NAME) == b"a group's name is 1 to 64 letters, digits, '.', '_' and '-'"


def test_a_folder_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUYARD_SHM", "/nonexistent")
    assert gpuyard("share", "--policy", "shares", "--", "true") == 2
    assert "there is no /nonexistent" in capsys.readouterr().err


def test_a_program_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpuyard("share", "--", "no-such-program") == 2
    assert "is not a program that can be run" in capsys.readouterr().err


def states() -> list[str]:
    return [each.state for each in read_groups()]


def test_smi_tells_who_waits_at_the_gate_from_who_is_through_it() -> None:
    group = Group("test")
    low, high = group.connect("GPU-1", Terms(0)), group.connect("GPU-1", Terms(9))
    group.connect("GPU-1", Terms(0))
    for client in (low, high):
        client.arrive()
        client.launched()
    assert states() == ["running", "running", "idle"]
    assert low.arrive()
    waiting = threading.Thread(target=low.wait)
    waiting.start()
    while not group.look(0).clients[0].waiting:
        pass
    found = states()
    high.drained(1)
    waiting.join()
    assert (found, states()) == (["waiting", "running", "idle"], ["running", "idle", "idle"])
    group.close()


def test_smi_shows_who_holds_a_gpu_and_who_waits(capsys: pytest.CaptureFixture[str]) -> None:
    group = Group("test")
    low, high = group.connect("GPU-1", Terms(0, sync_every=4)), group.connect("GPU-1", Terms(9))
    for client in (low, high):
        client.arrive()
        client.launched()
    assert gpuyard("smi", "--sharing", "--format", "json") == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["group"], first["gpu"], first["pid"], first["level"]) == ("test", "GPU-1", os.getpid(), 0)
    assert (first["queued"], first["sync_every"], first["controlled"]) == (1, 4, False)
    assert (second["state"], second["queued"], second["preemptions"]) == ("running", 1, 0)
    assert gpuyard("smi") == 0
    assert "GPU-1" in capsys.readouterr().out
    group.close()
    assert gpuyard("smi", "--sharing") == 0
    assert "No program shares a GPU" in capsys.readouterr().err
