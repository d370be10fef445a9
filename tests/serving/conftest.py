"""One server that many tests talk to, and services to start others with."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serving.running import SERVICES, Running, serving

pytest.importorskip("uvloop", reason="gpuyard serve needs the extra 'serve'")


@pytest.fixture
def services(tmp_path: Path) -> Path:
    path = tmp_path / "services.yaml"
    path.write_text(SERVICES)
    return path


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("serving") / "services.yaml"
    path.write_text(SERVICES)
    with serving(path, "--no-replan", "--body-limit", "1") as running:
        yield running
