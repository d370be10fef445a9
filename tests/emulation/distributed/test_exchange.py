"""Messages between ranks: in order, complete, for as long as they are needed, and never in vain."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from gpuyard.emulation import exchange as module
from gpuyard.emulation.exchange import PIECE, SLOTS, STRIP, Exchange, LostRankError, Post

PATIENCE_S = 600.0
"""Longer than any machine is busy: what takes so long is a mistake."""


class Memory:
    """A store as torch has them, for ranks that are threads."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: bytes) -> None:
        assert len(value) <= 8 << 20
        with self._changed:
            self.values[key] = value
            self._changed.notify_all()

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: self.check(keys), timeout.total_seconds()):
                raise RuntimeError("too late")

    def get(self, key: str) -> bytes:
        self.wait([key], timedelta(seconds=PATIENCE_S))
        return self.values[key]

    def check(self, keys: list[str]) -> bool:
        return all(key in self.values for key in keys)

    def add(self, key: str, amount: int) -> int:
        self.values[key] = str(int(self.values.get(key, b"0")) + amount).encode()
        return int(self.values[key])

    def delete_key(self, key: str) -> None:
        del self.values[key]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "folder", lambda: tmp_path)
    return tmp_path


@contextmanager
def ranks(count: int = 2, store: Memory | None = None) -> Iterator[list[Exchange]]:
    """Ranks that have met, and are patient."""
    kept = store or Memory()
    with ThreadPoolExecutor(count) as pool:
        met = list(pool.map(lambda rank: Exchange(kept, rank, count, PATIENCE_S), range(count)))
    yield met
    for rank in met:
        rank.close()


def post(ready: float = 0.0, payload: bytes | None = None) -> Post:
    return Post(ready, seconds=2.0, kind=3, nbytes=4, gpu=5, payload=payload)


def test_a_message_arrives_as_it_was_sent() -> None:
    with ranks() as (first, second):
        sent = post(1.5, b"values")
        number = first.post(0, sent)
        assert second.read(0, 0, number, "come") == sent


def test_messages_to_one_rank_are_apart_from_those_to_all() -> None:
    with ranks(3) as (first, second, third):
        assert [first.post(0, post(1.0)), first.post(1, post(2.0)), first.post(0, post(3.0))] == [0, 0, 1]
        assert second.read(0, 1, 0, "come").ready == 2.0
        assert third.read(0, 0, 1, "come").ready == 3.0
        assert not third.has(0, 2, 0)


def test_posting_waits_for_nobody_until_a_ring_ahead() -> None:
    with ranks() as (first, second):
        first.timeout_s = 0.2
        for _ in range(SLOTS):
            first.took(0, first.post(0, post()))
        with pytest.raises(LostRankError, match=r"rank 1 did not follow within 0\.2 s"):
            first.post(0, post())
        second.took(1, 0)
        assert first.post(0, post()) == SLOTS


@pytest.mark.parametrize("size", [1, STRIP, STRIP + 1, 2 * PIECE + 1])
def test_values_of_any_size_arrive(size: int) -> None:
    with ranks() as (first, second):
        for number in range(5):
            payload = bytes([number]) * size
            assert first.post(0, post(payload=payload)) == number
            assert second.read(0, 0, number, "come").payload == payload
            for rank in (first, second):
                rank.took(rank.rank, number)


def test_values_stay_until_all_have_read_them() -> None:
    with ranks(3) as (first, second, third):
        sent = [bytes([number]) * (STRIP // 3) for number in range(10)]
        for number, payload in enumerate(sent):
            first.post(0, post(payload=payload))
            first.took(0, number)
            second.took(1, number)
        assert [third.read(0, 0, number, "come").payload for number in range(10)] == sent


def test_the_store_is_left_as_it_was_found() -> None:
    store = Memory()
    with ranks(store=store) as (first, second):
        found = set(store.values)
        for _ in range(3):
            number = first.post(0, post(payload=bytes(STRIP + 1)))
            second.read(0, 0, number, "come")
            for rank in (first, second):
                rank.took(rank.rank, number)
        first.post(0, post(payload=b"small"))
        assert set(store.values) == found


def test_a_reader_waits_for_what_was_not_posted_yet() -> None:
    with ranks() as (first, second):
        threading.Timer(0.1, lambda: first.post(0, post(7.0))).start()
        assert second.read(0, 0, 0, "come").ready == 7.0


def test_a_rank_that_left_is_missed_at_once() -> None:
    with ranks() as (first, second):
        first.post(0, post(1.0))
        first.close()
        assert second.read(0, 0, 0, "come").ready == 1.0
        with pytest.raises(LostRankError, match="rank 0 ended before it could join all_reduce 1"):
            second.read(0, 0, 1, "join all_reduce 1")


def test_a_rank_that_never_came_is_named() -> None:
    store = Memory()
    with pytest.raises(LostRankError, match=r"rank 1, 2 has not joined the process group within 0\.1 s"):
        Exchange(store, 0, 3, 0.1)


def test_ranks_can_meet_again_over_the_same_store() -> None:
    store = Memory()
    with ranks(store=store) as (first, _):
        first.post(0, post(1.0, bytes(STRIP + 1)))
    with ranks(store=store) as (first, second):
        assert not second.has(0, 0, 0)
        first.post(0, post(2.0, b"new"))
        assert second.read(0, 0, 0, "come").payload == b"new"


def test_no_file_remains(folder: Path) -> None:
    with ranks():
        assert list(folder.iterdir()) == []
