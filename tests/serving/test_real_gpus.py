"""What is looked at before real GPUs serve, with daemons of MPS that are only sockets and pipes."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.simulation.serving.builders import deployed, part, service, steady

from gpuyard.core.errors import InputError
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.serving.gpu import real_gpus
from gpuyard.serving.gpu.real_gpus import PIPES_VARIABLE, check_gpus, usable_gpus


@contextmanager
def nothing(_pipe: Path) -> Iterator[None]:
    yield


@contextmanager
def listening(pipe: Path, kind: socket.SocketKind = socket.SOCK_STREAM) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX, kind) as daemon:
        daemon.bind(str(pipe))
        daemon.listen()
        yield


@contextmanager
def listening_otherwise(pipe: Path) -> Iterator[None]:
    with listening(pipe, socket.SOCK_SEQPACKET):
        yield


@contextmanager
def gone(pipe: Path) -> Iterator[None]:
    with listening(pipe):
        pass
    yield


@contextmanager
def reading(pipe: Path) -> Iterator[None]:
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    yield
    os.close(reader)


@contextmanager
def pipe_left_over(pipe: Path) -> Iterator[None]:
    os.mkfifo(pipe)
    yield


@contextmanager
def plain_file(pipe: Path) -> Iterator[None]:
    pipe.touch()
    yield


def planned(percent: int) -> Deployment:
    return deployed([service("x", 100)], [part(percent, ("x", 4))], {"x": steady(10.0)}, gpus=1)


def check(folder: Path, percent: int = 40, *, replan: bool = False, gpus: int = 1) -> None:
    check_gpus(planned(percent), replan=replan, count=lambda: gpus, environment={PIPES_VARIABLE: str(folder)})


@pytest.mark.parametrize("daemon", [listening, listening_otherwise, reading])
def test_slices_are_served_where_a_daemon_listens(tmp_path: Path, daemon: type) -> None:
    with daemon(tmp_path / "control"):
        check(tmp_path)


@pytest.mark.parametrize(
    ("daemon", "why"),
    [(nothing, "is not there"), (gone, "refused"), (pipe_left_over, "No such device"), (plain_file, "refused")],
)
def test_slices_without_a_daemon_are_refused(tmp_path: Path, daemon: type, why: str) -> None:
    with daemon(tmp_path / "control"), pytest.raises(InputError, match=why) as told:
        check(tmp_path)
    assert str(tmp_path) in str(told.value)
    assert "nvidia-cuda-mps-control -d" in str(told.value)
    assert "--no-replan" not in str(told.value)
    assert len(str(told.value).splitlines()) == 1


def test_whole_gpus_need_no_daemon_as_long_as_they_stay_whole(tmp_path: Path) -> None:
    check(tmp_path, 100)
    with pytest.raises(InputError, match="--no-replan"):
        check(tmp_path, 100, replan=True)


def test_the_daemon_is_looked_for_where_nvidia_has_it_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real_gpus, "PIPES", str(tmp_path))
    with listening(tmp_path / "control"):
        for told in ({}, {PIPES_VARIABLE: ""}):
            check_gpus(planned(40), replan=False, count=lambda: 1, environment=told)


def test_a_plan_for_more_gpus_than_there_are_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has 0 GPUs that CUDA can use, and the plan is for 1"):
        check(tmp_path, 100, gpus=0)


@pytest.mark.parametrize(
    ("probe", "why"),
    [
        ("raise RuntimeError('no driver')", "CUDA cannot be used: RuntimeError: no driver"),
        ("import sys; sys.exit(3)", "exit code 3"),
        ("import time; time.sleep(600)", "does not answer within 0.2 s"),
    ],
)
def test_cuda_that_does_not_work_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch, probe: str, why: str) -> None:
    monkeypatch.setattr(real_gpus, "COUNT_GPUS", probe)
    monkeypatch.setattr(real_gpus, "PATIENCE_S", 0.2 if "sleep" in probe else 120.0)
    with pytest.raises(InputError, match=why) as told:
        usable_gpus()
    assert len(str(told.value).splitlines()) == 1


def test_gpus_are_counted_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real_gpus, "COUNT_GPUS", "print(3)")
    assert usable_gpus() == 3
