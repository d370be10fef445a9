"""How the emulated NVML library is built and found."""

import os
from pathlib import Path
from types import ModuleType

import pytest

from gpuyard.emulation import nvml


def test_without_a_compiler_one_line_says_what_is_missing(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / build.LIBRARY.name
    old.write_bytes(b"of another layout")
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    assert build.build_or_warn(old) is None
    said = capfd.readouterr().err
    assert said.startswith("warning: nvidia-ml-py, gpustat and nvitop will not see emulated GPUs")
    assert said.endswith("no C compiler 'no-such-compiler'; install one or name yours in CC\n")
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_compiler_that_fails_is_quoted(build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'node.c:1: note: here' >&2\necho 'node.c:2: error: too hot' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(build.BuildError, match=r"^node\.c:2: error: too hot$"):
        build.build(tmp_path / "lib" / "library.so")
    assert list((tmp_path / "lib").iterdir()) == []


def test_it_goes_first_on_the_search_path(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_LIBRARY", library)
    folder = str(library.parent)
    assert nvml.library_path() == library
    assert nvml.search_path({}) == {"LD_LIBRARY_PATH": folder}
    assert nvml.search_path({"LD_LIBRARY_PATH": f"/a:{folder}:/b"}) == {
        "LD_LIBRARY_PATH": os.pathsep.join([folder, "/a", "/b"])
    }


def test_where_it_was_not_built_nothing_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_LIBRARY", tmp_path / "missing")
    assert nvml.library_path() is None
    assert not nvml.preload()
    assert nvml.search_path({"LD_LIBRARY_PATH": "/a"}) == {}
