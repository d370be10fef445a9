"""The bundled zoo, and the published tables to hold it against."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuyard.profiles import Zoo, load_zoo

Rows = list[dict[str, str]]


@pytest.fixture(scope="session")
def zoo() -> Zoo:
    return load_zoo()


@pytest.fixture(scope="session")
def published_rows(shared_data: Path) -> Callable[[str], Rows]:
    """Read one of Synergy's tables, without its comments."""

    def read(name: str) -> Rows:
        lines = (shared_data / "synergy" / name).read_text(encoding="utf-8").splitlines()
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))

    return read
