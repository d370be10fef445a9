"""How the libraries in C are compiled, found and checked."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from tests.native.compiling import compile_strictly

from gpuyard.cli import load_command
from gpuyard.core.errors import MissingLibraryError
from gpuyard.native import build_all, build_script, check_all, find, folder, libraries

ROOT = Path(__file__).resolve().parents[2]
NODE = "libgpuyard-node.so"
EVERY = list(build_script().LIBRARIES)


def native(*arguments: str) -> str:
    """Run the command as the command line does, and return what it prints to stdout."""
    with redirect_stdout(StringIO()) as printed:
        load_command("native")(list(arguments), standalone_mode=False)
    return printed.getvalue()


@pytest.mark.parametrize("name", EVERY)
def test_no_library_makes_the_compiler_complain(name: str, tmp_path: Path) -> None:
    assert compile_strictly(name, tmp_path).is_file()


@pytest.mark.parametrize("name", [name for name in EVERY if name != NODE])
def test_only_the_library_for_python_shows_the_ground(name: str, tmp_path: Path) -> None:
    """Two libraries in one process have each its own: the second must not be led to the first one's."""
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("no nm to list symbols")
    made = compile_strictly(name, tmp_path)
    shown = subprocess.run([nm, "-D", "--defined-only", made], capture_output=True, text=True, check=True).stdout
    assert shown
    assert not re.search(r"\bgpuyard_(?!gate_)", shown)


def test_what_is_not_there_is_compiled_once(no_libraries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = find(NODE)
    assert path.is_relative_to(no_libraries)
    made = path.stat().st_mtime_ns
    monkeypatch.setenv("CC", "no-such-compiler")
    assert find(NODE).stat().st_mtime_ns == made


@pytest.mark.parametrize("name", ["libcuda.so", "libnvidia-ml.so"])
def test_programs_that_look_for_a_library_without_its_version_find_it(name: str) -> None:
    assert (folder() / name).resolve() == find(f"{name}.1").resolve()


def test_where_the_package_cannot_be_written_to_the_users_cache_keeps_it(
    no_libraries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    occupied = tmp_path / "occupied"
    occupied.touch()
    monkeypatch.setattr(libraries, "PACKAGE", occupied)
    monkeypatch.setattr(libraries, "INSTALLED", occupied / "lib")
    path = find(NODE)
    assert path.is_relative_to(tmp_path / "home" / ".cache" / "gpuyard")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700, "loading it means trusting it"
    assert find(NODE) == path


def test_without_any_place_it_says_so(no_libraries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    occupied = tmp_path / "occupied"
    occupied.touch()
    monkeypatch.setattr(libraries, "PACKAGE", occupied)
    monkeypatch.setattr(libraries, "INSTALLED", occupied / "lib")
    monkeypatch.setenv("HOME", str(occupied))
    with pytest.raises(MissingLibraryError, match=r"was not built: no folder of yours can keep it; XDG_CACHE_HOME may"):
        find(NODE)


def test_sources_that_change_make_another_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = build_script()
    shutil.copytree(script.SOURCES, tmp_path / "native")
    monkeypatch.setattr(script, "SOURCES", tmp_path / "native")
    before = script.state()
    header = tmp_path / "native" / "node" / "layout.h"
    header.write_text(header.read_text().replace("MOST_BREAKPOINTS 256", "MOST_BREAKPOINTS 128"))
    assert script.state() != before


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_one_line_says_what_is_lost() -> None:
    with pytest.raises(MissingLibraryError) as caught:
        find(NODE)
    assert str(caught.value) == (
        "no program runs on emulated GPUs in real time: libgpuyard-node.so was not built: "
        "no C compiler 'no-such-compiler'; install one or name yours in CC"
    )


def test_an_installation_without_a_compiler_goes_on_and_says_a_line_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "lib" / "0123456789abcdef" / NODE
    old.parent.mkdir(parents=True)
    old.write_bytes(b"of another state")
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    assert build_script().build_installed(tmp_path / "lib") == []
    said = capfd.readouterr().err.splitlines()
    assert [line.split(": ")[0] for line in said] == ["warning"] * len(EVERY)
    assert all(line.endswith("no C compiler 'no-such-compiler'; install one or name yours in CC") for line in said)
    assert not old.exists()


def test_a_compiler_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'node.c:1: note: here' >&2\necho 'node.c:2: error: too hot' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    script = build_script()
    with pytest.raises(script.BuildError, match=r"^node\.c:2: error: too hot$"):
        script.build(script.LIBRARIES[NODE], tmp_path / "lib" / NODE)
    assert list((tmp_path / "lib").iterdir()) == []


def test_a_compiler_that_makes_nothing_is_named(no_libraries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "true")
    with pytest.raises(MissingLibraryError, match=r"was not built: the compiler 'true' ended well and made nothing"):
        find(NODE)


def test_a_blank_name_of_a_compiler_means_the_usual_one(
    no_libraries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "  ")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingLibraryError, match="no C compiler 'cc'"):
        find(NODE)


def test_the_command_builds_finds_and_checks(no_libraries: Path) -> None:
    built = native("build").split()
    assert [Path(path).name for path in built] == EVERY
    assert native("path").strip() == str(folder()) == str(Path(built[0]).parent)
    rows = json.loads(native("check", "--format", "json"))
    assert [row["library"] for row in rows] == EVERY
    assert all(row["loads"] and not row["problem"] for row in rows)
    assert [row["path"] for row in rows] == built


@pytest.mark.usefixtures("no_libraries")
def test_a_library_that_does_not_load_is_found_out() -> None:
    broken = build_all()[0]
    broken.unlink()  # others may have it loaded: they keep their file
    broken.write_bytes(b"no library at all")
    state = check_all()[0]
    assert state.path == broken
    assert "invalid ELF header" in state.problem or "file too short" in state.problem


def copied(place: Path) -> dict[str, str]:
    """Install gpuyard without anything compiled on a machine without a compiler; return the environment to use it."""
    shutil.copytree(ROOT / "src", place / "src", ignore=shutil.ignore_patterns("__pycache__", "lib"))
    shutil.copytree(ROOT / "native", place / "native")
    mine = {"PYTHONPATH": str(place / "src"), "CC": "no-such-compiler", "NUMBA_DISABLE_JIT": "1", "HOME": str(place)}
    return {**{name: value for name, value in os.environ.items() if not name.startswith("GPUYARD_")}, **mine}


def test_without_a_compiler_the_simulated_world_works_and_the_emulated_one_says_a_line(tmp_path: Path) -> None:
    environment = copied(tmp_path)

    def gpuyard(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "gpuyard", *arguments]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)

    simulated = gpuyard("simulate", "--cluster", "1x2", "--jobs", "5", "--quiet", "--format", "json")
    assert simulated.returncode == 0, simulated.stderr
    emulated = gpuyard("emulate", "--gpus", "V100", "--", sys.executable, "-c", "print(1)")
    shown, checked = gpuyard("smi"), gpuyard("native", "check")
    for done in (emulated, shown):
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(
            "error: no program runs on emulated GPUs in real time: libgpuyard-node.so was not"
        )
        assert done.stderr.count("\n") == 1
    assert checked.returncode == 1
    assert checked.stdout.count("no-such-compiler") >= 1
