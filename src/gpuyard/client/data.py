"""Parts of a loader that reads for real: local files, a disk of a stated rate, a cache that never evicts, workers.

The cache is that of MinIO (CoorDL, VLDB'21): it fills up and then stays as it is, so that every epoch, which asks for
each item once, has the same number of hits.
"""

from __future__ import annotations

import itertools
import os
import queue
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from gpuyard.client.measuring import sampled_steps

T = TypeVar("T")
CPUS, MEMORY_GB = "SYNERGY_CPU_THIS_SERVER", "SYNERGY_MEM_THIS_SERVER"


class ItemSource(Protocol):
    """Items by their number."""

    def __len__(self) -> int: ...

    def read(self, index: int) -> bytes:
        """Return one item."""
        ...


class LocalFiles:
    """The files of a folder, in the order of their names.

    The operating system is told to forget what was read: the cache in front is then the only one, and the disk's rate
    is the disk's.
    """

    def __init__(self, folder: Path) -> None:
        self._paths = sorted(path for path in folder.iterdir() if path.is_file())
        self.total_bytes = sum(path.stat().st_size for path in self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def read(self, index: int) -> bytes:
        """Return the content of one file."""
        with self._paths[index].open("rb", buffering=0) as file:
            content = file.read()
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return content


class RateLimitedDisk:
    """A source that hands out no more than so many bytes a second, however many ask."""

    def __init__(
        self,
        source: ItemSource,
        mbps: float,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not mbps > 0:
            raise ValueError(f"mbps must be above 0, not {mbps!r}")
        self._source, self._bytes_per_s, self._now, self._sleep = source, mbps * 1e6, now, sleep
        self._free_at, self._overslept_s = now(), 0.0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._source)

    def read(self, index: int) -> bytes:
        """Return one item when its turn has come."""
        asked_at = self._now()
        item = self._source.read(index)
        with self._lock:  # what this machine took to wake the last reader up is not the disk's time
            self._free_at = max(self._free_at, asked_at - self._overslept_s) + len(item) / self._bytes_per_s
            self._overslept_s, until = 0.0, self._free_at
        wait = until - self._now()
        if wait > 0:
            self._sleep(wait)
            self._overslept_s = self._now() - until
        return item


class FixedCache:
    """Keeps items while there is room, and never lets one go; it counts what came from where, and how long it took."""

    def __init__(self, source: ItemSource, capacity_bytes: float, now: Callable[[], float] = time.perf_counter) -> None:
        self._source, self._room, self._now = source, capacity_bytes, now
        self._kept: dict[int, bytes] = {}
        self._lock = threading.Lock()
        self.hits = self.misses = 0
        self._traffic = {"disk_bytes": 0.0, "disk_s": 0.0, "memory_bytes": 0.0, "memory_s": 0.0}

    def __len__(self) -> int:
        return len(self._source)

    @property
    def traffic(self) -> dict[str, float]:
        """Bytes and seconds so far, from the disk and from memory."""
        return dict(self._traffic)

    def read(self, index: int) -> bytes:
        """Return one item: a copy of the kept one, or what the source has."""
        began = self._now()
        kept = self._kept.get(index)
        item = self._source.read(index) if kept is None else bytes(bytearray(kept))
        with self._lock:
            self._count("disk" if kept is None else "memory", len(item), self._now() - began)
            self.hits += kept is not None
            self.misses += kept is None
            if kept is None and index not in self._kept and len(item) <= self._room:
                self._room -= len(item)
                self._kept[index] = item
        return item

    def _count(self, where: str, size: int, seconds: float) -> None:
        self._traffic[f"{where}_bytes"] += size
        self._traffic[f"{where}_s"] += seconds


class WorkerLoader(Generic[T]):
    """Batches of prepared items: one thread fetches ahead in a new order each epoch, workers prepare.

    It is a stream: an epoch that is left early goes on where it was. While a profile is made it may go round in a part
    of the data, so that everything is cached soon.
    """

    def __init__(
        self, source: ItemSource, prepare: Callable[[bytes], T], batch: int, workers: int | None = None, ahead: int = 8
    ) -> None:
        if not 1 <= batch <= len(source):
            raise ValueError(f"batch must be from 1 to the {len(source)} items that there are, not {batch!r}")
        self._source, self._prepare, self._batch = source, prepare, batch
        self._workers = workers or max(1, int(allotted_cpus()))
        self._items = sampled_steps(len(self)) * batch
        self._ready: queue.Queue[Future[T]] = queue.Queue(maxsize=ahead * batch)
        self._begun = False

    @property
    def traffic(self) -> dict[str, float]:
        """What the cache counted, and the bytes of one step; empty without a cache."""
        cache = self._source
        if not isinstance(cache, FixedCache) or not (reads := cache.hits + cache.misses):
            return {}
        counted = cache.traffic
        return {**counted, "step_bytes": self._batch * (counted["disk_bytes"] + counted["memory_bytes"]) / reads}

    def __len__(self) -> int:
        return len(self._source) // self._batch

    def __iter__(self) -> Iterator[list[T]]:
        if not self._begun:
            self._begun = True
            threading.Thread(target=self._fetch, name="gpuyard-fetch", daemon=True).start()
        for _ in range(len(self)):
            yield [self._ready.get().result() for _ in range(self._batch)]

    def _fetch(self) -> None:
        """Hand items to the workers for ever; what goes wrong is raised wherever a batch is taken from then on."""
        pool = ThreadPoolExecutor(self._workers, "gpuyard-prepare")
        try:
            for epoch in itertools.count():
                order = list(range(self._items))
                random.Random(epoch).shuffle(order)  # noqa: S311 - an order, not a secret
                for index in order:
                    self._ready.put(pool.submit(self._prepare, self._source.read(index)))
        except BaseException as error:
            failed: Future[Any] = Future()
            failed.set_exception(error)
            while True:
                self._ready.put(failed)


def allotted_cpus() -> float:
    """CPUs that this process was given on its node; those that it may use, where nobody gave it any."""
    stated = os.environ.get(CPUS)
    return float(stated) if stated else float(len(os.sched_getaffinity(0)))


def allotted_memory_bytes(otherwise: float) -> float:
    """Memory that this process was given on its node."""
    stated = os.environ.get(MEMORY_GB)
    return float(stated) * 1e9 if stated else otherwise
