"""Grants by name: parts of GPUs with their memory, amounts alone, states and tasks, while nodes come and go."""

import math
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.builders import examples

from gpuyard.core.books import settle
from gpuyard.core.cluster import NodeKind
from gpuyard.core.errors import InputError, LedgerError
from gpuyard.core.grants import Grant, GrantState, Part
from gpuyard.core.ledger import Ledger

KIND = NodeKind(gpus=2, cpus=8.0, memory_gb=64.0, storage_mbps=0.0, network_gbps=0.0, gpu_memory_gb=16.0)


def ledger() -> Ledger:
    """Two nodes of two GPUs with 16 GB, 8 CPUs and 64 GB each."""
    found = Ledger()
    found.add_node("a", KIND)
    found.add_node("b", KIND)
    return found


def cpus(amount: float) -> dict[str, float]:
    return {"cpus": amount}


def test_a_grant_takes_parts_of_several_nodes_and_amounts_alone() -> None:
    book = ledger()
    parts = (Part("a", 1, 500, 8.0, cpus(2.0)), Part("b", 0), Part("b", amounts={"cpus": 3.0, "memory_gb": 4.0}))
    book.grant("job", parts, tasks=("loader", "trainer"))
    found = book.grant_of("job")
    assert found == Grant("job", parts, GrantState.HELD, ("loader", "trainer"))
    assert (found.gpus, found.nodes, found.total("cpus")) == (1.5, ("a", "b"), 5.0)
    assert book.books.gpu_free.tolist() == [1000, 500, 0, 1000]
    assert book.books.gpu_memory_free.tolist() == [16.0, 8.0, 16.0, 16.0]
    assert book.books.free[:, 0].tolist() == [6.0, 5.0]
    book.release("job")
    assert (book.grant_of("job"), book.books.gpu_free.tolist()) == (None, [1000] * 4)
    assert book.books.gpu_memory_free.tolist() == [16.0] * 4
    assert book.books.free[:, 0].tolist() == [8.0, 8.0]


def test_the_books_note_where_somebody_came_or_went_until_that_is_settled() -> None:
    book = ledger()
    book.grant("job", [Part("b", 0)])
    assert book.books.touched.tolist() == [0, 1]
    settle(book.books)
    assert book.books.touched.tolist() == [0, 0]
    book.release("job")
    assert book.books.touched.tolist() == [0, 1]


REFUSED = {
    "holds something already": ("old", [Part("b", 1)], "'old' holds something already"),
    "asks for nothing": ("new", [], "'new' asks for nothing"),
    "no such node": ("new", [Part("c", 0)], "there is no node 'c'"),
    "no such GPU": ("new", [Part("a", 2)], "node 'a' has no GPU 2"),
    "the same GPU in two parts": ("new", [Part("b", 0, 100), Part("b", 0, 100)], "cannot take GPU 0 of node 'b' twice"),
    "more of a GPU than is free": ("new", [Part("a", 0, 501)], "500 thousandths and 4 GB of it are free"),
    "more GPU memory than is free": ("new", [Part("a", 0, 100, 4.5)], "500 thousandths and 4 GB of it are free"),
    "more CPUs than are free": ("new", [Part("a", 1, amounts=cpus(6.5))], "free are cpus 6, memory_gb 64"),
    "more CPUs than are free, in two parts": (
        "new", [Part("a", 1, amounts=cpus(3.5)), Part("a", amounts=cpus(3.0))], "free are cpus 6, memory_gb 64"),
    "the last part only": ("new", [Part("b", 0), Part("b", 1), Part("a", 0)], "500 thousandths and 4 GB"),
    "a node out of service": ("new", [Part("down", 0)], "the node is out of service"),
    "amounts alone of a node out of service": ("new", [Part("down", amounts=cpus(1.0))], "the node is out of service"),
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_not_free_is_refused_and_nothing_has_changed(why: str) -> None:
    holder, parts, message = REFUSED[why]
    book = ledger()
    book.add_node("down", KIND)
    book.close(2)
    book.grant("old", [Part("a", 0, 500, 12.0, cpus(2.0))], tasks=["t"])
    before = [array.tolist() for array in book.books]
    with pytest.raises(LedgerError) as refusal:
        book.grant(holder, parts)
    assert message in str(refusal.value)
    assert [array.tolist() for array in book.books] == before
    assert book.grant_of("old") == Grant("old", (Part("a", 0, 500, 12.0, cpus(2.0)),), tasks=("t",))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"amounts": {"cpu": 1.0}}, "'cpu' is not a resource of a node. Did you mean 'cpus'"),
        ({"thousandths": 1001}, "field thousandths: 1001 must be from 0 to 1000"),
        ({"thousandths": 500.5}, "field thousandths: 500.5 must be a whole number"),
        ({"thousandths": -1}, "field thousandths: -1 must be from 0 to 1000"),
        ({"gpu": None, "gpu_memory_gb": 1.0}, "field gpu_memory_gb: 1.0 is memory of a GPU, and no GPU is named"),
        ({"gpu_memory_gb": -1.0}, "field gpu_memory_gb: -1.0 must be a finite number, 0 or more"),
        ({"amounts": {"cpus": -1.0}}, "field cpus: -1.0 must be a finite number, 0 or more"),
        ({"amounts": {"cpus": math.nan}}, "field cpus: nan must be a finite number, 0 or more"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_parts_that_cannot_be(wrong: dict[str, Any], message: str) -> None:
    fields: dict[str, Any] = {"node": "a", "gpu": 0}
    with pytest.raises(InputError) as refusal:
        Part(**(fields | wrong))
    assert message in str(refusal.value)


def test_a_grant_is_taken_in_every_state() -> None:
    book = ledger()
    book.grant("job", [Part("a", 0)], state=GrantState.RESERVED)
    for state in (GrantState.RESERVED, GrantState.HELD, GrantState.RELEASING):
        book.move_on("job", state)
        found = book.grant_of("job")
        assert found is not None
        assert found.state is state
        with pytest.raises(LedgerError, match="0 thousandths"):
            book.grant("next", [Part("a", 0, 1)])
    book.release("job")
    book.grant("next", [Part("a", 0)])


def test_who_holds_nothing_can_neither_move_on_nor_release() -> None:
    book = ledger()
    with pytest.raises(LedgerError, match="'x' holds nothing"):
        book.release("x")
    with pytest.raises(LedgerError, match="'x' holds nothing"):
        book.move_on("x", GrantState.HELD)
    assert book.grant_of("x") is None


NAMES = ("a", "b", "c", "d")
HOLDERS = ("ann", "bob", 7, ("team", 1))
AMOUNTS = st.sampled_from([1, 1024, 1536, 4096]).map(lambda number: number / 1024)


def test_a_plan_that_does_not_fit_as_a_whole_changes_nothing() -> None:
    book = ledger()
    book.grant("stays", [Part("a", 0, amounts=cpus(2.0))], tasks=("train",))
    book.grant("leaves", [Part("b", 0, 500)], state=GrantState.RELEASING)
    before = book.grants()
    too_much = [Grant("new", (Part("b", 0),)), Grant("stays", (Part("b", 1),)), Grant("last", (Part("b", 0, 1),))]
    with pytest.raises(LedgerError, match="'last' cannot take 1 thousandths of GPU 0 on node 'b'"):
        book.carry_out(too_much, released=["leaves"])
    assert book.grants() == before
    assert book.grant_of("new") is None
    book.check()
    book.carry_out(too_much[:2], released=["leaves"])
    assert {grant.holder: grant.parts for grant in book.grants()} == {each.holder: each.parts for each in too_much[:2]}


@st.composite
def parts_of(draw: st.DrawFn, nodes: list[str]) -> Part:
    """Something of one of these nodes, which it may have or not."""
    name = draw(st.sampled_from(nodes))
    amounts = draw(st.dictionaries(st.sampled_from(["cpus", "memory_gb"]), AMOUNTS))
    if draw(st.integers(0, 3)) == 0:
        return Part(name, amounts=amounts)
    thousandths, memory = draw(st.sampled_from([0, 200, 500, 1000])), draw(st.sampled_from([0.0, 0.25, 7.5]))
    return Part(name, draw(st.sampled_from([0, 0, 1, 2])), thousandths, memory, amounts)


class PlainNode:
    """What is free of one node."""

    def __init__(self, number: int, kind: NodeKind) -> None:
        self.number, self.kind, self.up = number, kind, True
        self.gpus = [1000] * kind.gpus
        self.gpu_memory = [kind.gpu_memory_gb] * kind.gpus
        self.amounts = {"cpus": kind.cpus, "memory_gb": kind.memory_gb}


class AgainstPlainBooks(RuleBasedStateMachine):
    """Random business, and the same in plain Python; amounts are multiples of 1/1024 and so exact in both."""

    @initialize(gpus=st.integers(1, 3))
    def start(self, gpus: int) -> None:
        self.book = Ledger()
        self.nodes: dict[str, PlainNode] = {}
        self.grants: dict[Any, Grant] = {}
        self.joined = 0
        self.add_node("a", gpus, 9)
        self.add_node("b", 3, 5)

    @rule(name=st.sampled_from(NAMES), gpus=st.integers(0, 3), cpus=st.integers(0, 9))
    def add_node(self, name: str, gpus: int, cpus: int) -> None:
        kind = NodeKind(gpus=gpus, cpus=cpus, memory_gb=10, storage_mbps=0, network_gbps=0, gpu_memory_gb=16.0)
        if name in self.nodes:
            with pytest.raises(LedgerError, match="there already"):
                self.book.add_node(name, kind)
            return
        self.book.add_node(name, kind)
        self.nodes[name] = PlainNode(self.joined, kind)
        self.joined += 1

    @rule(name=st.sampled_from(NAMES), leaves=st.booleans())
    def node_leaves_or_closes_or_opens(self, name: str, leaves: bool) -> None:
        known = self.nodes.get(name)
        busy = any(name in grant.nodes for grant in self.grants.values())
        if known is None or (busy and (leaves or known.up)):
            with pytest.raises(LedgerError):
                self.book.remove_node(name)
        elif leaves:
            self.book.remove_node(name)
            del self.nodes[name]
        else:
            (self.book.close if known.up else self.book.open)(known.number)
            known.up = not known.up

    def fits(self, parts: list[Part]) -> bool:
        named = [(part.node, part.gpu) for part in parts if part.gpu is not None]
        if not parts or len(set(named)) < len(named):
            return False
        for part in parts:
            home = self.nodes.get(part.node)
            if home is None or not home.up:
                return False
            if part.gpu is not None and (
                part.gpu >= len(home.gpus)
                or part.thousandths > home.gpus[part.gpu]
                or part.gpu_memory_gb > home.gpu_memory[part.gpu]
            ):
                return False
            for name, free in home.amounts.items():
                if sum(other.amounts.get(name, 0.0) for other in parts if other.node == part.node) > free:
                    return False
        return True

    def count(self, parts: tuple[Part, ...], sign: int) -> None:
        for part in parts:
            home = self.nodes[part.node]
            if part.gpu is not None:
                home.gpus[part.gpu] -= sign * part.thousandths
                home.gpu_memory[part.gpu] -= sign * part.gpu_memory_gb
            for name, amount in part.amounts.items():
                home.amounts[name] -= sign * amount

    @rule(
        data=st.data(),
        state=st.sampled_from(GrantState),
        tasks=st.lists(st.sampled_from(["load", "train"]), max_size=2).map(tuple),
    )
    def grant(self, data: st.DataObject, state: GrantState, tasks: tuple[str, ...]) -> None:
        idle = [holder for holder in HOLDERS if holder not in self.grants]
        holder = data.draw(st.sampled_from([*idle, HOLDERS[0]]))
        parts = data.draw(st.lists(parts_of([*self.nodes, *self.nodes, "nowhere"]), max_size=4))
        if holder in self.grants or not self.fits(parts):
            with pytest.raises(LedgerError):
                self.book.grant(holder, parts, state=state, tasks=tasks)
            return
        self.book.grant(holder, iter(parts), state=state, tasks=tasks)
        self.grants[holder] = Grant(holder, tuple(map(noted, parts)), state, tasks)
        self.count(self.grants[holder].parts, 1)

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), state=st.sampled_from(GrantState))
    def move_on(self, data: st.DataObject, state: GrantState) -> None:
        holder = data.draw(st.sampled_from(list(self.grants)))
        self.book.move_on(holder, state)
        old = self.grants[holder]
        self.grants[holder] = Grant(holder, old.parts, state, old.tasks)

    @precondition(lambda self: self.grants)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        holder = data.draw(st.sampled_from(list(self.grants)))
        self.book.release(holder)
        self.count(self.grants.pop(holder).parts, -1)

    @invariant()
    def agree_to_the_last_bit(self) -> None:
        if not hasattr(self, "book"):
            return
        books = self.book.books
        assert self.book.nodes == tuple(self.nodes)
        assert {holder: self.book.grant_of(holder) for holder in HOLDERS if holder in self.grants} == self.grants
        assert all(self.book.grant_of(holder) is None for holder in HOLDERS if holder not in self.grants)
        for home in self.nodes.values():
            gpus = slice(books.first_gpu[home.number], books.first_gpu[home.number + 1])
            in_service = int(home.up)
            assert books.gpu_free[gpus].tolist() == [free * in_service for free in home.gpus]
            assert books.gpu_memory_free[gpus].tolist() == home.gpu_memory
            assert books.whole_free[home.number] == home.gpus.count(1000) * in_service
            assert books.free[home.number, :2].tolist() == [free * in_service for free in home.amounts.values()]
        self.book.check()


def noted(part: Part) -> Part:
    """A part as the ledger tells it: amounts of 0 are left out."""
    amounts = {name: amount for name, amount in part.amounts.items() if amount}
    return Part(part.node, part.gpu, part.thousandths, part.gpu_memory_gb, amounts)


TestAgainstPlainBooks = AgainstPlainBooks.TestCase
TestAgainstPlainBooks.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
