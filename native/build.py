"""Compile the emulated NVML library: C11, no dependencies, one call of the compiler.

Only the standard library is used: pip's isolated build runs this before gpuyard can be imported.
"""

from __future__ import annotations

import os
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "native" / "nvml"
EMULATION = ROOT / "src" / "gpuyard" / "emulation"
HEADERS = {"segment.h": EMULATION / "node" / "layout.py", "thermals.h": EMULATION / "thermals.py"}
"""What C and Python have in common is stated in Python; each of these modules writes itself as a header."""
LIBRARY = EMULATION / "lib" / "libnvidia-ml.so.1"

FLAGS = ("-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread", "-Wall", "-Wextra", "-Wl,-z,defs")


class BuildError(Exception):
    """The library cannot be built here; says why in one line."""


def build(target: Path = LIBRARY, flags: Sequence[str] = ()) -> Path:
    """Compile the library to `target`, with the segment's layout and the list of unsupported names as they are now."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".build-") as folder:
        generated = Path(folder)
        for name, module in HEADERS.items():
            (generated / name).write_text(_header(module), encoding="utf-8")
        (generated / "unsupported.c").write_text(_unsupported(), encoding="utf-8")
        made = generated / target.name
        sources = [*sorted(map(str, SOURCES.glob("*.c"))), str(generated / "unsupported.c")]
        places = [f"-I{SOURCES}", f"-I{generated}", f"-Wl,-soname,{LIBRARY.name}", "-o", str(made)]
        _run([*_compiler(), *FLAGS, *flags, *sources, *places])
        made.replace(target)  # programs that run keep the file they have loaded
    return target


def _header(module: Path) -> str:
    sys.path.insert(0, str(ROOT / "src"))
    try:
        return str(runpy.run_path(str(module))["c_header"]())
    finally:
        sys.path.pop(0)


def _unsupported() -> str:
    """One function for each name in the list. Callers pass arguments, which C's calling convention lets us ignore."""
    names = (SOURCES / "unsupported.txt").read_text(encoding="utf-8").split()
    bodies = (f"EXPORT nvmlReturn_t {name}(void) {{ return NVML_ERROR_NOT_SUPPORTED; }}\n" for name in names)
    return '#include "abi.h"\n' + "".join(f"EXPORT nvmlReturn_t {name}(void);\n" for name in names) + "".join(bodies)


def _compiler() -> list[str]:
    command = shlex.split(os.environ.get("CC") or "cc")
    if shutil.which(command[0]) is None:
        raise BuildError(f"no C compiler {command[0]!r}; install one or name yours in CC")
    return command


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise BuildError(next((line for line in lines if "error" in line), lines[-1]))


def build_or_warn(target: Path = LIBRARY) -> Path | None:
    """Compile; where that is impossible, say in one line what will be missing and go on."""
    try:
        return build(target)
    except (BuildError, OSError) as error:
        target.unlink(missing_ok=True)  # an old one may read a layout that is no more
        lost = "nvidia-ml-py, gpustat and nvitop will not see emulated GPUs (all else works)"
        print(f"warning: {lost}: {target.name} was not built: {error}", file=sys.stderr)
        return None


if __name__ == "__main__":
    build_or_warn()
