"""One driver for the tests of a process: its clock counts only the GPU's time, so that nothing waits."""

import os

import pytest
from tests.native.cuda.driver import Driver

from gpuyard.core.errors import MissingLibraryError


@pytest.fixture(scope="session")
def driver() -> Driver:
    """The emulated driver in this process, with one A100."""
    os.environ.update(GPUYARD_GPUS="A100", GPUYARD_CLOCK="device")
    try:
        return Driver()
    except MissingLibraryError as error:
        pytest.skip(str(error))
    finally:
        del os.environ["GPUYARD_GPUS"], os.environ["GPUYARD_CLOCK"]
