"""A kubelet's device manager, as far as a plugin meets it: sockets, registration, devices, admission, restarts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from tests.kube.waiting import until

from gpuyard.kube.plugin.messages import HEALTHY, MOST_BYTES, PLUGIN_SERVICE, plugin_messages
from gpuyard.kube.pod_devices import pod_messages

OPTIONS = (("grpc.max_receive_message_length", MOST_BYTES),)


class KubeletStandIn:
    """It behaves as the one of Kubernetes 1.20, and asks for options while a plugin registers as newer ones do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.devices: dict[str, dict[str, str]] = {}
        """By resource, the health of each device."""
        self.taken: dict[str, dict[str, str]] = {}
        """By resource, who has a device."""
        self.registrations = 0
        self.asking = False
        self.asked_while_asking = 0
        """How often somebody asked for pods' devices while a plugin was asked for some: a kubelet may end by it."""
        self._channels: list[grpc.Channel] = []
        self._newest: dict[str, grpc.Channel] = {}
        """By resource, the channel to the plugin that registered last."""
        self._calls: dict[str, Callable[[str, Any], Any]] = {}
        self.start()

    def start(self) -> None:
        """Begin as a kubelet does: remove all sockets, then listen."""
        for path in self.folder.iterdir():
            path.unlink()
        self._server = grpc.server(ThreadPoolExecutor(8))
        self._server.add_generic_rpc_handlers((self._registration(), self._pods()))
        self._server.add_insecure_port(f"unix:{self.folder / 'kubelet.sock'}")
        self._server.start()

    def stop(self) -> None:
        """End; its plugins notice by themselves."""
        self._server.stop(0).wait()
        for channel in self._channels:
            channel.close()
        self._channels.clear()
        self._calls.clear()
        self.devices.clear()

    def allocatable(self, resource: str) -> int:
        """How many devices of a resource can be had."""
        return sum(health == HEALTHY for health in self.devices.get(resource, {}).values())

    def admit(self, pod: str, resource: str, *sizes: int) -> list[Any]:
        """Get devices for each container of a pod; what the plugin answered to each."""
        self.asking = True
        try:
            return [self._allocate(f"{pod}#{number}", resource, size) for number, size in enumerate(sizes)]
        finally:
            self.asking = False

    def release(self, pod: str) -> None:
        """Take back the devices of a pod that has ended."""
        for taken in self.taken.values():
            for device in [each for each, holder in taken.items() if holder.startswith(f"{pod}#")]:
                del taken[device]

    def free(self, pod: str) -> None:
        """A pod has ended: what it had is nobody's."""
        for taken in self.taken.values():
            for device in [each for each, holder in taken.items() if holder.startswith(f"{pod}#")]:
                del taken[device]

    def _allocate(self, holder: str, resource: str, size: int) -> Any:
        taken, kinds = self.taken.setdefault(resource, {}), plugin_messages()
        healthy = [each for each, health in self.devices[resource].items() if health == HEALTHY]
        free = [each for each in healthy if each not in taken]
        assert len(free) >= size, "a kubelet does not admit what it has not"
        request = kinds["PreferredAllocationRequest"]()
        request.container_requests.add(available_deviceIDs=sorted(free, key=hash), allocation_size=size)
        answer = self._calls[resource]("GetPreferredAllocation", request)
        chosen = [each for each in answer.container_responses[0].deviceIDs if each in free][:size]
        chosen += [each for each in free if each not in chosen][: size - len(chosen)]
        request = kinds["AllocateRequest"]()
        request.container_requests.add(devicesIDs=sorted(chosen, key=hash))
        response = self._calls[resource]("Allocate", request).container_responses[0]
        taken.update(dict.fromkeys(chosen, holder))
        return response

    def wait_for(self, resource: str, allocatable: int) -> None:
        """Wait until so many devices can be had."""
        until(lambda: self.allocatable(resource) == allocatable)

    def _registration(self) -> grpc.GenericRpcHandler:
        kinds = plugin_messages()

        def register(request: Any, context: grpc.ServicerContext) -> Any:
            if request.version != "v1beta1" or "/" not in request.resource_name:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "refused")
            channel = grpc.insecure_channel(f"unix:{self.folder / request.endpoint}", options=OPTIONS)
            self._channels.append(channel)
            self._newest[request.resource_name] = channel
            self._calls[request.resource_name] = caller(channel)
            options = self._calls[request.resource_name]("GetDevicePluginOptions", kinds["Empty"]())
            assert options == request.options
            self.registrations += 1
            threading.Thread(target=self._watch, args=(request.resource_name, channel), daemon=True).start()
            return kinds["Empty"]()

        return served("v1beta1.Registration", "Register", kinds["RegisterRequest"], register)

    def _watch(self, resource: str, channel: grpc.Channel) -> None:
        kinds = plugin_messages()
        call = channel.unary_stream(
            f"/{PLUGIN_SERVICE}/ListAndWatch",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=kinds["ListAndWatchResponse"].FromString,
        )
        try:
            for answer in call(kinds["Empty"]()):
                if self._newest[resource] is not channel:
                    return
                self.devices[resource] = {each.ID: each.health for each in answer.devices}
        except (grpc.RpcError, ValueError):
            pass
        if self._newest.get(resource) is channel:
            self.devices.pop(resource, None)

    def _pods(self) -> grpc.GenericRpcHandler:
        kinds = pod_messages()

        def list_pods(_request: Any, _context: Any) -> Any:
            self.asked_while_asking += self.asking
            answer = kinds["ListPodResourcesResponse"]()
            found: dict[str, dict[str, dict[str, list[str]]]] = {}
            for resource, devices in self.taken.items():
                for device, holder in devices.items():
                    pod, _, container = holder.partition("#")
                    found.setdefault(pod, {}).setdefault(container, {}).setdefault(resource, []).append(device)
            for pod, containers in found.items():
                entry = answer.pod_resources.add(name=pod, namespace="lab")
                for name, resources in containers.items():
                    one = entry.containers.add(name=name)
                    for resource, ids in resources.items():
                        one.devices.add(resource_name=resource, device_ids=ids)
            return answer

        return served("v1.PodResourcesLister", "List", kinds["ListPodResourcesRequest"], list_pods)


def served(service: str, method: str, request: Any, answer: Callable[[Any, Any], Any]) -> grpc.GenericRpcHandler:
    """A service with one method."""
    handler = grpc.unary_unary_rpc_method_handler(
        answer, request.FromString, lambda message: message.SerializeToString()
    )
    return grpc.method_handlers_generic_handler(service, {method: handler})


def caller(channel: grpc.Channel) -> Callable[[str, Any], Any]:
    """Calls the methods of a plugin."""
    kinds = plugin_messages()
    answers = {
        "GetDevicePluginOptions": "DevicePluginOptions",
        "GetPreferredAllocation": "PreferredAllocationResponse",
        "Allocate": "AllocateResponse",
        "PreStartContainer": "PreStartContainerResponse",
    }

    def call(method: str, request: Any) -> Any:
        return channel.unary_unary(
            f"/{PLUGIN_SERVICE}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=kinds[answers[method]].FromString,
        )(request, timeout=60, wait_for_ready=True)

    return call
