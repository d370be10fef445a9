"""Whether a part works, as the probe of its kubelet sees it."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.kube.api_server import api_server
from tests.kube.builders import node
from tests.kube.kubelet import KubeletStandIn
from tests.kube.waiting import until

from gpuyard.core import steady_thread
from gpuyard.kube import heartbeat, names
from gpuyard.kube.heartbeat import answers_lines, beat, start_beating, why_not_alive
from gpuyard.kube.plugin.device_plugin import DevicePlugin, PluginSettings, socket_name
from gpuyard.kube.plugin.emulated_devices import EmulatedDevices
from gpuyard.sharing.task_daemon import TaskDaemon
from gpuyard.sharing.task_tuning import NodeTuning


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file"),
        ("", "is no heartbeat"),
        ("nonsense", "is no heartbeat"),
        ("nan", "was renewed"),
        ("now", ""),
        ("-59", ""),
        ("-61", "was renewed 61 s ago"),
        ("+5", "was renewed -5 s ago"),  # of a machine that was started since
    ],
)
def test_only_a_heartbeat_that_is_new_enough_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, said: str
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    file = tmp_path / "alive"
    if content is not None:
        file.write_text(str(1000 + float(content)) if content[:1] in "+-" and content else content)
    if content == "now":
        beat(file)
    told = why_not_alive(file, 60)
    assert (said in told) if said else not told


def test_the_probe_is_a_command_that_exits_with_1_and_says_why(tmp_path: Path) -> None:
    def probe() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gpuyard", "kube", "alive", str(tmp_path / "alive"), "--within", "600"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    missing = probe()
    assert (missing.returncode, "cannot be read" in missing.stderr) == (1, True)
    beat(tmp_path / "alive")
    assert probe().returncode == 0


def test_a_plugin_is_alive_only_while_it_is_registered_and_its_sockets_answer(
    tmp_path: Path, short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuyard.kube.plugin.device_plugin.BEAT_S", 0.0)
    alive = tmp_path / "alive"
    with api_server() as server:
        server.add_node(node("n1"))
        kubelet = KubeletStandIn(short_folder)
        source = EmulatedDevices("P100", "n1", tmp_path / "lib", tmp_path / "shm", tmp_path / "tasks")
        settings = PluginSettings("n1", short_folder, short_folder / "kubelet.sock", heartbeat=alive)
        plugin = DevicePlugin(settings, source, server.api, print)

        def beats() -> bool:
            alive.unlink(missing_ok=True)
            plugin.step()
            return alive.exists()

        try:
            kubelet.stop()
            assert not beats()  # it could not register
            kubelet.start()
            assert beats()
            for _, serving in plugin._servers[:1]:
                serving.stop(0).wait()
            (short_folder / socket_name(names.MEMORY)).touch()  # a name alone is no server
            assert not plugin.serves()
            kubelet.stop()
            kubelet.start()
            assert beats()  # registered anew
        finally:
            kubelet.stop()
            plugin._stop_serving()


def test_a_daemon_is_alive_while_it_answers_tasks(
    tmp_path: Path, short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_S", 0.01)
    path, alive = short_folder / "tasks.sock", tmp_path / "alive"
    assert not answers_lines(path)
    with TaskDaemon(path, NodeTuning({}, lambda: "round"), lambda secret: None) as daemon:
        thread = threading.Thread(target=daemon.run)
        thread.start()
        assert answers_lines(path)
        beating = start_beating(alive, lambda: answers_lines(path), print)
        until(alive.exists)
        beating.stop()
        beating.join()
        daemon.stop()
        thread.join(60)
    assert not answers_lines(path)


def test_somebody_who_listens_and_says_nothing_is_not_alive(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "ANSWER_S", 0.05)
    path = short_folder / "mute.sock"
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(path))
        mute.listen()
        assert not answers_lines(path)


def test_a_heart_beats_on_once_the_disk_has_room_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_S", 0.0)
    monkeypatch.setattr(steady_thread, "AGAIN_S", 0.0)
    said: list[str] = []

    def full(file: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(file))

    monkeypatch.setattr(heartbeat, "beat", full)
    beating = start_beating(tmp_path / "alive", lambda: True, said.append)
    until(lambda: said)
    monkeypatch.setattr(heartbeat, "beat", beat)
    until((tmp_path / "alive").exists)
    beating.stop()
    beating.join()
    assert "No space left" in said[0]
