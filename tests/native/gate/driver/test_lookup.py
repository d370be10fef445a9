"""However a program comes by the driver's functions, it gets the gate's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.native.gate.driver.programs import PREAMBLE, environment, run

from gpuyard.native import find
from gpuyard.sharing.group import Group

HERE = Path(__file__).parent
ABI = HERE.parents[3] / "native" / "cuda"


@pytest.fixture(scope="session")
def looks_up(still: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("looks_up") / "looks_up"
    command = ["cc", "-std=c11", "-Wall", "-Wextra", f"-I{ABI}", str(HERE / "looks_up.c"), str(still / "libcuda.so.1")]
    subprocess.run([*command, "-ldl", "-o", str(made)], check=True)
    return made


WAYS = ["linked", "dlsym", "dlsym-default", "dlvsym", "driver", "driver-per-thread", "driver-twice", "next"]


@pytest.mark.parametrize("way", WAYS)
def test_a_program_in_c_is_gated(looks_up: Path, still: Path, group: Group, way: str) -> None:
    with subprocess.Popen(
        [looks_up, way], env=environment(still), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdin is not None
        assert program.stdout.readline() == "launched\n"
        (state,) = group.look(0).clients
        assert (state.pid, state.launches, state.active) == (program.pid, 1, True)
        program.stdin.close()
    assert program.returncode == 0
    assert group.look(0).clients == ()


@pytest.mark.parametrize("way", WAYS)
def test_the_same_program_runs_without_the_gate(looks_up: Path, still: Path, way: str) -> None:
    surroundings = {**os.environ, "LD_LIBRARY_PATH": str(still)}
    done = subprocess.run([looks_up, way], env=surroundings, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("order", ["before", "behind"])
def test_another_interposer_stands_before_or_behind_the_gate(
    still: Path, tmp_path: Path, group: Group, order: str
) -> None:
    other = tmp_path / "interposer.so"
    command = ["cc", "-std=c11", "-O2", "-fPIC", "-shared", f"-I{ABI}", str(HERE / "interposer.c"), "-o", str(other)]
    subprocess.run([*command, "-ldl"], check=True)
    gate = str(find("libgpuyard-gate.so"))
    preloaded = f"{other}:{gate}" if order == "before" else f"{gate}:{other}"
    surroundings = {**environment(still), "LD_PRELOAD": preloaded}
    script = PREAMBLE + "check(ctypes.CDLL(None).cuGraphLaunch(None, None)); print(mine().launches)"
    done = subprocess.run([sys.executable, "-c", script], env=surroundings, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr
    # the gate calls the driver's own function, so one behind it is not reached
    assert done.stderr == ("interposed\n" if order == "before" else "")


@pytest.fixture(scope="session")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that looks up the driver by itself, and has a neighbour that only its RUNPATH leads to."""
    folder = tmp_path_factory.mktemp("deep")
    command = ["cc", "-std=c11", "-fPIC", "-shared", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/beside", f"-I{ABI}"]
    subprocess.run([*command, str(HERE / "deep.c"), "-ldl", "-o", str(folder / "deep.so")], check=True)
    (folder / "beside").mkdir()
    (folder / "beside" / "libneighbour.so").write_bytes((folder / "deep.so").read_bytes())
    return folder / "deep.so"


@pytest.mark.parametrize("mode", ["os.RTLD_NOW", "os.RTLD_NOW | os.RTLD_DEEPBIND"])
def test_a_library_that_binds_deeply_is_gated(still: Path, deep: Path, mode: str) -> None:
    script = f"""
deep = ctypes.CDLL({str(deep)!r}, mode={mode})
check(deep.launch_once())
show(launches=mine().launches, neighbour=deep.finds_neighbour())
"""
    assert run(still, script) == {"launches": 1, "neighbour": 1}


def test_names_that_nobody_has_stay_unknown(still: Path) -> None:
    shown = run(still, "show(known=[hasattr(cuda, name) for name in ('cuLaunchGrid', 'cuNonsense', 'cuLaunchKernel')])")
    assert shown == {"known": [False, False, True]}


def test_without_a_driver_its_functions_are_not_there(tmp_path: Path) -> None:
    script = "import ctypes; print(hasattr(ctypes.CDLL(None), 'cuLaunchKernel'))"
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(tmp_path), capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
