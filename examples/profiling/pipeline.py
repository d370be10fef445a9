"""What the three examples share: files made on first use, a limited disk, a cache that never evicts, workers."""

import hashlib
import tempfile
import threading
import time
import zlib
from pathlib import Path

from gpuyard.client import FixedCache, LocalFiles, RateLimitedDisk, WorkerLoader, allotted_memory_bytes, steps

ITEMS, ITEM_BYTES, BATCH = 192, 16384, 8


def dataset() -> Path:
    """Make small compressed files, once."""
    folder = Path(tempfile.gettempdir()) / f"gpuyard-profiling-{ITEMS}x{ITEM_BYTES}"
    if not folder.is_dir():
        part = Path(tempfile.mkdtemp(prefix="gpuyard-data-"))
        for index in range(ITEMS):
            noise = b"".join(hashlib.sha256(b"%d %d" % (index, k)).digest() for k in range(ITEM_BYTES // 32))
            (part / f"{index:04}.z").write_bytes(zlib.compress(noise, 1))
        try:
            part.rename(folder)
        except OSError:
            assert folder.is_dir(), "another process made it meanwhile"
    return folder


class Held(threading.local):
    """A CPU or a GPU that is held for a stated time; by how much it was let go late is taken off the next time."""

    late_s = 0.0

    def hold(self, seconds: float, since: float) -> None:
        """Sleep for what is left of the time."""
        until = since + seconds - self.late_s
        time.sleep(max(0.0, until - time.perf_counter()))
        self.late_s = min(max(0.0, time.perf_counter() - until), seconds)


def train(prepare_ms: float, gpu_ms: float, disk_mbps: float) -> None:
    """Train: every item is read, unpacked and hashed, and holds its CPU for its time; every step holds the GPU."""
    cpu, gpu = Held(), Held()

    def prepare(item: bytes) -> bytes:
        began = time.perf_counter()
        digest = hashlib.sha256(zlib.decompress(item)).digest()
        cpu.hold(prepare_ms / 1e3, began)
        return digest

    files = LocalFiles(dataset())
    cache = FixedCache(RateLimitedDisk(files, disk_mbps), allotted_memory_bytes(files.total_bytes))
    batches = steps(WorkerLoader(cache, prepare, BATCH))
    for _ in range(50):
        for _ in batches:
            gpu.hold(gpu_ms / 1e3, time.perf_counter())
