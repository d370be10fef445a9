"""What kube-scheduler asks of an extender: which nodes can take a pod, how good each is, and to bind it.

Each call is answered from what the API server told, without waiting for anything but the one request that binds. All
calls may come twice, late, or from a scheduler that has forgotten the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpuyard.core.errors import GpuyardError, InputError, LedgerError
from gpuyard.kube import names
from gpuyard.kube.binding import binding_of
from gpuyard.kube.books import OpenGpu, PodOnGpu, on_gpu
from gpuyard.kube.choosing import cannot_ever, choose, scores, why_no_place
from gpuyard.kube.client.api import Api, ApiError, pod_path
from gpuyard.kube.extender.cluster_state import ClusterState, WaitCause
from gpuyard.kube.extender.telling import Telling
from gpuyard.kube.json_objects import JsonObject
from gpuyard.kube.judging import PodJudge, PodPlaces
from gpuyard.kube.objects import GpuPod, read_pod

UNDECIDED_S = 60.0
"""After this long an API server carries out no request that it has not answered."""
SERVER_ERROR = 500
NO_NODE = "not a node that gpuyard knows"


class BindingError(GpuyardError):
    """A pod cannot be bound as asked; the scheduler will ask again."""


class Extender:
    """Answers the scheduler."""

    def __init__(
        self,
        api: Api,
        state: ClusterState,
        judge: PodJudge,
        *,
        leads: Callable[[], bool] = lambda: True,
        telling: Telling | None = None,
        now_ns: Callable[[], int] = time.time_ns,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api, self._state, self._judge, self._leads = api, state, judge, leads
        self._telling, self._now_ns, self._clock = telling, now_ns, clock

    # Which nodes, and how good

    def filter(self, args: Mapping[str, Any]) -> JsonObject:
        """Which of the nodes can take a pod, and why the others cannot; in the form in which they were named."""
        try:
            return self._filter(args)
        except InputError as error:
            return _filtered(None, None, {}, {}, str(error))

    def _filter(self, args: Mapping[str, Any]) -> JsonObject:
        pod, asked = read_pod(_of(args, "pod")), _nodes(args)
        failed, never, places = {}, {}, self._judge.places(pod)
        for name, gpus in self._gpus(pod, asked):
            why = NO_NODE if gpus is None else why_no_place(gpus, places) if pod.request else None
            if why is None:
                continue
            failed[name] = why
            if gpus is not None and cannot_ever(pod.request, gpus) is not None:
                never[name] = why
        fitting = [name for name in asked if name not in failed]
        if not fitting and pod.request:
            self._state.refuse(pod, _cause(pod, failed, never, places))
            if self._telling is not None:
                self._telling.no_gpu(pod, failed)
        if _of(args, "nodes") is None:
            return _filtered(fitting, None, failed, never, "")
        items = [each for each in _of(args, "nodes").get("items") or [] if _name(each) not in failed]
        return _filtered(None, {**_of(args, "nodes"), "items": items}, failed, never, "")

    def prioritize(self, args: Mapping[str, Any]) -> list[JsonObject]:
        """How good each node is, 0 to 10; nothing, which is ignored, where that cannot be said."""
        try:
            pod = read_pod(_of(args, "pod"))
            nodes = self._gpus(pod, _nodes(args))
            found = scores([gpus or () if pod.request else () for _, gpus in nodes], self._judge.places(pod))
        except InputError:
            return []
        return [{"Host": name, "Score": score} for (name, _), score in zip(nodes, found, strict=True)]

    def _gpus(self, pod: GpuPod, asked: Iterable[str]) -> list[tuple[str, tuple[OpenGpu, ...] | None]]:
        """The GPUs of each node as they are for this pod: what was promised to itself is free for it."""
        books = self._state.books
        with self._state.lock:
            mine = books.placed(pod.uid)
            found = [(name, None if books.node(name) is None else books.open_gpus(name)) for name in asked]
        return [(name, _as_for(mine, gpus) if mine and mine.node == name and gpus else gpus) for name, gpus in found]

    # Binding

    def bind(self, args: Mapping[str, Any]) -> JsonObject:
        """Choose the GPU of a pod on a node and bind it there, in one request; once, however often it is asked."""
        try:
            self._bind(*(_text(args, key) for key in ("podnamespace", "podname", "poduid", "node")))
        except (BindingError, InputError, LedgerError, ApiError) as error:
            return {"Error": str(error)}
        return {"Error": ""}

    def _bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        if not self._leads():
            raise BindingError("another replica of gpuyard binds pods now")
        with self._state.lock:
            known = self._state.pods.get(uid)
            undecided = uid in self._state.undecided
        if known is None or known.node or undecided:
            known = self._read(namespace, name, uid)
            if known.node:
                self._require(known, node)
                return
        placed = self._promise(known, node) if known.request else replace(known, node=node)
        try:
            self._api.post(f"{pod_path(namespace, name)}/binding", self._binding(placed))
        except ApiError as error:
            self._settle(placed, error)
        else:
            with self._state.lock:
                self._state.undecided.pop(uid, None)
            if self._telling is not None and placed.devices:
                self._telling.chosen(placed)

    def _promise(self, pod: GpuPod, node: str) -> GpuPod:
        """A place on a node for a pod: the one that it was promised before, or a new one."""
        with self._state.lock:
            books = self._state.books
            before = books.placed(pod.uid)
            if before is not None and before.node == node:
                return before
            if before is not None:
                if self._clock() - self._state.undecided.get(pod.uid, -UNDECIDED_S) < UNDECIDED_S:
                    raise BindingError(f"nobody knows yet whether it was bound to {before.node}")
                books.remove_pod(pod.uid)
            if books.node(node) is None:
                raise BindingError(f"{node} is {NO_NODE}")
            gpus = books.open_gpus(node)
            places = self._judge.places(pod)
            devices = choose(gpus, places)
            if not devices:
                raise BindingError(f"node {node}: {why_no_place(gpus, places)}")
            return books.reserve(pod, node, devices, self._now_ns())

    def _settle(self, placed: GpuPod, error: ApiError) -> None:
        """A binding was refused, or its answer was lost: find out what holds; raises unless it is what was wanted."""
        lost = error.status == 0 or error.status >= SERVER_ERROR
        if lost:
            with self._state.lock:
                self._state.undecided.setdefault(placed.uid, self._clock())
        if error.not_found:
            self._state.forget(placed.uid)
            raise error
        found = self._read(placed.namespace, placed.name, placed.uid)
        if found.node:
            self._require(found, placed.node)
            return
        if not lost:
            with self._state.lock:
                self._state.books.remove_pod(placed.uid)
        raise error

    def _require(self, found: GpuPod, node: str) -> None:
        """A pod is bound: to this node and to a GPU there, or something is wrong."""
        self._state.learn(found)
        if found.node != node:
            raise BindingError(f"it is bound to node {found.node}")
        if found.request and not found.devices:
            raise BindingError(f"it was bound to node {node} by somebody who chose no GPU")

    def _read(self, namespace: str, name: str, uid: str) -> GpuPod:
        found = read_pod(self._api.get(pod_path(namespace, name)))
        if found.uid != uid:
            self._state.forget(uid)
            raise BindingError(f"pod {found.full_name} is another one than when it was scheduled")
        return found

    def _binding(self, pod: GpuPod) -> JsonObject:
        """The request that sets node and annotations at once."""
        return binding_of(pod, self._as_iadeep(pod) if pod.devices else None)

    def _as_iadeep(self, pod: GpuPod) -> dict[str, str]:
        """The same in the names that IADeep's tools read."""
        with self._state.lock:
            node = self._state.books.node(pod.node)
        memory = {gpu.index: gpu.memory_gib for gpu in node.gpus} if node else {}
        return {
            names.THEIR_INDEX: ",".join(map(str, pod.devices)),
            names.THEIR_POD: str(pod.request.memory_gib),
            names.THEIR_DEVICE: str(memory.get(pod.devices[0], 0)),
            names.THEIR_ASSIGNED: "false",
            names.THEIR_CHOSEN_AT: str(pod.chosen_at),
        }


def _as_for(mine: GpuPod, gpus: tuple[OpenGpu, ...]) -> tuple[OpenGpu, ...]:
    """GPUs as if a pod had left the place that it has there."""
    return tuple(
        replace(
            each,
            free_gib=each.gpu.memory_gib if mine.request.whole else each.free_gib + mine.request.memory_gib,
            residents=_without(each.residents, on_gpu(mine, each.gpu)),
        )
        if each.gpu.index in mine.devices and each.gpu.healthy
        else each
        for each in gpus
    )


def _cause(pod: GpuPod, failed: JsonObject, never: JsonObject, places: PodPlaces) -> WaitCause:
    """Why no node has room for a pod, by what would help first."""
    if any(why.endswith(places.rule.refuses_because) for why in failed.values()):
        return WaitCause.POLICY
    if failed and all(name in never for name in failed):
        return WaitCause.NEVER
    return WaitCause.WHOLE_GPUS if pod.request.whole else WaitCause.MEMORY


def _without(residents: tuple[PodOnGpu, ...], one: PodOnGpu) -> tuple[PodOnGpu, ...]:
    left = list(residents)
    left.remove(one)
    return tuple(left)


def _of(args: Mapping[str, Any], key: str) -> Any:
    """A field by its name in any case: Go writes capitals and reads any."""
    if not isinstance(args, Mapping):
        raise InputError("is not an object", value=args)
    return next((value for name, value in args.items() if str(name).lower() == key), None)


def _text(args: Mapping[str, Any], key: str) -> str:
    value = _of(args, key)
    if not isinstance(value, str) or not value or "/" in value:
        raise InputError("is missing, or not a name", field=key, value=value)
    return value


def _nodes(args: Mapping[str, Any]) -> list[str]:
    """The names of the nodes that are asked about, in whichever form."""
    given, listed = _of(args, "nodes"), _of(args, "nodenames")
    if given is not None:
        items = given.get("items") if isinstance(given, Mapping) else None
        if not isinstance(items, list) or not all(isinstance(each, Mapping) for each in items):
            raise InputError("is not a list of nodes", field="Nodes")
        return [_name(each) for each in items]
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise InputError("is not a list of names", field="NodeNames")
    return listed


def _name(node: Mapping[str, Any]) -> str:
    return str((node.get("metadata") or {}).get("name", ""))


def _filtered(
    fitting: list[str] | None, nodes: JsonObject | None, failed: JsonObject, never: JsonObject, error: str
) -> JsonObject:
    return {
        "Nodes": nodes,
        "NodeNames": fitting,
        "FailedNodes": failed,
        "FailedAndUnresolvableNodes": never,
        "Error": error,
    }
