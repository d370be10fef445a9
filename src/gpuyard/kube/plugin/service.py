"""The device plugin's service for one resource: what a kubelet asks of it, over gRPC."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import grpc

from gpuyard.core.errors import InputError
from gpuyard.kube import names
from gpuyard.kube.device_ids import by_gpu, device_ids, next_pod, preferred, preferred_whole, room_left
from gpuyard.kube.objects import GpuPod, YardGpu
from gpuyard.kube.plugin.container_gpus import GpusForContainer
from gpuyard.kube.plugin.given_out import GivenOut, PodsHere
from gpuyard.kube.plugin.messages import HEALTHY, PLUGIN_CALLS, PLUGIN_SERVICE, UNHEALTHY, plugin_messages

LOOK_S = 5.0


class DeviceSource(Protocol):
    """Where GPUs come from: emulated ones, or the machine's."""

    def prepare(self) -> None:
        """Put what pods need where they find it."""
        ...

    def present(self) -> tuple[YardGpu, ...]:
        """The GPUs that there are."""
        ...

    def for_container(self, resource: str, devices: Sequence[str], pod_gib: int) -> GpusForContainer:
        """What a container with these devices is given."""
        ...

    def keep(self, held: Iterable[Sequence[str]]) -> None:
        """These are the devices of all containers that there are: forget what was noted of others."""
        ...


class GpusNow:
    """The GPUs of this node and their health, for all who wait for a change of it."""

    def __init__(self, gpus: tuple[YardGpu, ...]) -> None:
        self.gpus = gpus
        self.changed = threading.Condition()

    def set(self, gpus: tuple[YardGpu, ...]) -> bool:
        """Tell everybody, if something is different."""
        with self.changed:
            if gpus == self.gpus:
                return False
            self.gpus = gpus
            self.changed.notify_all()
            return True


class PluginService:
    """Answers a kubelet about one resource."""

    def __init__(
        self,
        resource: str,
        source: DeviceSource,
        now: GpusNow,
        here: Callable[[], PodsHere],
        given_out: GivenOut,
    ) -> None:
        self.resource, self._source, self._now, self._here = resource, source, now, here
        self._given_out = given_out
        self._messages = plugin_messages()
        self._whole = resource == names.WHOLE_GPUS
        self._over = False

    def handlers(self) -> grpc.GenericRpcHandler:
        """What a gRPC server needs to call the methods."""
        calls = {
            "GetDevicePluginOptions": self._options,
            "GetPreferredAllocation": self._preferred,
            "Allocate": self._allocate,
            "PreStartContainer": self._start,
        }
        found = {name: grpc.unary_unary_rpc_method_handler(call, *self._as_bytes(name)) for name, call in calls.items()}
        found["ListAndWatch"] = grpc.unary_stream_rpc_method_handler(self._watch, *self._as_bytes("ListAndWatch"))
        return grpc.method_handlers_generic_handler(PLUGIN_SERVICE, found)

    def options(self) -> Any:
        """What this plugin can do, as it says when it registers and when it is asked."""
        return self._messages["DevicePluginOptions"](get_preferred_allocation_available=True)

    def devices(self) -> Any:
        """All devices and their health."""
        device = self._messages["Device"]
        return self._messages["ListAndWatchResponse"](
            devices=[
                device(ID=each, health=HEALTHY if gpu.healthy else UNHEALTHY)
                for gpu in self._now.gpus
                for each in device_ids(self.resource, gpu)
            ]
        )

    def stop(self) -> None:
        """Let those who watch go."""
        with self._now.changed:
            self._over = True
            self._now.changed.notify_all()

    def _as_bytes(self, call: str) -> tuple[Any, Any]:
        return self._messages[PLUGIN_CALLS[call]].FromString, lambda answer: answer.SerializeToString()

    def _options(self, _request: Any, _context: Any) -> Any:
        return self.options()

    def _start(self, _request: Any, _context: Any) -> Any:
        return self._messages["PreStartContainerResponse"]()

    def _watch(self, _request: Any, context: Any) -> Iterator[Any]:
        """The list of all devices, again and again: at once, and whenever their health has changed."""
        told: tuple[YardGpu, ...] | None = None
        while not self._over and context.is_active():
            if told != self._now.gpus:
                told = self._now.gpus
                yield self.devices()
            with self._now.changed:
                if told == self._now.gpus and not self._over:
                    self._now.changed.wait(LOOK_S)

    def _preferred(self, request: Any, _context: Any) -> Any:
        self._given_out.heard()
        answer = self._messages["PreferredAllocationResponse"]()
        choose = preferred_whole if self._whole else preferred
        here = self._here()
        for each in request.container_requests:
            size = each.allocation_size
            pod = self._next(size, here.pods, here)
            wanted = pod.devices if pod else ()
            chosen = choose(self._free(each.available_deviceIDs, here), each.must_include_deviceIDs, size, wanted)
            answer.container_responses.add(deviceIDs=chosen)
        self._given_out.heard()
        return answer

    def _allocate(self, request: Any, context: Any) -> Any:
        self._given_out.heard()
        answer = self._messages["AllocateResponse"]()
        for each in request.container_requests:
            try:
                given = self._given_for(list(each.devicesIDs))
            except InputError as error:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            response = answer.container_responses.add(envs=given.environment)
            for there, here, read_only in given.mounts:
                response.mounts.add(container_path=there, host_path=here, read_only=read_only)
            for device in given.device_nodes:
                response.devices.add(container_path=device, host_path=device, permissions="rw")
        self._given_out.heard()
        return answer

    def _given_for(self, devices: list[str]) -> GpusForContainer:
        groups = by_gpu(devices)
        known = {each for gpu in self._now.gpus for each in device_ids(self.resource, gpu)}
        strange = [each for each in devices if each not in known]
        if strange or not devices:
            raise InputError("is no device of this node", value=strange[0] if strange else "")
        if len(groups) > 1 and not self._whole:
            spread = ", ".join(f"{len(ids)} GiB of GPU {gpu}" for gpu, ids in groups.items())
            raise InputError(f"no single GPU has {len(devices)} GiB free: {spread} are no use to one container")
        here = self._here()
        if len(self._free(devices, here)) < len(devices):
            raise InputError(f"GPU {', '.join(map(str, groups))} is in use under another name of its memory")
        there = [pod for pod in here.pods if set(groups) <= set(pod.devices)]
        pod = self._next(len(devices), there, here)
        self._given_out.give(pod, devices)
        return self._source.for_container(self.resource, devices, pod.request.memory_gib if pod else len(devices))

    def _next(self, size: int, pods: Sequence[GpuPod], here: PodsHere) -> GpuPod | None:
        """Whose container it is; if it can be nobody's, one was taken for another before, which has ended since."""
        found = next_pod(size, pods, here.served | here.guessed, self._whole)
        return found or next_pod(size, pods, here.served, self._whole)

    def _free(self, devices: Iterable[str], here: PodsHere) -> list[str]:
        """Those of these devices whose GPU has room for them, whatever was given out under other resources."""
        room, gpus = room_left(self._now.gpus, here.held), by_gpu(devices)
        if self._whole:
            memory = {gpu.index: gpu.memory_gib for gpu in self._now.gpus}
            return [each for gpu, ids in gpus.items() if room.get(gpu) == memory.get(gpu) for each in ids]
        return [each for gpu, ids in gpus.items() for each in ids[: room.get(gpu, 0)]]
