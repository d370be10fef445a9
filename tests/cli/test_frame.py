"""The frame around all commands: instant help, one-line errors, manners in pipes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuyard import __version__
from gpuyard.cli import COMMANDS, load_command, main

HEAVY = ("numpy", "polars", "numba", "matplotlib", "scipy", "yaml", "ray", "rich")


def gpuyard(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuyard", *args],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env=os.environ | environment,
    )


def test_help_names_every_command() -> None:
    done = gpuyard("--help")
    assert all(f"  {name} " in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("args", [["--help"], *([name, "--help"] for name in COMMANDS)], ids=" ".join)
def test_help_imports_nothing_heavy(args: list[str]) -> None:
    code = f"""
import sys
from gpuyard.cli import main
try:
    main({args})
except SystemExit as end:
    assert end.code == 0, end.code
print("HEAVY:", [name for name in {HEAVY} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "HEAVY: []"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_of_its_own(name: str) -> None:
    assert load_command(name).help


def test_version() -> None:
    assert gpuyard("--version").stdout == f"gpuyard {__version__}\n"


def test_an_unknown_command_names_the_nearest() -> None:
    done = gpuyard("simulat")
    assert done.returncode == 2
    assert "Did you mean 'simulate'" in done.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["simulate", "--polcy", "fifo+tune"], "--polcy. Did you mean '--policy'? See 'gpuyard simulate --help'"),
        (["simulate", "--zzz"], "No such option: --zzz. See 'gpuyard simulate --help'"),
        (["simulate", "--jobs", "many"], "field jobs: 'many' should be a valid integer"),
        (["simulate", "--jobs"], "Option '--jobs' requires an argument."),
        (["simulate", "extra"], "unexpected extra argument"),
        (["compare"], "Missing argument 'RUN'. See 'gpuyard compare --help'"),
        (["trace", "inf"], "No such command 'inf'. Did you mean 'info'? See 'gpuyard trace --help'"),
        (["--nothing"], "No such option: --nothing. See 'gpuyard --help'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_use_is_one_line_that_says_what_would_be_right(
    args: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(args)
    told = capsys.readouterr()
    assert end.value.code == 2
    assert told.out == ""
    assert told.err.startswith("error: ")
    assert told.err.count("\n") == 1
    assert says in told.err


def test_a_group_without_a_command_shows_its_help() -> None:
    assert gpuyard().stderr.startswith("Usage: gpuyard [OPTIONS] COMMAND")
    assert "convert" in gpuyard("trace").stderr


def test_bad_input_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    done = gpuyard("compare", str(tmp_path / "none"), str(tmp_path / "none2"))
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    done = gpuyard("compare", str(tmp_path / "none"), str(tmp_path / "none2"), GPUYARD_DEBUG="1")
    assert "Traceback" in done.stderr


def test_a_closed_pipe_is_silent() -> None:
    command = f"{sys.executable} -m gpuyard simulate --jobs 200 --format csv 2>&1 >&3 | cat >&2"
    code = f"exec 3> >(exec true); sleep 0.2; {command}"
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, timeout=900, check=False)
    assert "Traceback" not in done.stderr
    assert "Broken" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line() -> None:
    code = f"{sys.executable} -m gpuyard --version > /dev/full"
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 1
    assert done.stderr == "error: No space left on device\n"
