"""Compiles the libraries in C: C11, no dependencies, one call of the compiler for each.

Only the standard library is used: pip's isolated build runs this before gpuyard can be imported, and an installed
gpuyard has it beside the sources, to compile what was not compiled then.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).resolve().parent
INSTALLED = SOURCES.parent / "src" / "gpuyard" / "native" / "lib"
"""Where an installation has its libraries, in a folder named after the state of their sources."""

FLAGS = (
    *("-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread", "-Wall", "-Wextra", "-Wl,-z,defs"),
    "-ffp-contract=off",  # the same digits on every processor
)


class BuildError(Exception):
    """A library cannot be built here; says why in one line."""


class Library(NamedTuple):
    """One library: the folders of its sources, what is generated, and what does not work without it."""

    name: str
    folders: tuple[str, ...]
    lost: str
    link: str = ""
    """A name without a version, by which some programs look for it."""
    flags: tuple[str, ...] = ()
    generated: Callable[[], dict[str, str]] = dict
    """Further sources, by file name."""


def _unsupported() -> dict[str, str]:
    """One function for each name in the list. Callers pass arguments, which C's calling convention lets us ignore."""
    names = (SOURCES / "nvml" / "unsupported.txt").read_text(encoding="utf-8").split()
    bodies = (f"EXPORT nvmlReturn_t {name}(void) {{ return NVML_ERROR_NOT_SUPPORTED; }}\n" for name in names)
    heads = (f"EXPORT nvmlReturn_t {name}(void);\n" for name in names)
    return {"unsupported.c": "".join(['#include "abi.h"\n', *heads, *bodies])}


def _driver_functions() -> dict[str, str]:
    """Every function of the driver API: the table by which they are found, and those that no other source defines.

    A function that is not supported is a weak one, so that one of the same name elsewhere takes its place. Those whose
    default stream is the thread's own pass what they got on to the usual ones: words, by C's calling convention.
    """
    rows = [line.split() for line in (SOURCES / "cuda" / "functions.txt").read_text(encoding="utf-8").splitlines()]
    words = ", ".join(f"uintptr_t w{i}" for i in range(12))
    passed = ", ".join(f"w{i}" for i in range(12))
    lines = ['#include "stream.h"', '#include "unsupported.h"', f"typedef CUresult words({words});"]
    lines.append("#define per_thread default_stream_is_per_thread")
    for name, _ in rows:
        usual = name.removesuffix("_ptsz").removesuffix("_ptds")
        lines.append(f"EXPORT words {name};")
        if usual != name:
            call = f"per_thread(true); CUresult result = {usual}({passed}); per_thread(false); return result;"
            lines.append(f"EXPORT words {usual}; CUresult {name}({words}) {{ {call} }}")
        else:
            unused = ", ".join(f"(void)w{i}" for i in range(12))
            body = f'{unused}; return unsupported("{name}");'
            lines.append(f"__attribute__((weak)) CUresult {name}({words}) {{ {body} }}")
    table = [f'    {{"{name}", {since}, (void *){name}}},' for name, since in rows]
    lines += ["const struct driver_function DRIVER_FUNCTIONS[] = {", *table, "    {NULL, 0, NULL},", "};", ""]
    return {"functions.c": "\n".join(lines)}


LIBRARIES = {
    each.name: each
    for each in (
        Library(
            "libgpuyard-node.so",
            ("node",),
            "no program runs on emulated GPUs in real time",
            flags=("-DGPUYARD_EXPORTED",),
        ),
        Library(
            "libnvidia-ml.so.1",
            ("node", "nvml"),
            "nvidia-ml-py, gpustat and nvitop do not see emulated GPUs",
            link="libnvidia-ml.so",
            generated=_unsupported,
        ),
        Library(
            "libgpuyard-gate.so",
            ("node", "gate", "gate/driver"),
            "no program shares a GPU through the gate",
            flags=("-Wl,-Bsymbolic-functions",),  # it means its own functions, whatever else defines them
        ),
        Library(
            "libcuda.so.1",
            ("node", "cuda", "cuda/ptx"),
            "programs that call the CUDA driver do not run on emulated GPUs",
            link="libcuda.so",
            flags=("-D_GNU_SOURCE=", "-Wl,-Bsymbolic"),
            generated=_driver_functions,
        ),
    )
}
"""Those that stand on the ground, `node/`, have it compiled into themselves."""


def state() -> str:
    """Return what changes whenever anything does that the libraries are made of."""
    known = hashlib.sha256(platform.machine().encode())
    for file in sorted(path for path in SOURCES.rglob("*") if path.suffix in (".c", ".h", ".txt", ".py")):
        content = file.read_bytes()
        known.update(f"\n{file.relative_to(SOURCES)} {len(content)}\n".encode())
        known.update(content)
    return known.hexdigest()[:16]


def build(library: Library, target: Path, flags: Sequence[str] = ()) -> Path:
    """Compile one library to `target`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".build-") as folder:
        generated = Path(folder)
        for name, text in library.generated().items():
            (generated / name).write_text(text, encoding="utf-8")
        places = [SOURCES / each for each in library.folders] + [generated]
        sources = [str(file) for place in places for file in sorted(place.glob("*.c"))]
        made = generated / target.name
        includes = [f"-I{place}" for place in places]
        names = [f"-Wl,-soname,{library.name}", "-o", str(made), "-lm"]
        _run([*_compiler(), *FLAGS, *library.flags, *flags, *includes, *sources, *names])
        if not made.is_file():
            raise BuildError(f"the compiler {_compiler()[0]!r} ended well and made nothing; name another in CC")
        made.replace(target)  # programs that run keep the file they have loaded
        if library.link:
            (generated / library.link).symlink_to(target.name)
            (generated / library.link).replace(target.with_name(library.link))
    return target


def _compiler() -> list[str]:
    named = os.environ.get("CC", "").strip() or "cc"
    try:
        command = shlex.split(named)
    except ValueError as error:
        raise BuildError(f"CC is {named!r}, which is no command: {error}") from None
    if shutil.which(command[0]) is None:
        raise BuildError(f"no C compiler {command[0]!r}; install one or name yours in CC")
    return command


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise BuildError(next((line for line in lines if "error" in line), lines[-1]))


def build_installed(installed: Path = INSTALLED) -> list[Path]:
    """Compile all libraries for an installation; where one cannot be, say in one line what is lost and go on.

    Those of other states of the sources are removed.
    """
    folder, made = installed / state(), list[Path]()
    for old in installed.glob("*"):
        if old != folder:
            shutil.rmtree(old, ignore_errors=True)
    for library in LIBRARIES.values():
        try:
            made.append(build(library, folder / library.name))
            made += [folder / library.link] if library.link else []
        except (BuildError, OSError) as error:
            print(f"warning: {library.lost}: {library.name} was not built: {error}", file=sys.stderr)
    return made


if __name__ == "__main__":
    build_installed()
