"""The device plugin of a node: registers with the kubelet, whenever that was restarted, and keeps the books true."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import grpc

from gpuyard.core.errors import GpuyardError, InputError
from gpuyard.kube import names
from gpuyard.kube.client.api import Api, ApiError, pod_path
from gpuyard.kube.client.node_pods import pods_of_node
from gpuyard.kube.heartbeat import ANSWER_S, BEAT_S, beat
from gpuyard.kube.objects import GpuPod, YardGpu, write_gpus
from gpuyard.kube.plugin.given_out import QUIET_S, GivenOut, PodsHere
from gpuyard.kube.plugin.messages import KUBELET_SOCKET, PLUGIN_SERVICE, REGISTER, VERSION, plugin_messages
from gpuyard.kube.plugin.service import DeviceSource, GpusNow, PluginService
from gpuyard.kube.pod_devices import PodDevices, corrections, list_pod_devices, write_pod_devices

REGISTER_S = 10.0
LOOK_S, SOON_S = 1.0, 0.1
RECONCILE_S = 5.0
RETELL_S = 300.0
"""How often the GPUs of a node are told again: a write that changes nothing, unless somebody has taken them away."""
THREADS = 16
LONGEST_PATH = 107
"""Of a unix socket, in bytes."""


@dataclass(frozen=True)
class PluginSettings:
    """Where a plugin finds its kubelet."""

    node: str
    folder: Path = Path("/var/lib/kubelet/device-plugins")
    pod_resources: Path = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
    out_of_order: Path | None = None
    """A file with the numbers of GPUs that nobody shall get, separated by commas."""
    heartbeat: Path | None = None
    """A file that is renewed as long as the kubelet can be served."""
    noted: Path | None = None
    """A file in which the node daemon finds which pod has what."""
    quiet_s: float = QUIET_S
    """The kubelet is asked what it gave out only when it has asked nothing for so long."""

    def __post_init__(self) -> None:
        longest = max((self.folder / socket_name(resource) for resource in names.RESOURCES_OF_PODS), key=_length)
        if _length(longest) > LONGEST_PATH:
            rule = f"is too long: a socket there would have a path of {_length(longest)} bytes, not of {LONGEST_PATH}"
            raise InputError(rule, file=self.folder, hint="Name a shorter folder, or a link to it")


class DevicePlugin:
    """The plugin of one node: one socket for each resource."""

    def __init__(
        self,
        settings: PluginSettings,
        source: DeviceSource,
        api: Api,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._source, self._api, self._say, self._clock = settings, source, api, say, clock
        self._now = GpusNow(self._present())
        self._servers: list[tuple[PluginService, grpc.Server]] = []
        self._kubelet: tuple[int, int] | None = None
        self._told: str | None = None
        self._given_out = GivenOut(settings.quiet_s, clock)
        self._devices: PodDevices = {}
        self._noted: PodDevices | None = None
        self._next_look = self._next_tell = self._next_beat = 0.0
        self._over = threading.Event()

    def run(self) -> None:
        """Serve until `stop`."""
        try:
            while not self._over.is_set():
                self.step()
                self._over.wait(SOON_S if self._given_out.awaits else LOOK_S)
        finally:
            self._stop_serving()

    def stop(self) -> None:
        """End `run`."""
        self._over.set()

    def step(self) -> None:
        """Look at everything once: the kubelet, health, what the API should know, and which pods got what."""
        if self._now.set(self._present()):
            self._say(f"GPUs are now: {write_gpus(self._now.gpus)}")
        devices = self._given_out.look(partial(list_pod_devices, self._settings.pod_resources))
        if devices is not None and devices != self._noted and self._settings.noted is not None:
            write_pod_devices(self._settings.noted, devices)
            self._noted = devices
        kubelet = _identity(self._settings.folder / KUBELET_SOCKET)
        if kubelet is not None and (kubelet != self._kubelet or not self._sockets_are_there()):
            self._kubelet = kubelet if self._register_all() else None
        if self._told != write_gpus(self._now.gpus) or self._clock() >= self._next_tell:
            self._tell_gpus()
        if devices and (devices != self._devices or self._clock() >= self._next_look):
            self._next_look = self._clock() + RECONCILE_S
            self._reconcile(devices)
            self._devices = devices
        if self._settings.heartbeat is not None and time.monotonic() >= self._next_beat and self.serves():
            self._next_beat = time.monotonic() + BEAT_S
            beat(self._settings.heartbeat)

    def serves(self) -> bool:
        """Whether this plugin is registered, and answers at all of its sockets."""
        return self._kubelet is not None and all(
            _answers(self._settings.folder / socket_name(resource)) for resource in names.RESOURCES_OF_PODS
        )

    def _present(self) -> tuple[YardGpu, ...]:
        missing = _numbers(self._settings.out_of_order)
        return tuple(replace(gpu, healthy=gpu.healthy and gpu.index not in missing) for gpu in self._source.present())

    # The kubelet

    def _register_all(self) -> bool:
        """Serve on new sockets and tell the kubelet of each: it has removed those that were there before.

        It may have begun again as its node was deleted, and made another one, of which nobody knows the GPUs.
        """
        self._stop_serving()
        self._told = None
        try:
            for resource in names.RESOURCES_OF_PODS:
                service = PluginService(resource, self._source, self._now, self._here, self._given_out)
                self._servers.append((service, self._serve(service)))
                self._register(service)
        except (grpc.RpcError, OSError, GpuyardError) as error:
            told = error.details() if isinstance(error, grpc.Call) else str(error)
            self._say(f"the kubelet does not take this plugin yet: {told}")
            return False
        self._say(f"registered with the kubelet: {', '.join(names.RESOURCES_OF_PODS)}")
        return True

    def _serve(self, service: PluginService) -> grpc.Server:
        path = self._settings.folder / socket_name(service.resource)
        path.unlink(missing_ok=True)
        server = grpc.server(ThreadPoolExecutor(THREADS, thread_name_prefix="plugin"))
        server.add_generic_rpc_handlers((service.handlers(),))
        server.add_insecure_port(f"unix:{path}")
        path.chmod(0o600)
        server.start()
        return server

    def _register(self, service: PluginService) -> None:
        request = plugin_messages()["RegisterRequest"](
            version=VERSION,
            endpoint=socket_name(service.resource),
            resource_name=service.resource,
            options=service.options(),
        )
        with grpc.insecure_channel(f"unix:{self._settings.folder / KUBELET_SOCKET}") as channel:
            call = channel.unary_unary(
                REGISTER,
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=plugin_messages()["Empty"].FromString,
            )
            call(request, timeout=REGISTER_S)

    def _sockets_are_there(self) -> bool:
        return all((self._settings.folder / socket_name(service.resource)).exists() for service, _ in self._servers)

    def _stop_serving(self) -> None:
        for service, server in self._servers:
            service.stop()
            server.stop(grace=0).wait()
        self._servers.clear()

    # The API server

    def _tell_gpus(self) -> None:
        written = write_gpus(self._now.gpus)
        labels = {names.THEIR_NODES: "true"}
        change = {"metadata": {"annotations": {names.GPUS_OF_NODE: written}, "labels": labels}}
        try:
            self._api.patch(f"/api/v1/nodes/{self._settings.node}", change)
            self._told, self._next_tell = written, self._clock() + RETELL_S
        except ApiError as error:
            self._say(f"the GPUs of {self._settings.node} cannot be told yet: {error}")

    def _pods(self) -> list[GpuPod] | None:
        """The pods of this node that ask for GPUs and have not ended; None where nobody answers."""
        try:
            return [pod for pod in pods_of_node(self._api, self._settings.node) if not pod.ended]
        except ApiError as error:
            self._say(f"pods of {self._settings.node} are not known: {error}")
            return None

    def _here(self) -> PodsHere:
        return self._given_out.here(self._pods())

    def _reconcile(self, devices: PodDevices) -> None:
        """Write into pods where they really are.

        Equal pods that changed places are noted at both of theirs before any is at one alone, so that at no time a GPU
        looks free which somebody has or will get.
        """
        self._source.keep(held.ids for containers in devices.values() for held in containers)
        found = corrections(self._pods() or (), devices)
        if all(self._note(pod, {*pod.devices, *there}) for pod, there in found):
            for pod, there in found:
                if self._note(pod, there):
                    self._say(f"pod {pod.full_name} is on GPU {_listed(there)}, not on {pod.devices or 'none'}: noted")

    def _note(self, pod: GpuPod, gpus: Iterable[int]) -> bool:
        """Write the GPUs of a pod into it; whether that was done."""
        written = _listed(gpus)
        annotations = {names.DEVICES: written, names.THEIR_INDEX: written, names.THEIR_ASSIGNED: "true"}
        try:
            self._api.patch(
                pod_path(pod.namespace, pod.name), {"metadata": {"uid": pod.uid, "annotations": annotations}}
            )
        except ApiError as error:
            self._say(f"pod {pod.full_name} has GPU {written}, which cannot be noted yet: {error}")
            return False
        return True


def socket_name(resource: str) -> str:
    """The file name of a resource's socket, in the kubelet's folder."""
    return f"gpuyard-{resource.replace('/', '-')}.sock"


def _listed(gpus: Iterable[int]) -> str:
    return ",".join(map(str, sorted(gpus)))


def _answers(path: Path) -> bool:
    """Whether a plugin serves here."""
    kinds = plugin_messages()
    with grpc.insecure_channel(f"unix:{path}") as channel:
        call = channel.unary_unary(
            f"/{PLUGIN_SERVICE}/GetDevicePluginOptions",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=kinds["DevicePluginOptions"].FromString,
        )
        try:
            call(kinds["Empty"](), timeout=ANSWER_S)
        except grpc.RpcError:
            return False
    return True


def _length(path: Path) -> int:
    return len(bytes(path))


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells one socket from another one of the same name."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def _numbers(path: Path | None) -> set[int]:
    """Numbers in a file, separated by commas; none where there is no such file."""
    try:
        text = path.read_text(errors="replace") if path is not None else ""
    except OSError:
        return set()
    return {int(each) for each in text.replace("\n", ",").split(",") if re.fullmatch(r"\s*[0-9]{1,4}\s*", each)}
