"""Batches whose size changes between steps: each sample of an epoch once, and what is done is known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.client.batch_sampler import SharedBatchSampler
from gpuyard.client.shared_batch import SOCKET, TASK, SharedBatch


def batch(own: int = 4) -> SharedBatch:
    return SharedBatch(own, smallest=1, largest=100, environment={})


@given(
    st.integers(0, 60), st.integers(1, 5), st.booleans(), st.integers(0, 6),
    st.lists(st.integers(1, 20), min_size=1, max_size=8),
)  # fmt: skip
def test_each_sample_of_an_epoch_is_dealt_once_whatever_the_sizes_and_however_far_ahead(
    samples: int, parts: int, drop_last: bool, ahead: int, sizes: list[int]
) -> None:
    """`ahead` batches are fetched before the first one is trained, as workers do."""
    shared = batch()
    sampler = SharedBatchSampler(range(samples), shared, parts=parts, drop_last=drop_last)
    for epoch in (1, 2):
        dealt: list[list[int]] = []
        done: list[int] = []
        for number, part in enumerate(sampler):
            dealt.append(part)
            if number >= ahead:
                done.append(sampler.done())
                shared.size = sizes[len(done) % len(sizes)]
        done += [sampler.done() for _ in dealt[len(done) :]]
        assert done == [len(part) for part in dealt]
        assert all(dealt)
        flat = [each for part in dealt for each in part]
        assert flat == list(range(len(flat)))
        assert samples - len(flat) < (max(*sizes, 4) if drop_last else 1)
        assert (sampler.epochs, sampler.done()) == (epoch, 0)


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("samples", [0, 3, 24, 27, 29])
@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize("environment", [{}, {SOCKET: "/nowhere", TASK: "x"}], ids=["alone", "with a daemon"])
def test_without_wishes_batches_are_those_of_any_loader(
    samples: int, drop_last: bool, parts: int, environment: dict[str, str]
) -> None:
    """Micro-batches too: also of the last step, which may be short."""
    torch_data = pytest.importorskip("torch.utils.data", reason="torch is not installed")
    usual = torch_data.BatchSampler(range(samples), 8 // parts, drop_last)
    shared = SharedBatch(8, environment=environment, beat_s=60)
    sampler = SharedBatchSampler(range(samples), shared, drop_last=drop_last, parts=parts)
    shared.close()
    for _ in range(2):
        assert list(iter(sampler)) == list(usual)
        assert len(sampler) == len(usual)


def test_parts_of_a_step_have_one_size_as_far_as_it_can_be_divided() -> None:
    sampler = SharedBatchSampler(range(20), batch(8), parts=3)
    assert [len(part) for part in sampler] == [3, 3, 2, 3, 3, 2, 2, 1, 1]
    assert len(sampler) == 9
    with pytest.raises(ValueError, match="at least 1"):
        SharedBatchSampler(range(20), batch(8), parts=0)


@given(
    st.integers(0, 60), st.integers(1, 5), st.booleans(), st.integers(0, 20),
    st.lists(st.integers(1, 20), min_size=1, max_size=8),
)  # fmt: skip
def test_whoever_was_told_a_length_gets_as_many_batches_and_passes_go_on_in_the_next_epoch(
    samples: int, parts: int, drop_last: bool, changes_after: int, sizes: list[int]
) -> None:
    shared = batch(8)
    sampler = SharedBatchSampler(range(samples), shared, parts=parts, drop_last=drop_last)
    length, flat, dealt = len(sampler), list[int](), 0
    for _ in range(4):
        before = dealt
        for part in sampler:
            assert part
            flat += part
            dealt += 1
            if dealt > changes_after:
                shared.size = sizes[dealt % len(sizes)]
        assert dealt - before == length or (drop_last and dealt - before < length and samples < 20)
        assert len(sampler) == length
    if not drop_last:
        assert flat == [number % samples for number in range(len(flat))]
