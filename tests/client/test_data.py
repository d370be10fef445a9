"""Parts of a loader: a disk of a stated rate, a cache that never evicts, workers."""

from pathlib import Path

import pytest

from gpuyard.client.data import FixedCache, LocalFiles, RateLimitedDisk, WorkerLoader


class Clock:
    """Time that passes by sleeping only."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    for index in range(12):
        (tmp_path / f"{index:02}").write_bytes(bytes([index]) * 1000)
    return LocalFiles(tmp_path)


def test_a_disk_gives_no_more_than_its_rate(files: LocalFiles) -> None:
    clock = Clock()
    disk = RateLimitedDisk(files, 0.01, clock.now, clock.sleep)
    assert [disk.read(index)[0] for index in range(5)] == [0, 1, 2, 3, 4]
    assert clock.time == pytest.approx(0.5)
    clock.time += 10  # what it could have given while nobody asked is not saved up
    disk.read(5)
    assert clock.time == pytest.approx(10.6)


@pytest.mark.parametrize(("room", "hits"), [(0, 0), (4500, 4), (12000, 12)])
def test_a_cache_fills_up_and_has_the_same_hits_each_epoch(files: LocalFiles, room: int, hits: int) -> None:
    cache = FixedCache(files, room)
    for epoch in range(4):
        before = cache.hits
        order = range(12) if epoch % 2 else range(11, -1, -1)
        assert [cache.read(index)[0] for index in order] == list(order)
        assert cache.hits - before == (hits if epoch else 0)
    assert cache.traffic["disk_bytes"] == 1000 * cache.misses
    assert cache.traffic["memory_bytes"] == 1000 * cache.hits


def test_each_epoch_has_every_item_once_in_another_order(files: LocalFiles) -> None:
    loader = WorkerLoader(files, lambda item: item[0], batch=4, workers=3)
    epochs = [[item for batch in loader for item in batch] for _ in range(2)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(12))] * 2
    assert epochs[0] != epochs[1]


def test_what_a_worker_raises_is_raised_where_the_batch_is_taken(files: LocalFiles) -> None:
    with pytest.raises(ZeroDivisionError):
        list(WorkerLoader(files, lambda _: 1 // 0, batch=4, workers=2))


def test_what_it_takes_to_wake_a_reader_up_is_not_the_disks_time(files: LocalFiles) -> None:
    class Late(Clock):
        def sleep(self, seconds: float) -> None:
            self.time += seconds + 0.01

    clock = Late()
    disk = RateLimitedDisk(files, 0.01, clock.now, clock.sleep)
    for index in range(10):
        disk.read(index)
    assert clock.time == pytest.approx(10 * 0.1 + 0.01)  # late once, for the last one


def test_a_loader_that_failed_fails_whenever_it_is_asked(files: LocalFiles) -> None:
    class Broken:
        def __len__(self) -> int:
            return len(files)

        def read(self, index: int) -> bytes:
            raise OSError("the disk is gone")

    loader = WorkerLoader(Broken(), bytes, batch=4, workers=1)
    for _ in range(3):
        with pytest.raises(OSError, match="the disk is gone"):
            next(iter(loader))


@pytest.mark.parametrize("batch", [0, 13])
def test_a_batch_that_no_epoch_has_is_refused(files: LocalFiles, batch: int) -> None:
    with pytest.raises(ValueError, match="from 1 to the 12 items that there are"):
        WorkerLoader(files, bytes, batch=batch)


@pytest.mark.parametrize("mbps", [0, -1, float("nan")])
def test_a_disk_without_a_rate_is_refused(files: LocalFiles, mbps: float) -> None:
    with pytest.raises(ValueError, match="mbps must be above 0"):
        RateLimitedDisk(files, mbps)


def test_time_that_a_reader_overslept_is_given_back_once(files: LocalFiles) -> None:
    clock = Clock()

    def sleep_late(seconds: float) -> None:
        clock.time += seconds + (0.25 if clock.time == 0.0 else 0.0)

    disk = RateLimitedDisk(files, 0.01, clock.now, sleep_late)
    disk.read(0)
    assert clock.time == pytest.approx(0.35)
    clock.time = 10.0
    disk.read(1)  # began while the first reader slept on
    assert clock.time == 10.0
    clock.time = 20.0
    disk.read(2)
    assert clock.time == pytest.approx(20.1)
