"""One cluster for all tests of the testbed; without one they are skipped, and say why."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from testbed.cluster import LocalCluster
from testbed.programs import CannotBuildError, programs
from testbed.yard import Yard


def pytest_configure() -> None:
    """Who ends the tests ends their cluster too, whichever signal it takes."""
    for number in (signal.SIGTERM, signal.SIGINT):  # a shell has background commands ignore the latter
        signal.signal(number, signal.default_int_handler)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """Its folder has a short name of its own, for sockets; if a test has failed it stays, with all logs."""
    try:
        found = programs()
    except CannotBuildError as error:
        pytest.skip(f"no Kubernetes can be built here: {error}")
    one = LocalCluster(found, Path(mkdtemp(prefix="gpuyard-testbed-")))
    try:
        one.start()
        yield one
    finally:
        one.stop()
    if request.session.testsfailed:
        print(f"the logs of the cluster are in {one.folder}")
    else:
        shutil.rmtree(one.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def installed(cluster: LocalCluster) -> Iterator[Yard]:
    yard = Yard(cluster)
    yard.install()
    yield yard
    shutil.rmtree(yard.shm, ignore_errors=True)


@pytest.fixture
def yard(installed: Yard) -> Iterator[Yard]:
    yield installed
    installed.remove_all()
    assert Path(installed.cluster.kubeconfig).exists()
