"""Who holds what. The one place where resources are taken and given back; it refuses what does not fit.

Every engine uses it: the simulator calls the functions of `books.py` from compiled code, and knows nodes and holders by
their numbers; others use names. Nodes and holders come and go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import replace

import numpy as np

from gpuyard.core import books as changes
from gpuyard.core.arrays import Floats, Ints, Small
from gpuyard.core.books import DEMANDS, NO_GPU, SLACK
from gpuyard.core.cluster import MOST_GPUS, RESOURCES, Cluster, NodeKind
from gpuyard.core.errors import InputError, LedgerError
from gpuyard.core.grants import WHOLE, Grant, GrantState, Part


class Ledger:
    """The books of some nodes and of those who hold something of them."""

    def __init__(self) -> None:
        self.books = changes.empty_books()
        self._nodes: dict[str, int] = {}
        self._holders: dict[Hashable, int] = {}
        self._vacant: dict[int, list[int]] = {}
        self._tasks: dict[Hashable, tuple[str, ...]] = {}
        self._gpu_memory = np.zeros(0)

    @classmethod
    def of(
        cls, cluster: Cluster, lines: Ints, part: Ints, demand: Floats | None = None, alike: Small | None = None
    ) -> Ledger:
        """Return books of a whole cluster for numbered holders: each has so many lines, a part of one GPU in each."""
        ledger = cls()
        memory = np.array([kind.gpu_memory_gb for kind in cluster.kinds])[cluster.node_kind]
        ledger._add_nodes(cluster.node_gpus, cluster.capacity, memory)
        ledger._nodes = {name: number for number, name in enumerate(cluster.node_names)}
        ledger.add_numbered(lines, part, np.zeros((len(lines), DEMANDS)) if demand is None else demand, alike)
        return ledger

    def add_numbered(self, lines: Ints, part: Ints, demand: Floats, alike: Small | None = None) -> None:
        """Make room for more holders known by number, behind those there are; see `with_holders`."""
        self.books = changes.with_holders(self.books, lines, part, demand, alike)

    def add_node(self, name: str, kind: NodeKind) -> None:
        """A node joins, empty."""
        if name in self._nodes:
            raise LedgerError(f"node {name!r} is there already")
        number, gpus, memory = len(self.books.up), np.array([kind.gpus], np.int64), np.array([kind.gpu_memory_gb])
        self._add_nodes(gpus, np.array([kind.amounts]), memory)
        self._nodes[name] = number

    def _add_nodes(self, gpus: Ints, capacity: Floats, gpu_memory_gb: Floats) -> None:
        total = len(self.books.gpu_node) + int(gpus.sum())
        if total > MOST_GPUS:
            raise LedgerError(f"{total} GPUs are more than a ledger holds: {MOST_GPUS} at most")
        self.books = changes.with_nodes(self.books, gpus, capacity, gpu_memory_gb)
        self._gpu_memory = np.concatenate([self._gpu_memory, np.repeat(gpu_memory_gb, gpus)])

    def remove_node(self, name: str) -> None:
        """A node that nobody holds anything of leaves for good."""
        self.close(self._node(name))
        del self._nodes[name]

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of all nodes, in order of joining."""
        return tuple(self._nodes)

    @property
    def holders(self) -> Ints:
        """The numbers of those who hold something."""
        return self.books.holders[: self.books.busy[0]]

    def grant(
        self,
        holder: Hashable,
        parts: Iterable[Part],
        *,
        state: GrantState = GrantState.HELD,
        tasks: Iterable[str] = (),
    ) -> None:
        """Let somebody take these parts; raises LedgerError, and changes nothing, if they are not all free."""
        wanted = tuple(parts)
        if holder in self._holders:
            raise LedgerError(f"{holder!r} holds something already")
        if not wanted:
            raise LedgerError(f"{holder!r} asks for nothing")
        places = [self._place(part) for part in wanted]
        self._refuse_if_not_free(holder, wanted, places)
        number = self._number(len(wanted))
        self._write(number, wanted, places, state)
        self._holders[holder], self._tasks[holder] = number, tuple(tasks)

    def hold(self, number: int, parts: tuple[Part, ...], state: GrantState, *, name: Hashable) -> None:
        """Let a numbered holder, which holds nothing yet, take parts that need not be alike; errors say its name."""
        places = [self._place(part) for part in parts]
        self._refuse_if_not_free(name, parts, places)
        self._write(number, parts, places, state)

    def _write(self, number: int, parts: tuple[Part, ...], places: list[tuple[int, int]], state: GrantState) -> None:
        first = changes.open_lines(self.books, number)
        for line, (part, (node, gpu)) in enumerate(zip(parts, places, strict=True), first):
            changes.take_line(
                self.books, number, line, gpu, node, _thousandths(part), part.gpu_memory_gb, _vector(part)
            )
        changes.enter(self.books, number, int(state))

    def change(self, holder: Hashable, parts: Iterable[Part]) -> None:
        """Let a holder have these parts instead of those it has; raises LedgerError, and changes nothing, if it cannot.

        What it has counts as free for it: it may keep a part of it, or take more on the same GPU.
        """
        self.carry_out([replace(self._granted(holder), parts=tuple(parts))])

    def carry_out(self, grants: Iterable[Grant], *, released: Iterable[Hashable] = ()) -> None:
        """Let each of these hold what its grant says instead of what it has, if anything, and others nothing any more.

        What all of them have counts as free for them together. Raises LedgerError, and changes nothing, if the grants
        do not all fit.
        """
        wanted = tuple(grants)
        leaving = {holder: self._granted(holder) for holder in released}
        before = leaving | {grant.holder: self.grant_of(grant.holder) for grant in wanted}
        had = [grant for grant in before.values() if grant is not None]
        came = tuple(self._holders)
        given: list[Hashable] = []
        for grant in had:
            self.release(grant.holder)
        try:
            for grant in wanted:
                self.grant(grant.holder, grant.parts, state=grant.state, tasks=grant.tasks)
                given.append(grant.holder)
        except LedgerError:
            for holder in given:
                self.release(holder)
            for grant in had:
                self.grant(grant.holder, grant.parts, state=grant.state, tasks=grant.tasks)
            self._holders = {holder: self._holders[holder] for holder in came}
            raise

    def _place(self, part: Part) -> tuple[int, int]:
        """The number of a part's node and of its GPU."""
        node = self._node(part.node)
        if part.gpu is None:
            return node, NO_GPU
        if not 0 <= part.gpu < self.books.node_gpus[node]:
            raise LedgerError(f"node {part.node!r} has no GPU {part.gpu}")
        return node, int(self.books.first_gpu[node] + part.gpu)

    def _refuse_if_not_free(self, holder: Hashable, parts: tuple[Part, ...], places: list[tuple[int, int]]) -> None:
        books = self.books
        named = Counter(gpu for _, gpu in places if gpu != NO_GPU)
        together: dict[int, Floats] = {}
        for part, (node, _) in zip(parts, places, strict=True):
            together[node] = together.get(node, 0.0) + _vector(part)
        for part, (node, gpu) in zip(parts, places, strict=True):
            if named[gpu] > 1:
                raise LedgerError(f"{holder!r} cannot take GPU {part.gpu} of node {part.node!r} twice")
            if not changes.line_fits(books, gpu, node, _thousandths(part), part.gpu_memory_gb):
                raise LedgerError(f"{holder!r} cannot take {_told(part)}: {self._left(node, gpu)}")
            if (together[node] > books.free[node] + SLACK).any():
                raise LedgerError(f"{holder!r} cannot take {_told(part)}: {self._left(node, NO_GPU)}")

    def _left(self, node: int, gpu: int) -> str:
        if not self.books.up[node]:
            return "the node is out of service"
        if gpu != NO_GPU:
            free, memory = self.books.gpu_free[gpu], self.books.gpu_memory_free[gpu]
            return f"{free} thousandths and {memory:g} GB of it are free"
        amounts = zip(RESOURCES, self.books.free[node], strict=True)
        return "free are " + ", ".join(f"{name} {amount:g}" for name, amount in amounts)

    def _number(self, lines: int) -> int:
        """A number for a new holder with so many lines: one that was given back, or a new one."""
        vacant = self._vacant.get(lines)
        if vacant:
            return vacant.pop()
        self.add_numbered(np.array([lines]), np.zeros(1, np.int64), np.zeros((1, DEMANDS)))
        return len(self.books.slot) - 1

    def move_on(self, holder: Hashable, state: GrantState) -> None:
        """Say how far a grant is: reserved, held, then releasing."""
        changes.set_state(self.books, self._held(holder), int(state))

    def release(self, holder: Hashable) -> None:
        """Return all that a named holder has, and forget it."""
        number = self._held(holder)
        changes.give_back(self.books, number)
        self._vacant.setdefault(int(self.books.lines[number]), []).append(number)
        del self._holders[holder], self._tasks[holder]

    def grant_of(self, holder: Hashable) -> Grant | None:
        """What a named holder has, as a value; None when it has nothing."""
        number = self._holders.get(holder)
        if number is None:
            return None
        state = GrantState(int(self.books.state[number]))
        return Grant(holder, self.parts(number), state, self._tasks[holder])

    def grants(self) -> tuple[Grant, ...]:
        """All that named holders have, in the order in which they came."""
        return tuple(grant for grant in map(self.grant_of, self._holders) if grant is not None)

    def parts(self, number: int) -> tuple[Part, ...]:
        """What the holder of this number has."""
        books = self.books
        first = int(books.first_line[number])
        return tuple(self._part(line) for line in range(first, first + int(books.lines[number])))

    def _part(self, line: int) -> Part:
        books, node, gpu = self.books, int(self.books.line_node[line]), int(self.books.line_gpu[line])
        amounts = zip(RESOURCES, books.line_amounts[line].tolist(), strict=True)
        return Part(
            node=self._name(node),
            gpu=None if gpu == NO_GPU else gpu - int(books.first_gpu[node]),
            thousandths=int(books.line_part[line]) if gpu != NO_GPU else WHOLE,
            gpu_memory_gb=float(books.line_memory[line]),
            amounts={name: amount for name, amount in amounts if amount},
        )

    def take(self, holder: int, gpu_ids: Small, amounts: Floats) -> None:
        """Let a numbered holder take its part of each GPU and amounts beside each; LedgerError if they are not free."""
        if not changes.take(self.books, holder, np.asarray(gpu_ids, dtype=np.int32), amounts):
            raise self._why_not(holder, gpu_ids, amounts)

    def _why_not(self, holder: int, gpu_ids: Small, amounts: Floats) -> LedgerError:
        """Find out why a numbered holder could not take something."""
        books, name = self.books, f"holder {holder}"
        if books.slot[holder] >= 0:
            return LedgerError(f"{name!r} cannot take anything: it holds something already")
        if len(gpu_ids) != books.lines[holder]:
            return LedgerError(f"{name!r} cannot take {len(gpu_ids)} GPUs: it needs {books.lines[holder]}")
        places = [(int(books.gpu_node[gpu]), int(gpu)) for gpu in gpu_ids]
        beside = dict(zip(RESOURCES, amounts.tolist(), strict=True))
        part = int(books.part[holder])
        try:
            parts = [
                Part(self._name(node), gpu - int(books.first_gpu[node]), part, 0.0, beside) for node, gpu in places
            ]
            self._refuse_if_not_free(name, tuple(parts), places)
        except LedgerError as error:
            return error
        except InputError as error:
            return LedgerError(f"{name!r} cannot take amounts of that kind: {error}")
        return LedgerError(f"{name!r} cannot take {', '.join(map(_told, parts))}")

    def give_back(self, holder: int) -> None:
        """Return all that a numbered holder has."""
        if not changes.give_back(self.books, holder):
            raise LedgerError(f"holder {holder} holds nothing to give back")

    def close(self, node: int) -> None:
        """Take a node out of service; whoever held something of it must have given it back."""
        books = self.books
        if (books.line_node == node).any():
            raise LedgerError(f"node {self._name(node)!r} cannot leave service while somebody holds a part of it")
        changes.close_node(books, node)

    def open(self, node: int) -> None:
        """Bring a node back into service, empty."""
        if self.books.up[node]:
            raise LedgerError(f"node {self._name(node)!r} is in service already")
        changes.open_node(self.books, node)

    def _name(self, node: int) -> str:
        return next(name for name, number in self._nodes.items() if number == node)

    def _node(self, name: str) -> int:
        if name not in self._nodes:
            raise LedgerError(f"there is no node {name!r}")
        return self._nodes[name]

    def _granted(self, holder: Hashable) -> Grant:
        grant = self.grant_of(holder)
        if grant is None:
            raise LedgerError(f"{holder!r} holds nothing")
        return grant

    def _held(self, holder: Hashable) -> int:
        if holder not in self._holders:
            raise LedgerError(f"{holder!r} holds nothing")
        return self._holders[holder]

    def check(self) -> None:
        """Recompute everything from the lines and raise LedgerError where the books disagree or exceed capacity."""
        books = self.books
        gpu_free = np.where(books.up[books.gpu_node] == 1, WHOLE, 0)
        free = books.capacity * books.up[:, None]
        memory, demanded = self._gpu_memory.copy(), np.zeros_like(books.demanded)
        for holder in self.holders:
            first = books.first_line[holder]
            for line in range(first, first + books.lines[holder]):
                free[books.line_node[line]] -= books.line_amounts[line]
                if books.line_gpu[line] != NO_GPU:
                    gpu_free[books.line_gpu[line]] -= books.line_part[line]
                    memory[books.line_gpu[line]] -= books.line_memory[line]
                    demanded[books.line_node[line]] += books.demand[holder]
        whole = np.bincount(books.gpu_node, weights=gpu_free == WHOLE, minlength=len(books.up)).astype(np.int64)
        if (gpu_free < 0).any() or (free < -SLACK).any() or (books.gpu_memory_free < -SLACK).any():
            raise LedgerError("more is held than there is")
        if not (
            np.array_equal(gpu_free, books.gpu_free)
            and np.array_equal(whole, books.whole_free)
            and np.allclose(free, books.free, atol=SLACK, rtol=0)
            and np.allclose(memory, books.gpu_memory_free, atol=SLACK, rtol=0)
            and np.allclose(demanded, books.demanded, atol=SLACK, rtol=0)
            and books.leaving[0] == (books.state[self.holders] == GrantState.RELEASING).sum()
            and np.array_equal(books.state == changes.NOTHING, books.slot < 0)
        ):
            raise LedgerError("what is free and what is held do not add up")


def _thousandths(part: Part) -> int:
    return 0 if part.gpu is None else part.thousandths


def _vector(part: Part) -> Floats:
    return np.array([float(part.amounts.get(name, 0.0)) for name in RESOURCES])


def _told(part: Part) -> str:
    what = [f"{part.thousandths} thousandths of GPU {part.gpu}"] if part.gpu is not None else []
    what += [f"{part.gpu_memory_gb:g} GB of its memory"] if part.gpu_memory_gb else []
    what += [f"{name} {amount:g}" for name, amount in part.amounts.items()]
    return f"{', '.join(what)} on node {part.node!r}"
