"""Memory of one GPU as one process holds it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.emulation.hand_clock import gpu_by_hand

from gpuyard.emulation.memory import LARGE_SEGMENT, ROUNDING, SMALL_SEGMENT, Memory, MemoryFullError

MIB = 1 << 20
ROOM = 200 * MIB


class Host:
    """The GPU's memory, which others may use too."""

    def __init__(self, free: int = ROOM) -> None:
        self.free = free
        self.memory = Memory(self._reserve, self._release)

    def _reserve(self, nbytes: int) -> bool:
        if nbytes > self.free:
            return False
        self.free -= nbytes
        return True

    def _release(self, nbytes: int) -> None:
        self.free += nbytes


def figures(memory: Memory) -> tuple[int, ...]:
    return (
        memory.allocated,
        memory.peak,
        memory.reserved,
        memory.reserved_peak,
        memory.allocations,
        memory.frees,
    )


SIZES = st.one_of(st.integers(0, 4096), st.integers(0, 3 * MIB), st.integers(0, 60 * MIB))
STEPS = st.lists(st.one_of(SIZES, st.sampled_from(["free", "trim", "reset"])), max_size=80)


@given(STEPS, st.one_of(st.none(), st.integers(0, ROOM)))
def test_what_always_holds(steps: list[int | str], limit: int | None) -> None:
    host = Host()
    memory, blocks = host.memory, list[int]()
    memory.limit = limit
    for step in steps:
        before = figures(memory)
        if step == "free" and blocks:
            memory.give_back(blocks.pop(len(blocks) // 2))
        elif step == "trim":
            memory.trim()
        elif step == "reset":
            memory.reset_peak()
        elif isinstance(step, int):
            try:
                blocks.append(memory.take(step))
            except MemoryFullError:
                assert figures(memory) == before, "a refusal changes nothing"
        assert memory.allocated == sum(blocks)
        assert memory.allocated <= memory.reserved == ROOM - host.free
        assert memory.allocated <= memory.peak <= memory.reserved_peak
        assert memory.reserved <= memory.reserved_peak
        assert memory.allocations - memory.frees == sum(map(bool, blocks)), "no bytes are no block"
        assert limit is None or memory.reserved <= limit


@given(SIZES)
def test_a_block_is_a_whole_number_of_512_bytes_and_less_than_one_more(nbytes: int) -> None:
    size = Host().memory.take(nbytes)
    assert size % ROUNDING == 0
    assert 0 <= size - nbytes < ROUNDING


@pytest.mark.parametrize(
    ("nbytes", "reserved"),
    [
        (1, SMALL_SEGMENT),
        (1 * MIB, SMALL_SEGMENT),
        (1 * MIB + 1, LARGE_SEGMENT),
        (9 * MIB, LARGE_SEGMENT),
        (10 * MIB, 10 * MIB),
        (11 * MIB, 12 * MIB),
        (25 * MIB + 1, 26 * MIB),
    ],
)
def test_segments_are_those_of_cuda_s_allocator(nbytes: int, reserved: int) -> None:
    memory = Host().memory
    memory.take(nbytes)
    assert memory.reserved == reserved


def test_what_was_freed_stays_reserved_and_is_used_again() -> None:
    memory = Host().memory
    size = memory.take(30 * MIB)
    memory.give_back(size)
    assert (memory.allocated, memory.reserved) == (0, 30 * MIB)
    memory.take(30 * MIB)
    assert (memory.allocated, memory.reserved, memory.peak) == (30 * MIB, 30 * MIB, 30 * MIB)


def test_trimming_returns_what_is_unused_and_nothing_else() -> None:
    host = Host()
    kept, freed = host.memory.take(5 * MIB), host.memory.take(40 * MIB)
    host.memory.give_back(freed)
    host.memory.trim()
    assert (host.memory.allocated, host.memory.reserved) == (kept, 6 * MIB)
    assert host.free == ROOM - 6 * MIB
    host.memory.give_back(kept)
    host.memory.trim()
    assert host.free == ROOM


def test_the_last_byte_of_a_gpu_can_be_had() -> None:
    host = Host(free=7 * MIB)
    host.memory.take(5 * MIB)
    host.memory.take(2 * MIB)
    assert host.free == 0
    with pytest.raises(MemoryFullError, match="no room for 512 more bytes"):
        host.memory.take(1)


def test_peaks_are_measured_from_the_last_reset() -> None:
    memory = Host().memory
    memory.give_back(memory.take(50 * MIB))
    memory.trim()
    memory.reset_peak()
    assert (memory.peak, memory.reserved_peak) == (0, 0)
    memory.take(3 * MIB)
    assert memory.peak == 3 * MIB


def test_a_process_may_limit_itself() -> None:
    memory = Host().memory
    memory.limit = 10 * MIB
    memory.take(8 * MIB)
    with pytest.raises(MemoryFullError):
        memory.take(4 * MIB)
    memory.take(2 * MIB)


def test_free_memory_is_what_the_seat_has_left() -> None:
    gpu, _ = gpu_by_hand(memory_bytes=64 * MIB)
    gpu.memory.take(20 * MIB)
    assert gpu.free_memory() == 44 * MIB
