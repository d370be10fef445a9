"""Numbers under emulation: exact where they are known, made up and said to be so where they are not."""

# mypy: allow-untyped-calls

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.emulation.torch.state import state

INTS = st.lists(st.integers(-1000, 1000), min_size=1, max_size=20)


@settings(max_examples=30)
@given(INTS, INTS)
def test_small_integers_are_computed_exactly(first: list[int], second: list[int]) -> None:
    size = min(len(first), len(second))
    a, b = torch.tensor(first[:size]), torch.tensor(second[:size])
    x, y = a.cuda(), b.cuda()
    for mine, real in (
        (x + y * 2 - 3, a + b * 2 - 3),
        (x // (y.abs() + 1), a // (b.abs() + 1)),
        (x.cumsum(0), a.cumsum(0)),
        (x > y, a > b),
        ((x > 0) & (y > 0), (a > 0) & (b > 0)),
        (x.sort().values, a.sort().values),
        (x[y.argsort(stable=True)], a[b.argsort(stable=True)]),
        (torch.where(x > y, x, y), torch.where(a > b, a, b)),
        (torch.stack([x, y]).t().reshape(-1), torch.stack([a, b]).t().reshape(-1)),
        (x.flip(0).roll(1), a.flip(0).roll(1)),
        (x.sum(), a.sum()),
        (x.float() / 7, a.float() / 7),
    ):
        assert mine.cpu().tolist() == real.tolist()
        assert mine.tolist() == real.tolist()


@settings(max_examples=30)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=20))
def test_sizes_that_depend_on_known_values_are_exact(numbers: list[int]) -> None:
    host = torch.tensor(numbers)
    gpu = host.cuda()
    assert gpu.nonzero().tolist() == host.nonzero().tolist()
    assert gpu[gpu > 2].tolist() == host[host > 2].tolist()
    assert gpu.masked_select(gpu == 1).tolist() == host.masked_select(host == 1).tolist()
    for mine, real in zip(
        gpu.unique(return_inverse=True, return_counts=True),
        host.unique(return_inverse=True, return_counts=True),
        strict=True,
    ):
        assert mine.tolist() == real.tolist()
    assert gpu.bincount(minlength=3).tolist() == host.bincount(minlength=3).tolist()
    assert gpu.repeat_interleave(gpu).tolist() == host.repeat_interleave(host).tolist()
    assert [part.tolist() for part in torch.where(gpu > 2)] == [part.tolist() for part in torch.where(host > 2)]


def test_assignments_reach_views_and_what_they_are_views_of() -> None:
    tensor = torch.zeros(3, 4, dtype=torch.int64, device="cuda")
    tensor[1] = 5
    tensor[:, 2] += 1
    tensor[tensor == 6] = 9
    tensor[torch.tensor([0, 2], device="cuda"), torch.tensor([0, 3], device="cuda")] = 7
    assert tensor.tolist() == [[7, 0, 1, 0], [5, 5, 9, 5], [0, 0, 1, 7]]
    tensor.view(-1)[0] = 1
    assert tensor[0, 0].item() == 1
    tensor.fill_(2)
    assert tensor.sum().item() == 24


def test_labels_keep_their_values_through_a_batch() -> None:
    labels = torch.randint(0, 10, (256,))
    on_gpu = labels.cuda(non_blocking=True)
    assert torch.equal(on_gpu.cpu(), labels)
    one_hot = torch.nn.functional.one_hot(on_gpu, 10)
    assert torch.equal(one_hot.argmax(1).cpu(), labels)


def test_factories_make_what_they_say() -> None:
    assert torch.arange(5, device="cuda").tolist() == [0, 1, 2, 3, 4]
    assert torch.arange(1, 2, 0.25, device="cuda").tolist() == [1, 1.25, 1.5, 1.75]
    assert torch.full((2,), 7, device="cuda").tolist() == [7, 7]
    assert torch.eye(2, device="cuda").tolist() == [[1, 0], [0, 1]]
    assert torch.linspace(0, 1, 3, device="cuda").tolist() == [0, 0.5, 1]
    assert torch.tensor([1.5, 2.5], device="cuda").tolist() == [1.5, 2.5]
    assert torch.ones(3, dtype=torch.bool, device="cuda").tolist() == [True] * 3
    assert torch.zeros_like(torch.empty(3, device="cuda")).tolist() == [0.0] * 3
    assert sorted(torch.randperm(50, device="cuda").tolist()) == list(range(50))
    drawn = torch.randint(3, 6, (100,), device="cuda").tolist()
    assert set(drawn) == {3, 4, 5}
    assert torch.tril_indices(2, 2, device="cuda").tolist() == [[0, 1, 1], [0, 0, 1]]


def unknown(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor whose numbers nobody has."""
    return torch.randn(*shape, device="cuda").to(dtype)


def test_what_depends_on_unknown_values_has_the_largest_size_it_can_have() -> None:
    tensor = unknown(6, 7)
    assert tensor.nonzero().shape == (42, 2)
    assert tensor[tensor > 0].shape == (42,)
    assert tensor.masked_select(tensor > 0).shape == (42,)
    assert tensor.unique().shape == (42,)
    assert [index.shape for index in torch.where(tensor > 0)] == [(42,), (42,)]
    assert (tensor > 0).nonzero(as_tuple=True)[0].shape == (42,)


def test_what_is_filled_is_known_whatever_the_tensor_has_whose_shape_it_takes() -> None:
    scores = unknown(3, 2)
    filled = torch.cat([torch.full_like(scores, label, dtype=torch.int64).flatten() for label in (4, 9)])
    assert filled.tolist() == [4] * 6 + [9] * 6
    assert filled.unique().tolist() == [4, 9]
    assert scores.new_full((2,), 2.5).tolist() == [2.5, 2.5]
    assert torch.full_like(scores, fill_value=7).sum().item() == 42
    assert torch.ones_like(scores).tolist() == scores.new_ones(3, 2).tolist() == [[1.0, 1.0]] * 3
    assert torch.zeros_like(scores).sum().item() == scores.new_zeros(5).sum().item() == 0


def test_what_is_picked_from_known_values_has_no_more_kinds_than_these() -> None:
    labels = torch.arange(5, device="cuda").view(1, -1).expand(8, -1).reshape(-1)
    boxes = unknown(40)
    picked = labels[torch.where(boxes > 0)[0]][torch.where(boxes > 1)[0]]
    assert picked.shape == (40,)
    kinds, inverse, counts = picked.unique(return_inverse=True, return_counts=True)
    assert (kinds.shape, inverse.shape, counts.shape) == ((5,), (40,), (5,))
    assert torch.unique_consecutive(picked).shape == (40,), "neighbours may all differ"
    picked += unknown(40, dtype=torch.int64)
    assert picked.unique().shape == (40,), "what it was picked from says nothing any more"


def test_what_is_mixed_with_unknown_values_is_unknown() -> None:
    known = torch.zeros(4, device="cuda")
    known.add_(unknown(4))
    assert "no values" in repr(known)
    known.zero_()
    assert known.tolist() == [0.0] * 4, "and known again once it was overwritten"
    known.add_(unknown(4))
    known.fill_(2.5)
    assert known.tolist() == [2.5] * 4
    known.add_(unknown(4))
    known[:] = 3
    assert known.tolist() == [3.0] * 4
    known.add_(unknown(4))
    known.copy_(torch.arange(4, device="cuda"))
    assert known.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_part_that_is_known_does_not_make_the_whole_known() -> None:
    whole = unknown(10)
    whole[:5].copy_(torch.zeros(5))
    whole[5:].zero_()
    assert "no values" in repr(whole)
    assert len(whole.tolist()) == 10
    drawn = unknown(10, dtype=torch.int64)
    drawn[:5].random_(1, 3)
    assert len(drawn.tolist()) == 10


def test_an_unknown_number_follows_the_loss_curve_and_an_unknown_count_is_zero() -> None:
    number = unknown(3).mean().item()
    assert isinstance(number, float)
    assert 0 < number <= 1
    assert unknown(3).argmax().item() == 0
    assert (unknown(3) > 0).any().item() is False
    assert unknown(3).isfinite().all().item() is True, "all is well"
    state.steps, before = state.steps + 1000, number
    try:
        assert unknown(3).mean().item() < before, "it falls as training goes on"
    finally:
        state.steps -= 1000


def test_made_up_numbers_are_formatted_and_added_up_like_others() -> None:
    total = 0.0
    for _ in range(3):
        total += unknown(2).sum().item() * 2
    assert f"{total:.4f}" == f"{float(total):.4f}"
    assert float(total) == pytest.approx(6 / (1 + state.steps / 100) ** 0.5)
    assert "nan" not in str(round(total, 3))


def test_branching_on_a_made_up_number_is_said_once_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert state.session is not None
    report = state.session.report
    report.branched_at = ""
    for _ in range(2):
        if unknown(2).sum().item() > 100:
            raise AssertionError
        if unknown(2).sum() > 100:
            raise AssertionError
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "test_values.py:" in lines[0]
    assert "made up" in lines[0]
    assert report.branched_at in lines[0]


def test_branching_on_a_known_number_is_not_mentioned(capsys: pytest.CaptureFixture[str]) -> None:
    assert state.session is not None
    state.session.report.branched_at = ""
    if torch.arange(3, device="cuda").sum() != 3 or (torch.ones(2, device="cuda") > 0).sum().item() < 2:
        raise AssertionError
    assert capsys.readouterr().err == ""


def test_equality_is_known_where_the_values_are() -> None:
    a = torch.arange(3, device="cuda")
    assert torch.equal(a, a.clone())
    assert not torch.equal(a, a + 1)
    assert torch.allclose(a.float(), a.float())
    assert a.equal(a)


def test_tensors_show_their_numbers_or_their_shape() -> None:
    assert repr(torch.arange(3, device="cuda:1")) == "tensor([0, 1, 2], device='cuda:1')"
    assert "tensor(<no values>, size=(2, 3)" in repr(unknown(2, 3))


def test_numpy_needs_a_copy_on_the_host_first() -> None:
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        torch.zeros(1, device="cuda").numpy()
    assert torch.arange(3, device="cuda").cpu().numpy().tolist() == [0, 1, 2]


def test_python_s_own_conversions_work() -> None:
    two = torch.tensor(2, device="cuda")
    assert [10, 20, 30][two] == 30
    assert (int(two), float(two), bool(two), len(torch.zeros(4, device="cuda"))) == (2, 2.0, True, 4)
    assert [int(each) for each in torch.arange(3, device="cuda")] == [0, 1, 2]
    assert 1 in torch.arange(3, device="cuda")
