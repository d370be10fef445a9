"""Models that cannot be served: said in one line, and no server that waits for them for ever."""

import asyncio
import json
import socket
import sys
from multiprocessing import Pipe
from pathlib import Path
from typing import NoReturn

import pytest
from tests.serving.running import PATIENCE_S
from tests.serving.test_same_rules import planned

from gpuyard.core.errors import InputError
from gpuyard.core.service import Service
from gpuyard.policies.partition.elastic import Elastic
from gpuyard.serving import server as server_module
from gpuyard.serving.contracts import emulated_contracts
from gpuyard.serving.fleet import Workers
from gpuyard.serving.frames import FrameKind, Frames, frame
from gpuyard.serving.gpu import process
from gpuyard.serving.gpu.emulated import EmulatedGpu
from gpuyard.serving.gpu.executor import UnusableError
from gpuyard.serving.gpu.torch_slices import TorchSlices
from gpuyard.serving.gpu.torch_worker import ModelFile, Result, Share, work
from gpuyard.serving.repository import read_repository
from gpuyard.serving.server import Server
from gpuyard.serving.settings import ServeSettings

SERVICES = (Service("bert", "bert", 20, 100),)
WHY = "x.pt2 cannot be loaded: File is not a zip file"
SAYS_WHY = """
import socket, sys
socket.socket(fileno=int(sys.argv[1])).sendall(bytes.fromhex(sys.argv[2]))
"""


class Unusable(Workers):
    """Processes that find their model to be of no use."""

    def command(self, fileno: int, gpu: int) -> list[str]:
        return [sys.executable, "-c", SAYS_WHY, str(fileno), frame(FrameKind.UNUSABLE, WHY.encode()).hex()]


def test_a_server_that_cannot_load_a_model_ends_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = planned(SERVICES, "1x2080ti")
    contracts = emulated_contracts(SERVICES, deployment)
    monkeypatch.setattr(server_module, "_models", lambda *_: (contracts, Unusable()))
    server = Server(deployment, Elastic(), ServeSettings(http_port=0, grpc_port=0), None)
    with pytest.raises(InputError, match=rf"field models: .*{WHY}"):
        asyncio.run(asyncio.wait_for(server.run(lambda _: None), PATIENCE_S))


def test_a_gpu_process_says_why_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    class Useless(EmulatedGpu):
        def prepare(self, *_: object) -> NoReturn:
            raise UnusableError(WHY)

    monkeypatch.setattr(process, "executor_of", lambda *_: Useless())
    monkeypatch.setattr("signal.signal", lambda *_: None)
    ours, theirs = socket.socketpair()
    with ours:
        ours.sendall(frame(FrameKind.PREPARE, json.dumps({"layout": 0, "slices": []}).encode()))
        process.main([str(theirs.detach()), "emulated", "{}"])
        assert list(Frames().feed(ours.recv(1024))) == [(FrameKind.UNUSABLE, WHY.encode())]


def test_a_file_that_is_no_model_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr("signal.signal", lambda *_: None)
    path = tmp_path / "x.pt2"
    path.write_text("nothing")
    ours, theirs = Pipe()
    with ours, theirs:
        work(theirs, {"x": ModelFile(str(path), [], [])}, Share("cpu", 0, 100))
        found: Result = ours.recv()
        assert found.error.startswith(f"{path} cannot be loaded: ")
        ours.close()
        work(theirs, {}, Share("cpu", 0, 100))  # whoever asked is gone: no reason to raise anything
    with pytest.raises(UnusableError, match="cannot be loaded"):
        TorchSlices(0, "cpu", {})._take((0, 0), found)


@pytest.mark.parametrize(
    ("tensors", "says"),
    [
        ([{"name": "a", "datatype": "FP32", "shape": [-1, 3]}], "shape"),
        ([{"name": "a", "datatype": "FP32", "shape": [0]}], "shape"),
        ([{"name": "a", "datatype": "FP32", "shape": [3]}] * 2, "'a' stands twice"),
        ([{"name": "a", "datatype": "BYTES", "shape": [3]}], "is not a datatype of a model"),
    ],
)
def test_tensors_that_no_model_can_have(tmp_path: Path, tensors: list[dict[str, object]], says: str) -> None:
    (tmp_path / "bert.pt2").write_text("")
    good = [{"name": "b", "datatype": "FP32", "shape": [1]}]
    told = {"gpuyard": "model/1", "inputs": tensors, "outputs": good}
    (tmp_path / "bert.json").write_text(json.dumps(told))
    with pytest.raises(InputError, match=says):
        read_repository(tmp_path, SERVICES)
