"""How programs come to load the emulated NVML library."""

import os
from pathlib import Path

import pytest

from gpuyard.emulation import nvml


def test_it_goes_first_on_the_search_path(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "find", lambda _: library)
    folder = str(library.parent)
    assert nvml.library_path() == library
    assert nvml.search_path({}) == {"LD_LIBRARY_PATH": folder}
    assert nvml.search_path({"LD_LIBRARY_PATH": f"/a:{folder}:/b"}) == {
        "LD_LIBRARY_PATH": os.pathsep.join([folder, "/a", "/b"])
    }


@pytest.mark.usefixtures("no_compiler")
def test_where_it_cannot_be_built_nothing_is_loaded() -> None:
    assert nvml.library_path() is None
    assert not nvml.preload()
    assert nvml.search_path({"LD_LIBRARY_PATH": "/a"}) == {}
