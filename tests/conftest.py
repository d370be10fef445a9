"""What every test may use."""

import os
import signal
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")

# Under nohup, or in the background, some of these are ignored, and whatever the tests start would ignore them too.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of golden results and public traces; it is too large to live in the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("GPUYARD_SHARED_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder}; name its folder in GPUYARD_SHARED_DATA")
    return folder
