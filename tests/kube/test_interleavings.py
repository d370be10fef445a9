"""Extender, plugins, kubelets and API server, whatever happens in whichever order, and whoever is started again.

The extender, the books and the plugins are the real ones; what stands in for Kubernetes speaks its real protocols.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.kube.api_server import LATE, ApiStandIn, api_server
from tests.kube.builders import Manifest, node, pod
from tests.kube.plugin_node import NodeOfTest

from gpuyard.kube import names
from gpuyard.kube.extender.answers import UNDECIDED_S, Extender
from gpuyard.kube.extender.cluster_state import ClusterState
from gpuyard.kube.judging import PodJudge, sharing_rule
from gpuyard.kube.objects import GpuPod, read_pod
from gpuyard.kube.plugin.device_plugin import RECONCILE_S
from gpuyard.policies.multiplex.interference import InterferenceModel

GPUS = {"n1": 2, "n2": 1}
GIB = 15
PODS = "/api/v1/namespaces/lab/pods/"
ANSWERS: dict[str, tuple[int | None, int | None]] = {
    "good": (None, None),
    "refused": (500, None),
    "nobody answers": (500, 500),
    "lost": (0, None),
    "lost for a while": (0, 500),
    "late": (LATE, None),
}
"""What becomes of a binding, and of the question what has become of it."""


class ExtenderOfTest:
    """An extender that hears of changes when it is told to, and is started again."""

    def __init__(self, server: ApiStandIn) -> None:
        self.server, self.time = server, 0.0
        self.start()

    def start(self) -> None:
        """Forget everything, as a new process."""
        self.state = ClusterState(lambda text: None)
        judge = PodJudge(sharing_rule("interference"), InterferenceModel())
        self.extender = Extender(
            self.server.api, self.state, judge, now_ns=lambda: self.server.version, clock=lambda: self.time
        )
        self.look()

    def look(self) -> None:
        """Hear of all that there is."""
        self.heard = self.server.version
        for what, where in ((self.state.of_nodes, "/nodes/"), (self.state.of_pods, "/pods/")):
            what.replace([thing for path, thing in self.server.objects.items() if where in path])

    def hear(self, most: int = 10**6) -> None:
        """Hear of some changes, in their order."""
        news = [each for each in self.server.events if each[0] > self.heard]
        for version, kind, path, thing in news[:most]:
            what = self.state.of_nodes if "/nodes/" in path else self.state.of_pods
            what.change(thing, gone=kind == "DELETED")
            self.heard = version

    def filter(self, asked: Manifest) -> list[str]:
        found = self.extender.filter({"Pod": asked, "Nodes": None, "NodeNames": sorted(GPUS)})
        assert not found["Error"]
        return list(found["NodeNames"])

    def bind(self, asked: Manifest, where: str) -> str:
        name, uid = asked["metadata"]["name"], asked["metadata"]["uid"]
        return str(self.extender.bind({"PodName": name, "PodNamespace": "lab", "PodUID": uid, "Node": where})["Error"])


class Interleavings(RuleBasedStateMachine):
    """What may happen in a cluster of three GPUs of 15 GiB on two nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.server = self.stack.enter_context(api_server())
        self.nodes = {name: self._node(name, count) for name, count in GPUS.items()}
        self.extender = ExtenderOfTest(self.server)
        self.unsaid: dict[str, str] = {}
        """What kubelets know of pods, and could not tell yet."""
        self.surprised: set[str] = set()
        """Nodes to which somebody bound a pod whom gpuyard could not know of."""
        self.down = False
        self.count = 0

    def _node(self, name: str, count: int) -> NodeOfTest:
        folder = Path(self.stack.enter_context(TemporaryDirectory(prefix="yard-", dir="/tmp")))
        self.server.add_node(node(name))
        sockets = folder / "sockets"
        sockets.mkdir()
        one = NodeOfTest(folder, sockets, self.server, name, count)
        self.stack.callback(one.end)
        one.begin()
        return one

    # What there is

    @property
    def pods(self) -> dict[str, GpuPod]:
        """By name, as the API has them."""
        return {path.removeprefix(PODS): read_pod(each) for path, each in self.server.objects.items() if PODS in path}

    def waiting(self) -> list[str]:
        return [name for name, each in self.pods.items() if not each.node and not each.ended]

    def to_admit(self) -> list[str]:
        return [
            name
            for name, each in self.pods.items()
            if each.node and each.pending and not each.ended and name not in self.unsaid
        ]

    def running(self) -> list[str]:
        return sorted({holder.partition("#")[0] for one in self.nodes.values() for taken in one.kubelet.taken.values()
                       for holder in taken.values()})  # fmt: skip

    def bound(self) -> list[str]:
        return [name for name, each in self.pods.items() if each.node and not each.ended]

    # Pods and schedulers

    @rule(whole=st.booleans(), gib=st.sampled_from([3, 4, 7, 8, 12, 15]), theirs=st.booleans())
    def pod_comes(self, whole: bool, gib: int, theirs: bool) -> None:
        self.count += 1
        resource = names.THEIR_MEMORY if theirs else names.MEMORY
        self.server.add_pod(
            pod(f"p{self.count}", whole=int(whole), memory=0 if whole else gib, resource=resource, phase="Pending")
        )

    @precondition(lambda self: self.waiting())
    @rule(data=st.data(), answer=st.sampled_from(sorted(ANSWERS)))
    def scheduler_binds(self, data: st.DataObject, answer: str) -> None:
        asked = self.server.objects[PODS + data.draw(st.sampled_from(self.waiting()))]
        fitting = self.extender.filter(asked)
        if fitting:
            self._bind(asked, data.draw(st.sampled_from(fitting)), answer)

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), where=st.sampled_from(sorted(GPUS)), answer=st.sampled_from(sorted(ANSWERS)))
    def another_scheduler_asks_the_same(self, data: st.DataObject, where: str, answer: str) -> None:
        self._bind(self.server.objects[PODS + data.draw(st.sampled_from(sorted(self.pods)))], where, answer)

    def _bind(self, asked: Manifest, where: str, answer: str) -> str:
        name, (binding, question) = asked["metadata"]["name"], ANSWERS[answer]
        if not self.down:
            self.server.fails = lambda method, path: (
                binding if path.endswith("/binding") else question if path == PODS + name else None
            )
        told = self.extender.bind(asked, where)
        self._set_api(down=self.down)
        if not told:
            assert self.pods[name].node == where
            assert self.pods[name].devices
        return told

    @precondition(lambda self: self.waiting())
    @rule(data=st.data(), where=st.sampled_from(sorted(GPUS)))
    def somebody_binds_who_knows_no_gpus(self, data: st.DataObject, where: str) -> None:
        path = PODS + data.draw(st.sampled_from(self.waiting()))
        self.server.answer("POST", f"{path}/binding", {"metadata": {}, "target": {"name": where}})
        self.surprised.add(where)

    @precondition(lambda self: self.server.late)
    @rule()
    def a_late_binding_is_carried_out(self) -> None:
        self.server.answer(*self.server.late.pop(0))

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def pod_is_deleted(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.pods)))
        for each in self.nodes.values():
            each.kubelet.free(name)
        self.server.remove(PODS + name)
        self.unsaid.pop(name, None)

    # The extender

    @rule(most=st.integers(1, 4))
    def extender_hears(self, most: int) -> None:
        self.extender.hear(most)

    @rule()
    def extender_lists_again(self) -> None:
        self.extender.look()

    @rule()
    def extender_is_restarted(self) -> None:
        """What it knew is what it finds again, but for what nobody knows of yet."""
        self.extender.hear()
        known, before = set(self.bound()), self.extender.state.books.holdings()
        self.extender.start()
        after = self.extender.state.books.holdings()
        assert after == {uid: parts for uid, parts in before.items() if uid.removeprefix("uid-") in known}
        self.surprised |= {body["target"]["name"] for _, _, body in self.server.late}

    @rule()
    def a_minute_passes(self) -> None:
        """After which no API server carries out what it has not answered."""
        self.server.late.clear()
        self.extender.time += UNDECIDED_S
        for each in self.nodes.values():
            each.time += RECONCILE_S
            each.plugin.step()

    # Kubelets and plugins

    @precondition(lambda self: self.to_admit())
    @rule(data=st.data())
    def kubelet_admits(self, data: st.DataObject) -> None:
        self._admit(data.draw(st.sampled_from(self.to_admit())))

    def _admit(self, name: str) -> None:
        asked = self.pods[name]
        one, size = self.nodes[asked.node], asked.request.whole or asked.request.memory_gib
        (resource,) = self.server.objects[PODS + name]["spec"]["containers"][0]["resources"]["limits"]
        try:
            one.kubelet.admit(name, resource, size)
            self._say(name, "Running")
        except (grpc.RpcError, AssertionError):
            self._say(name, "Failed")

    def _say(self, name: str, phase: str) -> None:
        self.unsaid[name] = phase
        if not self.down:
            self._say_all()

    def _say_all(self) -> None:
        for name, phase in self.unsaid.items():
            self.server.put(PODS + name, {**self.server.objects[PODS + name], "status": {"phase": phase}})
        self.unsaid.clear()

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def pod_ends(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.running()))
        self.nodes[self.pods[name].node].kubelet.free(name)
        self._say(name, "Succeeded")

    @rule(where=st.sampled_from(sorted(GPUS)))
    def plugin_looks(self, where: str) -> None:
        self.nodes[where].plugin.step()

    @rule(where=st.sampled_from(sorted(GPUS)))
    def plugin_is_restarted(self, where: str) -> None:
        self.nodes[where].restart_plugin()
        self._see_health(where)

    @rule(where=st.sampled_from(sorted(GPUS)))
    def kubelet_is_restarted(self, where: str) -> None:
        one = self.nodes[where]
        one.kubelet.stop()
        one.kubelet.start()
        one.plugin.step()
        self._see_health(where)

    @rule(where=st.sampled_from(sorted(GPUS)), broken=st.sampled_from(["", "0", "1"]))
    def gpus_break_or_are_mended(self, where: str, broken: str) -> None:
        self.nodes[where].unwell.write_text(broken)
        self.nodes[where].plugin.step()
        self._see_health(where)

    def _see_health(self, where: str) -> None:
        """Wait until the kubelet has heard which devices are well."""
        one = self.nodes[where]
        well = sum(str(gpu) != one.unwell.read_text() for gpu in range(one.count)) if one.unwell.exists() else one.count
        for resource, each in ((names.MEMORY, GIB), (names.THEIR_MEMORY, GIB), (names.WHOLE_GPUS, 1)):
            one.kubelet.wait_for(resource, well * each)

    @rule(down=st.booleans())
    def api_server_goes_or_comes(self, down: bool) -> None:
        self._set_api(down=down)
        if not down:
            self._say_all()

    def _set_api(self, *, down: bool) -> None:
        self.down = down
        self.server.fails = (lambda method, path: 500) if down else (lambda method, path: None)

    # What must hold

    def held(self, where: str) -> list[int]:
        """GiB of each GPU of a node that the kubelet has given away; a whole one counts as all of it."""
        taken = self.nodes[where].kubelet.taken
        found = [0] * GPUS[where]
        for resource, devices in taken.items():
            for each in devices:
                found[int(each.removeprefix("gpu").partition("-")[0])] += GIB if resource == names.WHOLE_GPUS else 1
        return found

    @invariant()
    def no_gpu_is_given_away_twice_and_no_pod_is_on_two(self) -> None:
        for where, one in self.nodes.items():
            assert max(self.held(where)) <= GIB
            for name in self.running():
                gpus = set.union(*(one.gpu_of(name, resource) for resource in names.RESOURCES_OF_PODS))
                assert len(gpus) == (1 if self.pods[name].node == where else 0)

    @invariant()
    def no_gpu_is_promised_twice(self) -> None:
        self.extender.state.books.check()
        for where in set(GPUS) - self.surprised:
            for gpu in range(GPUS[where]):
                there = [each for each in self.pods.values() if each.node == where and gpu in each.devices]
                taken = sum(GIB if each.request.whole else each.request.memory_gib for each in there if not each.ended)
                assert taken <= GIB

    def teardown(self) -> None:
        """When everything works again, it comes to rest: books are as GPUs are, and who waits finds no room."""
        try:
            self._come_to_rest()
            for where, one in self.nodes.items():
                assert not self.extender.state.books.disputes(where)
                held = self.held(where)
                assert [each.free_gib for each in self.extender.state.books.open_gpus(where)] == [
                    GIB - each for each in held
                ]
                for name in self.waiting():
                    asked = self.pods[name].request
                    assert min(held) > 0 if asked.whole else min(held) + asked.memory_gib > GIB, (name, where, held)
                assert one.kubelet.devices
        finally:
            self.stack.close()

    def _come_to_rest(self) -> None:
        self.api_server_goes_or_comes(down=False)
        for where in GPUS:
            self.gpus_break_or_are_mended(where, "")
        before = -1
        while before != self.server.version:
            before = self.server.version
            self.a_minute_passes()
            self.extender.hear()
            for name in self.to_admit():
                self._admit(name)
            self.a_minute_passes()
            self.extender.hear()
            for name in self.waiting():
                asked = self.server.objects[PODS + name]
                fitting = self.extender.filter(asked)
                assert not fitting or not self._bind(asked, fitting[0], "good")


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(
    max_examples=20, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
