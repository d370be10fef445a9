"""What every test may use."""

import os
import signal
from pathlib import Path

import hypothesis
import pytest

from gpuyard.native import libraries

hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")

# Under nohup, or in the background, some of these are ignored, and whatever the tests start would ignore them too.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


@pytest.fixture
def no_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A gpuyard of which no library in C is compiled yet; returns where the package may keep them."""
    package = tmp_path / "package"
    package.mkdir()
    monkeypatch.setattr(libraries, "PACKAGE", package)
    monkeypatch.setattr(libraries, "INSTALLED", package / "native" / "lib")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    return package / "native" / "lib"


@pytest.fixture
def no_compiler(no_libraries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, on a machine without a C compiler."""
    monkeypatch.setenv("CC", "no-such-compiler -O2")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of golden results and public traces; it is too large to live in the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("GPUYARD_SHARED_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder}; name its folder in GPUYARD_SHARED_DATA")
    return folder
