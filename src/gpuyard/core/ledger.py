"""Who holds what. The one place where resources are taken and given back; it refuses what does not fit.

A job holds whole GPUs, or a slice of one, and for each GPU the same amounts of CPU, memory, storage and network
bandwidth from the node that GPU sits in. Slices are counted in thousandths of a GPU.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuyard.core.allocation import Allocation, Placement, Slice
from gpuyard.core.cluster import RESOURCES, Cluster
from gpuyard.core.errors import LedgerError
from gpuyard.core.kernel import Bytes, Floats, Ints, Small, inner, kernel

WHOLE = 1000
"""Thousandths in a GPU."""

SLACK = 1e-6
"""Rounding forgiven in amounts, in each resource's own unit. Amounts in multiples of 1/1024 add up exactly anyway."""


class Books(NamedTuple):
    """The ledger's arrays. Anybody may read them; only functions of this module write them."""

    capacity: Floats  # node x RESOURCES
    free: Floats  # node x RESOURCES
    node_gpus: Ints
    first_gpu: Ints  # first GPU of each node, and one more entry: the number of GPUs
    gpu_node: Ints
    gpu_free: Ints  # thousandths
    whole_free: Ints  # wholly free GPUs of each node
    wished: Floats  # node x 3: what the jobs there would like of CPUs, memory and storage bandwidth
    up: Ints  # 1 while a node is in service
    touched: Bytes  # node -> 1 where somebody came or went since the last call of settle()
    gpus: Ints  # job -> GPUs it holds when it runs
    milli: Ints  # job -> thousandths of each of them
    wish: Floats  # job x 3: what it would like, per GPU
    first_held: Ints  # job -> where its GPUs stand in held_gpus
    held_gpus: Small
    held_by: Ints  # place in held_gpus -> the job it belongs to
    head: Ints  # GPU -> a place in held_gpus that names it, -1 when nobody holds it
    following: Ints  # place in held_gpus -> the next one that names the same GPU
    held: Floats  # job x RESOURCES, per GPU
    slot: Ints  # job -> its place among the holders, -1 when it holds nothing
    holders: Ints
    busy: Ints  # one number: how many holders


@kernel
def held_gpus(books: Books, job: int) -> Small:
    """The GPUs a job holds (or held last)."""
    first = books.first_held[job]
    return books.held_gpus[first : first + books.gpus[job]]


@inner
def fits(books: Books, gpu_ids: Small, milli: int, amounts: Floats) -> bool:
    """Whether these GPUs and, for each, these amounts are free. A GPU must not be named twice."""
    for i in range(len(gpu_ids)):
        gpu = gpu_ids[i]
        node = books.gpu_node[gpu]
        if books.gpu_free[gpu] < milli or books.up[node] == 0:
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


@inner
def take(books: Books, job: int, gpu_ids: Small, amounts: Floats) -> bool:
    """Give a job these GPUs and, for each, these amounts; False, and nothing changed, if they are not free."""
    milli = books.milli[job]
    if books.slot[job] >= 0 or len(gpu_ids) != books.gpus[job] or not fits(books, gpu_ids, milli, amounts):
        return False
    first = books.first_held[job]
    for i in range(len(gpu_ids)):
        gpu = gpu_ids[i]
        node = books.gpu_node[gpu]
        if books.gpu_free[gpu] == WHOLE:
            books.whole_free[node] -= 1
        books.gpu_free[gpu] -= milli
        books.held_gpus[first + i] = gpu
        books.touched[node] = 1
        books.following[first + i] = books.head[gpu]
        books.head[gpu] = first + i
        for r in range(3):
            books.wished[node, r] += books.wish[job, r]
        for r in range(amounts.shape[0]):
            books.free[node, r] -= amounts[r]
    for r in range(amounts.shape[0]):
        books.held[job, r] = amounts[r]
    books.slot[job] = books.busy[0]
    books.holders[books.busy[0]] = job
    books.busy[0] += 1
    return True


@inner
def give_back(books: Books, job: int) -> bool:
    """Return all that a job holds; False if it holds nothing."""
    place = books.slot[job]
    if place < 0:
        return False
    milli = books.milli[job]
    first = books.first_held[job]
    for i in range(first, first + books.gpus[job]):
        gpu = books.held_gpus[i]
        node = books.gpu_node[gpu]
        books.gpu_free[gpu] += milli
        if books.gpu_free[gpu] == WHOLE:
            books.whole_free[node] += 1
        for r in range(books.held.shape[1]):
            books.free[node, r] += books.held[job, r]
        for r in range(3):
            books.wished[node, r] -= books.wish[job, r]
        books.touched[node] = 1
        if books.head[gpu] == i:
            books.head[gpu] = books.following[i]
        else:
            before = books.head[gpu]
            while books.following[before] != i:
                before = books.following[before]
            books.following[before] = books.following[i]
    last = books.holders[books.busy[0] - 1]
    books.holders[place] = last
    books.slot[last] = place
    books.slot[job] = -1
    books.busy[0] -= 1
    return True


@inner
def settle(books: Books) -> None:
    """Note that whatever came and went has been dealt with."""
    for node in range(len(books.touched)):
        books.touched[node] = 0


class Ledger:
    """The books of one cluster for one set of jobs."""

    def __init__(self, cluster: Cluster, gpus: Ints, milli: Ints, wish: Floats | None = None) -> None:
        first_gpu = np.concatenate([[0], np.cumsum(cluster.node_gpus)])
        gpu_node = np.repeat(np.arange(cluster.nodes), cluster.node_gpus)
        jobs = len(gpus)
        self.books = Books(
            capacity=cluster.capacity.copy(),
            free=cluster.capacity.copy(),
            node_gpus=cluster.node_gpus.copy(),
            first_gpu=first_gpu,
            gpu_node=gpu_node,
            gpu_free=np.full(cluster.total_gpus, WHOLE, dtype=np.int64),
            whole_free=cluster.node_gpus.copy(),
            wished=np.zeros((cluster.nodes, 3)),
            up=np.ones(cluster.nodes, dtype=np.int64),
            touched=np.zeros(cluster.nodes, dtype=np.int8),
            gpus=gpus,
            milli=milli,
            wish=np.zeros((jobs, 3)) if wish is None else wish,
            first_held=np.concatenate([[0], np.cumsum(gpus)[:-1]]).astype(np.int64),
            held_gpus=np.zeros(int(gpus.sum()), dtype=np.int32),
            held_by=np.repeat(np.arange(jobs), gpus),
            head=np.full(cluster.total_gpus, -1, dtype=np.int64),
            following=np.full(int(gpus.sum()), -1, dtype=np.int64),
            held=np.zeros((jobs, len(RESOURCES))),
            slot=np.full(jobs, -1, dtype=np.int64),
            holders=np.zeros(jobs, dtype=np.int64),
            busy=np.zeros(1, dtype=np.int64),
        )

    @property
    def holders(self) -> Ints:
        """The jobs that hold something."""
        return self.books.holders[: self.books.busy[0]]

    def take(self, job: int, gpu_ids: Small, amounts: Floats) -> None:
        """Give a job GPUs and amounts per GPU; raises LedgerError, and changes nothing, if they are not free."""
        if not take(self.books, job, np.asarray(gpu_ids, dtype=np.int32), amounts):
            raise LedgerError(f"job {job} cannot take GPUs {list(gpu_ids)} with {amounts.tolist()} per GPU: not free")

    def allocation(self, job: int) -> Allocation | None:
        """What a job holds, as a value; None when it holds nothing."""
        books = self.books
        if books.slot[job] < 0:
            return None
        slices = tuple(Slice(int(gpu), float(books.milli[job]) / WHOLE) for gpu in held_gpus(books, job))
        cpus, memory, storage, _ = (float(amount) * len(slices) for amount in books.held[job])
        return Allocation(Placement(slices), cpus, memory, storage)

    def give_back(self, job: int) -> None:
        """Return all that a job holds."""
        if not give_back(self.books, job):
            raise LedgerError(f"job {job} holds nothing to give back")

    def close(self, node: int) -> None:
        """Take a node out of service; whoever held its GPUs must have given them back."""
        books = self.books
        gpus = slice(books.first_gpu[node], books.first_gpu[node + 1])
        if np.any(books.gpu_free[gpus] != WHOLE):
            raise LedgerError(f"node {node} cannot leave service while jobs hold its GPUs")
        books.up[node], books.whole_free[node] = 0, 0
        books.gpu_free[gpus] = 0
        books.free[node] = 0.0

    def open(self, node: int) -> None:
        """Bring a node back into service, empty."""
        books = self.books
        if books.up[node]:
            raise LedgerError(f"node {node} is in service already")
        books.up[node], books.whole_free[node] = 1, books.node_gpus[node]
        books.gpu_free[books.first_gpu[node] : books.first_gpu[node + 1]] = WHOLE
        books.free[node] = books.capacity[node]

    def check(self) -> None:
        """Recompute everything from the holdings and raise LedgerError where the books disagree or exceed capacity."""
        books = self.books
        gpu_free = np.where(books.up[books.gpu_node] == 1, WHOLE, 0)
        free = books.capacity * books.up[:, None]
        for job in self.holders:
            for gpu in held_gpus(books, job):
                gpu_free[gpu] -= books.milli[job]
                free[books.gpu_node[gpu]] -= books.held[job]
        whole = np.bincount(books.gpu_node, weights=gpu_free == WHOLE, minlength=len(books.up)).astype(np.int64)
        if (gpu_free < 0).any() or (free < -SLACK).any():
            raise LedgerError("more is held than there is")
        if not (
            np.array_equal(gpu_free, books.gpu_free)
            and np.array_equal(whole, books.whole_free)
            and np.allclose(free, books.free, atol=SLACK, rtol=0)
        ):
            raise LedgerError("what is free and what is held do not add up")
