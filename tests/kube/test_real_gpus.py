"""The machine's GPUs by NVML: this product's own emulated library and driver stand in for NVIDIA's, unmodified."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pynvml
import pytest
from tests.kube.api_server import api_server
from tests.kube.builders import node, pod
from tests.kube.kubelet import KubeletStandIn

from gpuyard.client.session import SOCKET as AGENT
from gpuyard.client.shared_batch import SOCKET, TASK
from gpuyard.core.errors import InputError
from gpuyard.emulation import nvml
from gpuyard.emulation.node import GpuSlot, Node
from gpuyard.kube import names
from gpuyard.kube.objects import MOST_GPUS_OF_NODE, YardGpu, read_node
from gpuyard.kube.plugin.device_plugin import DevicePlugin, PluginSettings
from gpuyard.kube.plugin.gpu_numbers import FILE, NvmlGpu, give_numbers, read_numbers
from gpuyard.kube.plugin.nvml_devices import GATE, NvmlDevices
from gpuyard.kube.plugin.nvml_library import QUIET_S, NvmlLibrary

V100 = GpuSlot("V100", "Tesla V100-PCIE-16GB", 16 * 2**30, (7, 0))
A100 = GpuSlot("A100", "NVIDIA A100-SXM4-40GB", 40 * 2**30, (8, 0))


@pytest.fixture
def name(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The emulated machine that NVML of this process watches."""
    made = f"real-{uuid4().hex[:12]}"
    monkeypatch.setenv("GPUYARD_NODE", made)
    assert nvml.preload()
    yield made
    with suppress(pynvml.NVMLError_Uninitialized):  # opened as often as libraries were made
        while True:
            pynvml.nvmlShutdown()


@pytest.fixture
def machine(name: str) -> Iterator[Node]:
    with closing(Node.open(name, (V100, A100))) as opened:
        yield opened


class FaultyNvml:
    """NVML with what the emulated one has not: errors (XID), MIG, and GPUs that are lost when it is told so."""

    def __init__(self) -> None:
        self.errors: list[tuple[str, int]] = []
        self.watched: list[str] = []
        self.lost: set[str] = set()
        self.cut: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(pynvml, name)

    def nvmlEventSetCreate(self) -> object:
        return self

    def nvmlDeviceRegisterEvents(self, handle: Any, kinds: int, events: object) -> None:
        assert (kinds, events) == (pynvml.nvmlEventTypeXidCriticalError, self)
        self.watched.append(pynvml.nvmlDeviceGetUUID(handle))

    def nvmlEventSetWait_v2(self, events: object, timeout_ms: int) -> Any:
        assert timeout_ms == 0
        if not self.errors:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
        uuid, xid = self.errors.pop(0)
        return SimpleNamespace(device=pynvml.nvmlDeviceGetHandleByUUID(uuid), eventData=xid)

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:
        if uuid in self.lost:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return pynvml.nvmlDeviceGetHandleByUUID(uuid)

    def nvmlDeviceGetMigMode(self, handle: Any) -> tuple[int, int]:
        if pynvml.nvmlDeviceGetUUID(handle) in self.cut:
            return pynvml.NVML_DEVICE_MIG_ENABLE, pynvml.NVML_DEVICE_MIG_ENABLE
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


@dataclass
class Watched:
    """The source of a node's GPUs, and the hand on its faults and its clock."""

    folder: Path
    faults: FaultyNvml = field(default_factory=FaultyNvml)
    notes: list[str] = field(default_factory=list)
    now: float = 0.0

    def source(self, **options: Any) -> NvmlDevices:
        library = NvmlLibrary(self.notes.append, self.faults, lambda: self.now)
        self.uuids = [gpu.uuid for gpu in library.gpus()]
        return NvmlDevices(library, self.folder / "tasks", self.folder / "lib", devices=self.folder / "dev", **options)

    def healthy(self, source: NvmlDevices) -> list[bool]:
        return [gpu.healthy for gpu in source.present()]


@pytest.fixture
def watched(tmp_path: Path, machine: Node) -> Watched:
    (tmp_path / "dev").mkdir()
    for device in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / "dev" / device).touch()
    return Watched(tmp_path)


def test_gpus_are_those_that_nvml_tells_of_with_whole_gib_and_their_kind(watched: Watched) -> None:
    assert watched.source().present() == (YardGpu(0, "V100-16GB", 16), YardGpu(1, "A100", 40))


def test_without_a_driver_one_line_says_so(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"needs a driver with NVML.*--emulated"):
        NvmlLibrary(print)


def test_a_container_finds_its_gpu_by_uuid_with_its_devices_and_a_limit(watched: Watched) -> None:
    source = watched.source()
    given = source.for_container(names.MEMORY, ["gpu1-0", "gpu1-1"], 2)
    uuid = watched.uuids[1]
    secret = given.environment.pop(TASK)
    assert given.environment == {
        "NVIDIA_VISIBLE_DEVICES": uuid,
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        "CUDA_VISIBLE_DEVICES": uuid,
        "LD_PRELOAD": f"/opt/gpuyard/lib/{GATE}",
        "GPUYARD_GATE": "container",
        "GPUYARD_GATE_LEVEL": "-1",
        "GPUYARD_GATE_MEMORY": str(2 * 2**30),
        SOCKET: "/opt/gpuyard/sockets/tasks.sock",
        AGENT: "/opt/gpuyard/sockets/steps.sock",
    }
    assert given.device_nodes == ["/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"]  # and not that of GPU 0
    assert [(there, read_only) for there, _, read_only in given.mounts] == [
        ("/opt/gpuyard/lib", True),
        ("/opt/gpuyard/sockets", True),
    ]
    assert len(secret) == 32


def test_whole_gpus_have_no_limit_and_no_tuner(watched: Watched) -> None:
    given = watched.source().for_container(names.WHOLE_GPUS, ["gpu0", "gpu1"], 0)
    assert given.environment["CUDA_VISIBLE_DEVICES"] == ",".join(watched.uuids)
    assert not {"LD_PRELOAD", SOCKET} & set(given.environment)
    assert [(there, read_only) for there, _, read_only in given.mounts] == [("/opt/gpuyard/sockets", True)]


def test_limits_can_be_left_out_and_a_driver_of_the_node_be_given(watched: Watched) -> None:
    source = watched.source(limits=False, driver=Path("/usr/lib/nvidia"))
    source.prepare()
    assert not (watched.folder / "lib").exists()
    given = source.for_container(names.MEMORY, ["gpu0-0"], 1)
    assert "LD_PRELOAD" not in given.environment
    assert given.environment["LD_LIBRARY_PATH"] == "/opt/gpuyard/driver"
    assert ("/opt/gpuyard/driver", "/usr/lib/nvidia", True) in given.mounts


@pytest.mark.parametrize(("xid", "healthy"), [(79, False), (48, False), (13, True), (31, True)])
def test_an_error_of_the_gpu_takes_it_away_for_a_while_and_one_of_a_program_does_not(
    watched: Watched, xid: int, healthy: bool
) -> None:
    source = watched.source()
    watched.faults.errors.append((watched.uuids[1], xid))
    assert watched.healthy(source) == [True, healthy]
    watched.now = QUIET_S - 1
    assert watched.healthy(source) == [True, healthy]
    watched.now = QUIET_S
    assert watched.healthy(source) == [True, True]


def test_several_errors_at_once_are_all_heard_and_each_begins_the_wait_anew(watched: Watched) -> None:
    source = watched.source()
    watched.faults.errors += [(watched.uuids[0], 43), (watched.uuids[0], 48), (watched.uuids[1], 48)]
    assert watched.healthy(source) == [False, False]
    watched.now = QUIET_S / 2
    watched.faults.errors.append((watched.uuids[0], 48))
    watched.healthy(source)
    watched.now = QUIET_S
    assert watched.healthy(source) == [False, True]


def test_a_lost_gpu_is_out_of_order_until_it_answers_and_is_watched_again(watched: Watched) -> None:
    source = watched.source()
    watched.faults.lost.add(watched.uuids[0])
    assert watched.healthy(source) == [False, True]
    watched.faults.lost.clear()
    watched.faults.watched.clear()
    assert watched.healthy(source) == [True, True]
    assert watched.faults.watched == [watched.uuids[0]]
    assert [note.split(":")[0].split(" ", 2)[2] for note in watched.notes] == ["does not answer", "answers again"]


def test_a_driver_that_tells_of_no_errors_says_so_once_and_serves(watched: Watched) -> None:
    notes: list[str] = []
    library = NvmlLibrary(notes.append)  # the emulated one, as it is
    uuids = [gpu.uuid for gpu in library.gpus()]
    assert all(library.healthy(uuids).values())
    assert len([note for note in notes if "are not told by this driver" in note]) == 1


def test_gpus_in_mig_mode_are_left_alone_and_it_is_said(watched: Watched) -> None:
    watched.source()
    watched.faults.cut.add(watched.uuids[0])
    (watched.folder / "tasks" / FILE).unlink()
    assert watched.source().present() == (YardGpu(0, "A100", 40),)
    assert any("in MIG mode and is not offered" in note for note in watched.notes)


def gpu(uuid: str) -> NvmlGpu:
    return NvmlGpu(uuid, "V100", 2**34, 0)


@pytest.mark.parametrize(
    ("starts", "numbers"),
    [
        (["ab"], "ab"),
        (["ab", "ba"], "ab"),  # in whatever order NVML has them
        (["ab", "b"], "ab"),  # one that is lost keeps its number
        (["ab", "b", "bc"], "abc"),
        (["ab", "", "ba"], "ab"),
    ],
)
def test_gpus_keep_their_numbers_over_restarts_and_losses(tmp_path: Path, starts: list[str], numbers: str) -> None:
    for there in starts:
        found = give_numbers(tmp_path, map(gpu, there))
    assert "".join(each.uuid for each in found) == numbers
    assert read_numbers(tmp_path) == found


def test_a_lost_gpu_is_still_there_after_a_restart_out_of_order(watched: Watched) -> None:
    give_numbers(watched.folder / "tasks", [NvmlGpu("GPU-gone", "Tesla V100-PCIE-16GB", 16 * 2**30, 7)])
    found = watched.source().present()
    assert [(each.index, each.healthy) for each in found] == [(0, False), (1, True), (2, True)]


@pytest.mark.parametrize("content", ["{", "[{}]", '[{"uuid": "a", "name": "b", "memory_bytes": "x", "minor": 0}]', "3"])
def test_a_damaged_list_of_numbers_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(InputError, match=r"is no list of GPUs.*numbers are given anew"):
        give_numbers(tmp_path, [])


def test_more_gpus_than_a_node_may_have_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    give_numbers(tmp_path, [gpu("a")])
    with pytest.raises(InputError, match=f"has {MOST_GPUS_OF_NODE + 1} GPUs"):
        give_numbers(tmp_path, [gpu(str(number)) for number in range(MOST_GPUS_OF_NODE)])
    assert len(read_numbers(tmp_path)) == 1


def test_a_kubelet_gets_them_and_passes_devices_on(watched: Watched, short_folder: Path) -> None:
    with api_server() as server:
        server.add_node(node("n1"))
        kubelet = KubeletStandIn(short_folder)
        settings = PluginSettings("n1", short_folder, short_folder / "kubelet.sock")
        plugin = DevicePlugin(settings, watched.source(), server.api, watched.notes.append)
        try:
            plugin.step()
            kubelet.wait_for(names.MEMORY, 56)
            server.add_pod(pod("a", memory=30, node="n1", devices="1"))
            (answer,) = kubelet.admit("a", names.MEMORY, 30)
            assert [each.host_path for each in answer.devices] == ["/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"]
            assert {each.permissions for each in answer.devices} == {"rw"}
            watched.faults.lost.add(watched.uuids[0])
            plugin.step()
            kubelet.wait_for(names.MEMORY, 40)
            told = read_node(server.objects["/api/v1/nodes/n1"]).gpus
            assert [each.healthy for each in told] == [False, True]
        finally:
            kubelet.stop()
            plugin._stop_serving()


ALLOCATES = """
import ctypes, json, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
address = ctypes.c_uint64()
asked = [int(each) for each in sys.argv[1:]]
print(json.dumps([total.value, [cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(each)) for each in asked]]))
"""
OUT_OF_MEMORY = 2


@pytest.mark.parametrize("limits", [True, False])
def test_memory_beyond_what_a_container_asked_for_is_refused_by_the_gate_before_any_driver(
    watched: Watched, name: str, limits: bool
) -> None:
    """The container's mounts are undone, as it runs on the node here; all else is as it was given."""
    source = watched.source(limits=limits)
    source.prepare()
    given = source.for_container(names.MEMORY, ["gpu0-0", "gpu0-1", "gpu0-2"], 3)
    variables = {key: as_on_node(value, given.mounts) for key, value in given.environment.items()}
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GPUYARD_")}
    (watched.folder / "shm").mkdir()
    driver = {
        "LD_LIBRARY_PATH": str(nvml.library_path().parent),
        "GPUYARD_GPUS": "V100",
        "GPUYARD_NODE": f"{name}-driver",
    }  # type: ignore[union-attr]
    done = subprocess.run(
        [sys.executable, "-c", ALLOCATES, str(2 * 2**30), str(2 * 2**30)],
        env={**clean, **variables, **driver, "GPUYARD_SHM": str(watched.folder / "shm"), "CUDA_VISIBLE_DEVICES": "0"},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    total, answers = json.loads(done.stdout)
    assert answers == [0, OUT_OF_MEMORY if limits else 0]
    assert (total == 3 * 2**30) == limits


def as_on_node(text: str, mounts: list[tuple[str, str, bool]]) -> str:
    for there, here, _ in mounts:
        text = text.replace(there, here)
    return text
