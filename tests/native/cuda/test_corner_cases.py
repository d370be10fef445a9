"""Corner cases of the driver API, in a C program that is compiled against the driver's own header."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.native.cuda.driver import settings

from gpuyard.native import build_script, find

PROGRAM = Path(__file__).with_name("corner_cases.c")


def test_corner_cases(tmp_path: Path) -> None:
    library = find("libcuda.so.1")
    compiler = shlex.split(os.environ.get("CC") or "cc")
    if shutil.which(compiler[0]) is None:
        pytest.skip("no C compiler")
    flags = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", f"-I{build_script().SOURCES / 'cuda'}"]
    subprocess.run([*compiler, *flags, PROGRAM, "-o", tmp_path / "cases", library, "-lm", "-pthread"], check=True)
    environment = settings(gpus="2xA100", clock="device", kernel_times="k=100") | {
        "LD_LIBRARY_PATH": str(library.parent)
    }
    done = subprocess.run(
        [tmp_path / "cases"], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert len(done.stdout.splitlines()) == PROGRAM.read_text().count("CASE(") - 1
