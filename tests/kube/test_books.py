"""The books follow pods and nodes, whatever happens in which order."""

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.kube.builders import gpus, pod

from gpuyard.core.errors import LedgerError
from gpuyard.kube.books import GpuBooks, books_of
from gpuyard.kube.choosing import choose
from gpuyard.kube.judging import PodJudge, sharing_rule
from gpuyard.kube.objects import GpuPod, GpuRequest, YardNode, read_pod
from gpuyard.policies.multiplex.interference import InterferenceModel

JUDGE = PodJudge(sharing_rule("interference"), InterferenceModel())


def there(name: str, memory: int = 0, devices: str = "0", chosen_at: int = 1, whole: int = 0) -> GpuPod:
    return read_pod(pod(name, memory=memory, whole=whole, node="n1", devices=devices, chosen_at=chosen_at))


def test_a_pod_takes_the_memory_of_its_gpu_until_it_ends() -> None:
    books = books_of([YardNode("n1", gpus(16, 16))], [there("a", 10)])
    assert [each.free_gib for each in books.open_gpus("n1")] == [6, 16]
    books.set_pod(replace(there("a", 10), ended=True))
    assert [each.free_gib for each in books.open_gpus("n1")] == [16, 16]


def test_a_whole_gpu_is_nobody_else_s() -> None:
    books = books_of([YardNode("n1", gpus(16, 16, 16))], [there("a", 0, "0,2", whole=2)])
    assert [each.free_gib for each in books.open_gpus("n1")] == [0, 16, 0]


def test_gpus_of_one_node_may_be_of_several_kinds() -> None:
    mixed = (*gpus(31, kind="V100"), replace(gpus(11, kind="2080ti")[0], index=1))
    books = books_of([YardNode("n1", mixed)], [there("a", 11, "1")])
    assert [each.free_gib for each in books.open_gpus("n1")] == [31, 0]


def test_a_gpu_that_is_out_of_order_takes_nobody_and_keeps_who_is_there() -> None:
    books = books_of([YardNode("n1", gpus(16, out_of_order=(0,)))], [there("a", 4)])
    assert [each.free_gib for each in books.open_gpus("n1")] == [0]
    books.set_node(YardNode("n1", gpus(16)))
    assert [each.free_gib for each in books.open_gpus("n1")] == [12]


def test_a_pod_whose_gpu_nobody_knows_closes_its_node_until_somebody_says() -> None:
    books = books_of([YardNode("n1", gpus(16, 16))], [there("a", 4, devices="")])
    assert [each.free_gib for each in books.open_gpus("n1")] == [0, 0]
    assert list(books.disputes("n1")) == ["uid-a"]
    books.set_pod(there("a", 4, "1"))
    assert [each.free_gib for each in books.open_gpus("n1")] == [16, 12]


def test_who_came_too_late_is_disputed_until_there_is_room() -> None:
    books = books_of([YardNode("n1", gpus(16))], [there("late", 9, chosen_at=2), there("early", 9, chosen_at=1)])
    assert list(books.disputes("n1")) == ["uid-late"]
    assert [each.free_gib for each in books.open_gpus("n1")] == [0]
    books.remove_pod("uid-early")
    assert books.disputes("n1") == {}
    assert [each.free_gib for each in books.open_gpus("n1")] == [7]


def test_pods_may_be_known_before_their_node() -> None:
    books = books_of([], [there("a", 4)])
    assert list(books.disputes("n1")) == ["uid-a"]
    books.set_node(YardNode("n1", gpus(16)))
    assert books.disputes("n1") == {}


def test_what_is_reserved_is_taken_and_a_second_reservation_refused() -> None:
    books = books_of([YardNode("n1", gpus(16))], [])
    waiting = read_pod(pod("a", memory=10))
    books.reserve(waiting, "n1", (0,), 5)
    assert [each.free_gib for each in books.open_gpus("n1")] == [6]
    with pytest.raises(LedgerError, match="has a place already"):
        books.reserve(waiting, "n1", (0,), 6)
    with pytest.raises(LedgerError, match="cannot take"):
        books.reserve(read_pod(pod("b", memory=7)), "n1", (0,), 6)
    books.set_pod(waiting)  # a watch that tells of it before it is bound
    assert [each.free_gib for each in books.open_gpus("n1")] == [6]
    books.remove_pod(waiting.uid)
    assert [each.free_gib for each in books.open_gpus("n1")] == [16]


NODES = ("n1", "n2")
SIZES = st.sampled_from([(), (16,), (16, 11), (31, 31, 11)])


class Cluster(RuleBasedStateMachine):
    """Pods come, are placed, end and vanish, nodes change, foreign pods turn up anywhere, books are built anew."""

    def __init__(self) -> None:
        super().__init__()
        self.books = GpuBooks()
        self.nodes: dict[str, YardNode] = {}
        self.pods: dict[str, GpuPod] = {}
        self.clock = 0

    @rule(name=st.sampled_from(NODES), memory=SIZES, broken=st.booleans())
    def node_changes(self, name: str, memory: tuple[int, ...], broken: bool) -> None:
        self.nodes[name] = YardNode(name, gpus(*memory, out_of_order=(0,) if broken else ()))
        self.books.set_node(self.nodes[name])

    @precondition(lambda self: self.nodes)
    @rule(data=st.data())
    def node_goes(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        del self.nodes[name]
        self.books.remove_node(name)

    @precondition(lambda self: self.nodes)
    @rule(data=st.data(), memory=st.integers(1, 20), whole=st.integers(0, 2))
    def pod_is_placed(self, data: st.DataObject, memory: int, whole: int) -> None:
        self.clock += 1
        request = GpuRequest(whole=whole) if whole else GpuRequest(memory_gib=memory)
        new = replace(read_pod(pod(f"p{self.clock}")), request=request)
        node = data.draw(st.sampled_from(sorted(self.nodes)))
        chosen = choose(self.books.open_gpus(node), JUDGE.places(new))
        if chosen:
            placed = self.books.reserve(new, node, chosen, self.clock)
            if data.draw(st.booleans()):
                self.pods[placed.uid] = placed
                self.books.set_pod(placed)
            else:
                self.books.remove_pod(placed.uid)

    @rule(node=st.sampled_from(NODES), gpu=st.sampled_from(["", "0", "1", "0,1", "7"]), memory=st.integers(1, 40))
    def somebody_else_s_pod_turns_up(self, node: str, gpu: str, memory: int) -> None:
        self.clock += 1
        self.pods[f"uid-f{self.clock}"] = found = read_pod(
            pod(f"f{self.clock}", memory=memory, node=node, devices=gpu, chosen_at=self.clock % 5)
        )
        self.books.set_pod(found)

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), ended=st.booleans())
    def pod_goes(self, data: st.DataObject, ended: bool) -> None:
        gone = self.pods.pop(data.draw(st.sampled_from(sorted(self.pods))))
        if ended:
            self.books.set_pod(replace(gone, ended=True))
        else:
            self.books.remove_pod(gone.uid)

    @invariant()
    def no_gpu_is_over_committed_and_no_pod_on_two(self) -> None:
        self.books.check()
        for holder, parts in self.books.holdings().items():
            held = self.pods[holder]
            assert {part.node for part in parts} == {f"{held.node}/{index}" for index in held.devices}

    @invariant()
    def after_a_restart_the_books_are_the_same(self) -> None:
        again = books_of(self.nodes.values(), reversed(self.pods.values()))
        assert again.holdings() == self.books.holdings()
        for node in self.nodes:
            assert again.disputes(node).keys() == self.books.disputes(node).keys()
            assert [(each.gpu, each.free_gib, sorted(each.residents)) for each in again.open_gpus(node)] == [
                (each.gpu, each.free_gib, sorted(each.residents)) for each in self.books.open_gpus(node)
            ]


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=40, stateful_step_count=15, deadline=None)
