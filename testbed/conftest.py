"""One cluster for all tests of the testbed; without one they are skipped, and say why."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.cluster import LocalCluster
from testbed.programs import CannotBuildError, programs
from testbed.yard import Yard


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    try:
        found = programs()
    except CannotBuildError as error:
        pytest.skip(f"no Kubernetes can be built here: {error}")
    one = LocalCluster(found, tmp_path_factory.mktemp("cluster"))
    try:
        one.start()
        yield one
    finally:
        one.stop()


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
