"""A node with a device plugin before a kubelet and an API server that stand in for those of Kubernetes."""

from __future__ import annotations

from pathlib import Path

from tests.kube.api_server import ApiStandIn
from tests.kube.builders import Manifest, pod
from tests.kube.kubelet import KubeletStandIn

from gpuyard.kube import names
from gpuyard.kube.plugin.device_plugin import DevicePlugin, PluginSettings
from gpuyard.kube.plugin.emulated_devices import EmulatedDevices


class NodeOfTest:
    """A node with P100s of 15 GiB, emulated, a kubelet and a plugin that moves when it is told to."""

    def __init__(self, folder: Path, sockets: Path, server: ApiStandIn, name: str = "n1", count: int = 2) -> None:
        self.server, self.notes, self.count, self.time = server, list[str](), count, 0.0
        self.unwell = folder / "unwell"
        self.kubelet = KubeletStandIn(sockets)
        self.source = EmulatedDevices(f"{count}xP100", name, folder / "lib", folder / "shm", folder / "tasks")
        self.noted = folder / "pods.json"
        self.settings = PluginSettings(
            name, sockets, sockets / "kubelet.sock", self.unwell, quiet_s=0, noted=self.noted
        )
        self.plugin = self.new_plugin()

    def new_plugin(self) -> DevicePlugin:
        return DevicePlugin(self.settings, self.source, self.server.api, self.notes.append, clock=lambda: self.time)

    def restart_plugin(self) -> None:
        """Another process takes its place, and looks at everything once."""
        self.plugin._stop_serving()
        self.plugin = self.new_plugin()
        self.plugin.step()

    def begin(self) -> None:
        self.plugin.step()
        self.kubelet.wait_for(names.MEMORY, 15 * self.count)

    def bound(self, name: str, memory: int, devices: str, chosen_at: int = 1, **more: object) -> None:
        self.server.add_pod(pod(name, memory=memory, node="n1", devices=devices, chosen_at=chosen_at, **more))  # type: ignore[arg-type]

    def gpu_of(self, holder: str, resource: str = names.MEMORY) -> set[str]:
        found = {each for each, who in self.kubelet.taken.get(resource, {}).items() if who.startswith(f"{holder}#")}
        return {each.partition("-")[0] for each in found}

    def pod_at(self, name: str, version: int) -> Manifest:
        """A pod as it was at a version."""
        return [
            thing
            for at, _, _, thing in self.server.events
            if at <= version and thing["metadata"].get("name") == name and "spec" in thing
        ][-1]

    def end(self) -> None:
        assert self.kubelet.asked_while_asking == 0
        self.kubelet.stop()
        self.plugin._stop_serving()
