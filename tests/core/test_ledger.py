"""The ledger: nothing is taken twice, nothing beyond what there is, and what comes back is exactly what went out."""

import ast
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.builders import cluster, examples

from gpuyard.core.arrays import Floats, Small
from gpuyard.core.books import NOTHING, Books, held_gpus
from gpuyard.core.cluster import Cluster, NodeGroup, NodeKind
from gpuyard.core.errors import LedgerError
from gpuyard.core.grants import WHOLE
from gpuyard.core.ledger import Ledger

SOURCE = Path(__file__).resolve().parents[2] / "src" / "gpuyard"


def ledger(shape: str = "2x4", *widths: float) -> Ledger:
    """Books of nodes with 12 CPUs and 100 GB, for jobs of these sizes."""
    sizes = np.array(widths or (1.0, 1.0, 2.0, 0.5, 0.6))
    gpus = np.maximum(sizes, 1).astype(np.int64)
    milli = np.where(sizes < 1, sizes * WHOLE, WHOLE).astype(np.int64)
    return Ledger.of(cluster(shape, "cpus=12,memory=100GB"), gpus, milli)


def amounts(cpus: float = 1.0, memory: float = 1.0, storage: float = 1.0, network: float = 0.0) -> Floats:
    return np.array([cpus, memory, storage, network])


def ids(*gpus: int) -> Small:
    return np.array(gpus, dtype=np.int32)


def picture(book: Ledger) -> list[object]:
    """All that the books say, apart from what a job held last."""
    books = book.books
    return [books.free.tolist(), books.gpu_free.tolist(), books.whole_free.tolist(), books.up.tolist(),
            books.slot.tolist(), books.head.tolist(), books.demanded.tolist(), book.holders.tolist()]  # fmt: skip


def test_a_job_takes_and_gives_back() -> None:
    book = ledger()
    before = picture(book)
    book.take(2, ids(1, 4), amounts(cpus=3))
    assert book.holders.tolist() == [2]
    assert book.books.free[:, 0].tolist() == [9, 9]
    assert book.books.whole_free.tolist() == [3, 3]
    book.check()
    book.give_back(2)
    assert picture(book) == before


def test_as_many_lines_are_in_use_as_were_held_at_once() -> None:
    """Two single jobs together, then one of two GPUs, in turns: no round needs lines of its own."""
    book = ledger("1x2", 1.0, 1.0, 1.0, 2.0, 2.0)
    for single, other, pair in ((0, 1, 3), (2, 0, 4), (1, 2, 3)):
        book.take(single, ids(0), amounts(cpus=1))
        book.take(other, ids(1), amounts(cpus=2))
        assert [held_gpus(book.books, job).tolist() for job in (single, other)] == [[0], [1]]
        book.check()
        book.give_back(single)
        book.give_back(other)
        book.take(pair, ids(1, 0), amounts(cpus=3))
        assert held_gpus(book.books, pair).tolist() == [1, 0]
        book.give_back(pair)
    assert book.books.fresh[0] == 1 + 1 + 2


@pytest.mark.parametrize(
    ("job", "gpus", "wanted", "why"),
    [
        (0, (1,), amounts(), "the job holds something already"),
        (1, (0,), amounts(), "somebody else has that GPU"),
        (2, (1,), amounts(), "it needs two"),
        (1, (1, 2), amounts(), "it needs one"),
        (2, (1, 1), amounts(), "the same GPU twice"),
        (1, (1,), amounts(cpus=10.01), "a neighbour has 2 of the 12 CPUs"),
        (1, (4,), amounts(cpus=12.01), "more CPUs than a node has"),
        (1, (4,), amounts(memory=100.01), "more memory than a node has"),
        (1, (4,), amounts(storage=500.01), "more storage bandwidth than a node has"),
        (1, (4,), amounts(network=40.01), "more network bandwidth than a node has"),
        (2, (4, 5), amounts(cpus=6.01), "twice 6.01 CPUs on one node"),
        (1, (4,), amounts(cpus=-1), "a negative amount would give"),
    ],
)
def test_it_refuses_and_nothing_has_changed(job: int, gpus: tuple[int, ...], wanted: Floats, why: str) -> None:
    book = ledger()
    book.take(0, ids(0), amounts(cpus=2))
    before = picture(book)
    with pytest.raises(LedgerError, match="cannot take"):
        book.take(job, ids(*gpus), wanted)
    assert picture(book) == before, why
    book.check()


def test_slices_share_a_gpu_up_to_its_whole() -> None:
    book = ledger("1x1", 0.5, 0.5, 0.6)
    book.take(0, ids(0), amounts())
    with pytest.raises(LedgerError):
        book.take(2, ids(0), amounts())
    book.take(1, ids(0), amounts())
    assert book.books.gpu_free.tolist() == [0]
    book.check()
    book.give_back(0)
    assert book.books.whole_free.tolist() == [0]
    book.give_back(1)
    assert book.books.whole_free.tolist() == [1]


def test_who_holds_nothing_has_nothing_to_give_back() -> None:
    book = ledger()
    with pytest.raises(LedgerError, match="holds nothing"):
        book.give_back(0)
    book.take(0, ids(0), amounts())
    book.give_back(0)
    with pytest.raises(LedgerError, match="holds nothing"):
        book.give_back(0)


def test_a_busy_node_does_not_close() -> None:
    book = ledger()
    book.take(3, ids(2), amounts())
    with pytest.raises(LedgerError, match="node 'node0' cannot leave"):
        book.close(0)
    book.check()
    book.close(1)
    book.check()


def test_a_closed_node_gives_nothing_until_it_opens_again_empty() -> None:
    book = ledger()
    book.close(1)
    with pytest.raises(LedgerError):
        book.take(1, ids(4), amounts(0, 0, 0))
    book.open(1)
    with pytest.raises(LedgerError, match="already"):
        book.open(1)
    book.take(1, ids(4), amounts(12, 100, 500, 40))
    book.check()


def cooked(books: Books, name: str, value: float) -> None:
    getattr(books, name).flat[0] = value


@pytest.mark.parametrize(
    "spoil",
    [
        lambda books: cooked(books, "free", 5.0),
        lambda books: cooked(books, "gpu_free", 1),
        lambda books: cooked(books, "whole_free", 2),
        lambda books: cooked(books, "line_amounts", 13.0),
        lambda books: cooked(books, "line_part", 2000),
        lambda books: cooked(books, "state", NOTHING),
    ],
)
def test_the_check_sees_when_books_are_cooked(spoil: Callable[[Books], None]) -> None:
    book = ledger()
    book.take(0, ids(0), amounts())
    book.check()
    spoil(book.books)
    with pytest.raises(LedgerError):
        book.check()


Node = tuple[int, int, int]


class AgainstPlainBooks(RuleBasedStateMachine):
    """Random business, and the same in plain Python with whole numbers: 1/1024 of an amount is 1 here."""

    @initialize(
        nodes=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 40), st.integers(1, 300)), min_size=1, max_size=3),
        sizes=st.lists(st.sampled_from([1, 1, 2, 3, 0.5, 0.25, 0.333]), min_size=1, max_size=8),
    )
    def start(self, nodes: list[Node], sizes: list[float]) -> None:
        groups = [
            NodeGroup(1, NodeKind(gpus=gpus, cpus=cpus, memory_gb=memory, storage_mbps=0, network_gbps=0))
            for gpus, cpus, memory in nodes
        ]
        self.gpus = [max(int(size), 1) for size in sizes]
        self.milli = [round(size * 1000) if size < 1 else 1000 for size in sizes]
        self.book = Ledger.of(Cluster(tuple(groups)), np.array(self.gpus), np.array(self.milli))
        self.node_of = [node for node, (gpus, _, _) in enumerate(nodes) for _ in range(gpus)]
        self.capacity = [(cpus * 1024, memory * 1024) for _, cpus, memory in nodes]
        self.free = [list(both) for both in self.capacity]
        self.gpu_free = [1000] * len(self.node_of)
        self.up = [True] * len(nodes)
        self.held: dict[int, tuple[list[int], int, int]] = {}

    def fits(self, job: int, gpus: list[int], cpus: int, memory: int) -> bool:
        if job in self.held or len(gpus) != self.gpus[job] or len(set(gpus)) != len(gpus):
            return False
        if any(self.gpu_free[gpu] < self.milli[job] or not self.up[self.node_of[gpu]] for gpu in gpus):
            return False
        nodes = [self.node_of[gpu] for gpu in gpus]
        return all(
            cpus * nodes.count(node) <= self.free[node][0] and memory * nodes.count(node) <= self.free[node][1]
            for node in nodes
        )

    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        job = data.draw(st.integers(0, len(self.gpus) - 1))
        gpus = data.draw(st.lists(st.integers(0, len(self.node_of) - 1), min_size=1, max_size=4))
        cpus, memory = data.draw(st.integers(0, 20 * 1024)), data.draw(st.integers(0, 150 * 1024))
        if data.draw(st.booleans()):
            cpus, memory = cpus // 16, memory // 16
        wanted = np.array([cpus / 1024, memory / 1024, 0.0, 0.0])
        if not self.fits(job, gpus, cpus, memory):
            with pytest.raises(LedgerError):
                self.book.take(job, ids(*gpus), wanted)
            return
        self.book.take(job, ids(*gpus), wanted)
        self.held[job] = (gpus, cpus, memory)
        for gpu in gpus:
            self.gpu_free[gpu] -= self.milli[job]
            self.free[self.node_of[gpu]][0] -= cpus
            self.free[self.node_of[gpu]][1] -= memory

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(sorted(self.held)))
        self.book.give_back(job)
        gpus, cpus, memory = self.held.pop(job)
        for gpu in gpus:
            self.gpu_free[gpu] += self.milli[job]
            self.free[self.node_of[gpu]][0] += cpus
            self.free[self.node_of[gpu]][1] += memory

    @rule(data=st.data())
    def close_or_open(self, data: st.DataObject) -> None:
        node = data.draw(st.integers(0, len(self.up) - 1))
        busy = any(self.node_of[gpu] == node for gpus, _, _ in self.held.values() for gpu in gpus)
        if not self.up[node]:
            self.book.open(node)
        elif busy:
            with pytest.raises(LedgerError):
                self.book.close(node)
            return
        else:
            self.book.close(node)
        self.up[node] = not self.up[node]
        self.free[node] = list(self.capacity[node]) if self.up[node] else [0, 0]
        for gpu, home in enumerate(self.node_of):
            if home == node:
                self.gpu_free[gpu] = 1000 if self.up[node] else 0

    @invariant()
    def agree_to_the_last_bit(self) -> None:
        if not hasattr(self, "book"):
            return
        books = self.book.books
        assert sorted(self.book.holders.tolist()) == sorted(self.held)
        assert books.gpu_free.tolist() == self.gpu_free
        assert (books.free[:, :2] * 1024).tolist() == self.free
        for job, (gpus, cpus, memory) in self.held.items():
            assert held_gpus(books, job).tolist() == gpus
            assert (books.line_amounts[books.first_line[job], :2] * 1024).tolist() == [cpus, memory]
        for gpu in range(len(self.node_of)):
            named, place = [], int(books.head[gpu])
            while place >= 0:
                named.append(int(books.line_holder[place]))
                place = int(books.following[place])
            assert sorted(named) == sorted(job for job, (gpus, _, _) in self.held.items() if gpu in gpus)
        self.book.check()


TestAgainstPlainBooks = AgainstPlainBooks.TestCase
TestAgainstPlainBooks.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)


def written_to(tree: ast.AST) -> list[tuple[int, str]]:
    """Names of attributes whose elements are assigned to, with the line."""
    found = []
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign):
            targets = [node.target]
        for leaf in (leaf for target in targets for leaf in ast.walk(target)):
            base: ast.AST = leaf
            while isinstance(base, ast.Subscript):
                base = base.value
            stored = isinstance(leaf, ast.Subscript) and isinstance(leaf.ctx, ast.Store)
            if stored and isinstance(base, ast.Attribute):
                found.append((base.lineno, ast.unparse(base)))
    return found


def writes_of_books(file: Path) -> list[str]:
    """Every assignment to an element of one of the ledger's arrays, reached through anything called books."""
    return [
        f"{file.name}:{line}: {target}"
        for line, target in written_to(ast.parse(file.read_text(encoding="utf-8")))
        if target.split(".")[-1] in Books._fields and "books" in target.split(".")[:-1]
    ]


def test_only_the_ledger_writes_its_books() -> None:
    elsewhere = [file for file in sorted(SOURCE.rglob("*.py")) if file != SOURCE / "core" / "books.py"]
    assert [line for file in elsewhere for line in writes_of_books(file)] == []


def test_writing_elsewhere_would_be_seen(tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    file.write_text("self.ledger.books.free[0, 1] -= 2\nbooks.slot[3] = 1\na, books.up[0] = 1, 2\n")
    assert len(writes_of_books(file)) == 3
    assert len(writes_of_books(SOURCE / "core" / "books.py")) > 10
