"""The ledger's arrays, and the few functions that change them: interpreted anywhere, compiled inside the simulator.

A holder has *lines*: each takes a part of one GPU, and amounts beside it, from one node. Lines of all holders stand in
one table, those of one holder next to each other. Whoever comes gets the lines that somebody with as many left last:
however many holders are known, only as many lines are in use as are held at once, and these stay in the fast memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from gpuyard.core.arrays import Bytes, Floats, Ints, Small
from gpuyard.core.cluster import RESOURCES
from gpuyard.core.compilable import compilable
from gpuyard.core.grants import WHOLE, GrantState

SLACK = 1e-6
"""Rounding forgiven in amounts, in each resource's own unit. Amounts in multiples of 1/1024 add up exactly anyway."""

NO_GPU, NO_NODE = -1, -1
NOTHING = -1
HELD, RELEASING = int(GrantState.HELD), int(GrantState.RELEASING)


class Books(NamedTuple):
    """Arrays over nodes, GPUs, lines and holders. Anybody may read them; only functions of this module write them."""

    capacity: Floats  # node x RESOURCES
    free: Floats  # node x RESOURCES
    node_gpus: Ints
    first_gpu: Ints  # first GPU of each node, and one more entry: the number of GPUs
    whole_free: Ints  # wholly free GPUs of each node
    up: Ints  # 1 while a node is in service
    touched: Bytes  # node -> 1 where somebody came or went since the last call of settle()
    demanded: Floats  # node x DEMANDS: what the holders there would like

    gpu_node: Ints
    gpu_free: Ints  # thousandths
    gpu_memory_free: Floats  # GB
    head: Ints  # GPU -> a line that names it, -1 when nobody holds it

    line_gpu: Small  # NO_GPU: amounts alone
    line_node: Small  # NO_NODE: nobody has the line
    line_part: Small  # thousandths of the GPU
    line_memory: Floats  # GB of the GPU
    line_amounts: Floats  # line x RESOURCES
    line_holder: Ints
    following: Ints  # line -> the next one that names the same GPU; of spare lines, where the next such begin
    spare: Ints  # number of lines -> where so many begin that somebody had and left, -1: nowhere
    fresh: Ints  # one number: where the lines begin that nobody has had yet

    first_line: Ints  # holder -> where its lines begin, or began last
    lines: Ints  # holder -> how many lines it has, or will have
    part: Ints  # holder -> thousandths of each GPU, for holders whose lines are all alike
    demand: Floats  # holder x DEMANDS, per GPU
    alike: Small  # holder -> one equal to it in lines, part and demand: these are read there, always in the same places
    slot: Ints  # holder -> its place among those who hold something, -1 when it holds nothing
    state: Bytes  # holder -> GrantState, NOTHING when it holds nothing: of all answers to that the smallest
    holders: Ints  # slot -> holder
    busy: Ints  # one number: how many hold something
    leaving: Ints  # one number: how many of them are releasing


DEMANDS = 3
"""Of RESOURCES, the first so many are what profiles speak of: CPUs, memory, storage bandwidth."""


def held_gpus(books: Books, holder: int) -> Small:
    """The GPUs a holder has."""
    first = books.first_line[holder]
    return books.line_gpu[first : first + books.lines[holder]]


@compilable
def line_fits(books: Books, gpu: int, node: int, part: int, memory: float) -> bool:
    """Whether this part of this GPU, or of the node alone, is free."""
    if books.up[node] == 0:
        return False
    if gpu == NO_GPU:
        return True
    return bool(books.gpu_free[gpu] >= part and books.gpu_memory_free[gpu] + SLACK >= memory)


@compilable
def open_lines(books: Books, holder: int) -> int:
    """Find as many lines as a holder needs; returns where they begin."""
    wide = books.lines[books.alike[holder]]
    first = books.spare[wide]
    if first >= 0:
        books.spare[wide] = books.following[first]
    else:
        first = books.fresh[0]
        books.fresh[0] += wide
    books.first_line[holder] = first
    return int(first)


@compilable
def take_line(
    books: Books, holder: int, line: int, gpu: int, node: int, part: int, memory: float, amounts: Floats
) -> None:
    """Write one line of a holder; the caller has made sure that it fits."""
    books.line_gpu[line] = gpu
    books.line_node[line] = node
    books.line_part[line] = part
    books.line_memory[line] = memory
    books.line_holder[line] = holder
    books.touched[node] = 1
    for r in range(amounts.shape[0]):
        books.line_amounts[line, r] = amounts[r]
        books.free[node, r] -= amounts[r]
    if gpu == NO_GPU:
        return
    if books.gpu_free[gpu] == WHOLE and part > 0:
        books.whole_free[node] -= 1
    books.gpu_free[gpu] -= part
    books.gpu_memory_free[gpu] -= memory
    books.following[line] = books.head[gpu]
    books.head[gpu] = line
    alike = books.alike[holder]
    for r in range(books.demand.shape[1]):
        books.demanded[node, r] += books.demand[alike, r]


@compilable
def _return_line(books: Books, holder: int, line: int) -> None:
    gpu = books.line_gpu[line]
    node = books.line_node[line]
    books.line_node[line] = NO_NODE
    books.touched[node] = 1
    for r in range(books.line_amounts.shape[1]):
        books.free[node, r] += books.line_amounts[line, r]
    if gpu == NO_GPU:
        return
    part = books.line_part[line]
    books.gpu_free[gpu] += part
    books.gpu_memory_free[gpu] += books.line_memory[line]
    if books.gpu_free[gpu] == WHOLE and part > 0:
        books.whole_free[node] += 1
    alike = books.alike[holder]
    for r in range(books.demand.shape[1]):
        books.demanded[node, r] -= books.demand[alike, r]
    if books.head[gpu] == line:
        books.head[gpu] = books.following[line]
        return
    before = books.head[gpu]
    while books.following[before] != line:
        before = books.following[before]
    books.following[before] = books.following[line]


@compilable
def enter(books: Books, holder: int, state: int) -> None:
    """Put a holder whose lines are written among those who hold something."""
    books.state[holder] = state
    books.leaving[0] += state == RELEASING
    books.slot[holder] = books.busy[0]
    books.holders[books.busy[0]] = holder
    books.busy[0] += 1


@compilable
def fits(books: Books, gpu_ids: Small, part: int, amounts: Floats) -> bool:
    """Whether this part of these GPUs and, for each, these amounts are free. A GPU must not be named twice."""
    for i in range(len(gpu_ids)):
        gpu = gpu_ids[i]
        node = books.gpu_node[gpu]
        if not line_fits(books, gpu, node, part, 0.0):
            return False
        together = 0
        for k in range(len(gpu_ids)):
            if gpu_ids[k] == gpu and k != i:
                return False
            if books.gpu_node[gpu_ids[k]] == node:
                together += 1
        for r in range(amounts.shape[0]):
            if amounts[r] < 0.0 or amounts[r] * together > books.free[node, r] + SLACK:
                return False
    return True


@compilable
def take(books: Books, holder: int, gpu_ids: Small, amounts: Floats) -> bool:
    """Let somebody hold its part of each GPU and, beside each, these amounts.

    False, and nothing changed, if that is not free, if it holds something already, or if it has other lines.
    """
    alike = books.alike[holder]
    part = books.part[alike]
    if books.slot[holder] >= 0 or len(gpu_ids) != books.lines[alike] or not fits(books, gpu_ids, part, amounts):
        return False
    first = open_lines(books, holder)
    for i in range(len(gpu_ids)):
        take_line(books, holder, first + i, gpu_ids[i], books.gpu_node[gpu_ids[i]], part, 0.0, amounts)
    enter(books, holder, HELD)
    return True


@compilable
def give_back(books: Books, holder: int) -> bool:
    """Return all that somebody holds; False if it holds nothing."""
    place = books.slot[holder]
    if place < 0:
        return False
    first, wide = books.first_line[holder], books.lines[books.alike[holder]]
    for line in range(first, first + wide):
        _return_line(books, holder, line)
    books.following[first] = books.spare[wide]
    books.spare[wide] = first
    books.leaving[0] -= books.state[holder] == RELEASING
    last = books.holders[books.busy[0] - 1]
    books.holders[place] = last
    books.slot[last] = place
    books.slot[holder] = -1
    books.state[holder] = NOTHING
    books.busy[0] -= 1
    return True


@compilable
def settle(books: Books) -> None:
    """Note that whatever came and went has been dealt with."""
    for node in range(len(books.touched)):
        books.touched[node] = 0


def mark_touched(books: Books, nodes: Iterable[int]) -> None:
    """Note that somebody came or went on these nodes, and on no others."""
    settle(books)
    for node in nodes:
        books.touched[node] = 1


def set_state(books: Books, holder: int, state: int) -> None:
    """Move a grant on: reserved, held, releasing."""
    books.leaving[0] += int(state == RELEASING) - int(books.state[holder] == RELEASING)
    books.state[holder] = state


def close_node(books: Books, node: int) -> None:
    """Take a node that nobody holds anything of out of service."""
    gpus = slice(books.first_gpu[node], books.first_gpu[node + 1])
    books.up[node], books.whole_free[node] = 0, 0
    books.gpu_free[gpus] = 0
    books.free[node] = 0.0


def open_node(books: Books, node: int) -> None:
    """Bring a node back into service, empty."""
    books.up[node], books.whole_free[node] = 1, books.node_gpus[node]
    books.gpu_free[books.first_gpu[node] : books.first_gpu[node + 1]] = WHOLE
    books.free[node] = books.capacity[node]


def empty_books() -> Books:
    """Books of no node and no holder."""
    none, whole, small = np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int32)
    kinds = len(RESOURCES)
    return Books(
        capacity=np.zeros((0, kinds)), free=np.zeros((0, kinds)), node_gpus=whole, first_gpu=np.zeros(1, np.int64),
        whole_free=whole, up=whole, touched=np.zeros(0, np.int8), demanded=np.zeros((0, DEMANDS)), gpu_node=whole,
        gpu_free=whole, gpu_memory_free=none, head=whole, line_gpu=small, line_node=small, line_part=small,
        line_memory=none, line_amounts=np.zeros((0, kinds)), line_holder=whole, following=whole, spare=whole,
        fresh=np.zeros(1, np.int64), first_line=whole, lines=whole, part=whole, demand=np.zeros((0, DEMANDS)),
        alike=small, slot=whole, state=np.zeros(0, np.int8), holders=whole, busy=np.zeros(1, np.int64),
        leaving=np.zeros(1, np.int64),
    )  # fmt: skip


def with_nodes(books: Books, gpus: Ints, capacity: Floats, gpu_memory_gb: Floats) -> Books:
    """The same books with further nodes behind the others, empty and in service."""
    count, total = len(gpus), int(gpus.sum())
    nodes, old = len(books.up), len(books.gpu_node)
    return books._replace(
        capacity=np.concatenate([books.capacity, capacity]),
        free=np.concatenate([books.free, capacity]),
        node_gpus=np.concatenate([books.node_gpus, gpus]),
        first_gpu=np.concatenate([books.first_gpu, old + np.cumsum(gpus)]),
        whole_free=np.concatenate([books.whole_free, gpus]),
        up=np.concatenate([books.up, np.ones(count, np.int64)]),
        touched=np.concatenate([books.touched, np.zeros(count, np.int8)]),
        demanded=np.concatenate([books.demanded, np.zeros((count, DEMANDS))]),
        gpu_node=np.concatenate([books.gpu_node, np.repeat(np.arange(nodes, nodes + count), gpus)]),
        gpu_free=np.concatenate([books.gpu_free, np.full(total, WHOLE)]),
        gpu_memory_free=np.concatenate([books.gpu_memory_free, np.repeat(gpu_memory_gb, gpus)]),
        head=np.concatenate([books.head, np.full(total, -1)]),
    )


def with_holders(books: Books, lines: Ints, part: Ints, demand: Floats, alike: Small | None = None) -> Books:
    """The same books with room for further holders behind the others, each with so many lines.

    `alike` has for each the number of a holder, of any that there are then, that is equal to it in all that is given.
    """
    count, total = len(lines), int(lines.sum())
    holders, widest = len(books.slot), int(lines.max(initial=0))
    itself = np.arange(holders, holders + count, dtype=np.int32)
    return books._replace(
        line_gpu=np.concatenate([books.line_gpu, np.zeros(total, np.int32)]),
        line_node=np.concatenate([books.line_node, np.full(total, NO_NODE, np.int32)]),
        line_part=np.concatenate([books.line_part, np.zeros(total, np.int32)]),
        line_memory=np.concatenate([books.line_memory, np.zeros(total)]),
        line_amounts=np.concatenate([books.line_amounts, np.zeros((total, len(RESOURCES)))]),
        line_holder=np.concatenate([books.line_holder, np.zeros(total, np.int64)]),
        following=np.concatenate([books.following, np.full(total, -1)]),
        spare=np.concatenate([books.spare, np.full(max(widest + 1 - len(books.spare), 0), -1)]),
        first_line=np.concatenate([books.first_line, np.zeros(count, np.int64)]),
        lines=np.concatenate([books.lines, lines]),
        part=np.concatenate([books.part, part]),
        demand=np.concatenate([books.demand, demand]),
        alike=np.concatenate([books.alike, itself if alike is None else alike]),
        slot=np.concatenate([books.slot, np.full(count, -1)]),
        state=np.concatenate([books.state, np.full(count, NOTHING, np.int8)]),
        holders=np.concatenate([books.holders, np.zeros(count, np.int64)]),
    )
