"""What tests of Kubernetes may use."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder for sockets, whose paths must be short; those that tests get otherwise are not."""
    with tempfile.TemporaryDirectory(prefix="yard-", dir="/tmp") as folder:
        yield Path(folder)
