"""Which GPU a pod gets."""

import pytest
from tests.kube.builders import gpus, pod

from gpuyard.kube.books import OpenGpu, books_of
from gpuyard.kube.choosing import choose, interference_harm, score, why_not
from gpuyard.kube.objects import GpuPod, YardNode, read_pod
from gpuyard.policies.multiplex.interference import InterferenceModel, Observation, Usage

LOUD, QUIET = Usage("loud", 0.9, 0.8), Usage("quiet", 0.1, 0.1)
NEW = Usage("new", 0.5, 0.25)
LEARNT = interference_harm(
    InterferenceModel().learn(
        *[Observation((NEW, LOUD), (0, 1), 2.0)] * 5, *[Observation((NEW, QUIET), (0, 1), 0.1)] * 5
    )
)


def asks(memory: int = 0, whole: int = 0) -> GpuPod:
    return read_pod(pod("new", memory=memory, whole=whole))


def opened(*free: int, residents: tuple[tuple[Usage, ...], ...] = ()) -> list[OpenGpu]:
    company = residents or ((),) * len(free)
    return [
        OpenGpu("n1", gpu, left, who) for gpu, left, who in zip(gpus(*[16] * len(free)), free, company, strict=True)
    ]


def test_an_idle_gpu_comes_before_company() -> None:
    assert choose(asks(4), opened(10, 16, residents=((QUIET,), ())), LEARNT) == (1,)


def test_quiet_company_comes_before_loud_company() -> None:
    there = opened(10, 10, residents=((LOUD,), (QUIET,)))
    assert choose(asks(4), there, LEARNT) == (1,)
    assert score(asks(4), there[:1], LEARNT) < score(asks(4), there[1:], LEARNT) < score(asks(4), opened(16), LEARNT)


def test_memory_is_a_hard_limit_however_quiet_the_company() -> None:
    assert choose(asks(8), opened(9, 7, residents=((LOUD,), (QUIET,))), LEARNT) == (0,)
    assert choose(asks(10), opened(9, 7), LEARNT) == ()


def test_of_equal_gpus_the_fuller_one_is_taken_so_that_room_for_large_tasks_is_left() -> None:
    there = opened(12, 6, residents=((QUIET,), (QUIET,)))
    assert choose(asks(5), there, LEARNT) == (1,)


def test_whole_gpus_are_empty_ones() -> None:
    there = opened(16, 10, 16, residents=((), (QUIET,), ()))
    assert choose(asks(whole=2), there, LEARNT) == (0, 2)
    assert why_not(asks(whole=3).request, there) == "2 of 3 GPUs are free, 3 are asked for"


@pytest.mark.parametrize(
    ("asked", "free", "why"),
    [
        (asks(20), (16,), "asks for 20 GiB of one GPU, the largest has 16"),
        (asks(9), (8, 3), "no GPU has 9 GiB free, at most 8"),
        (asks(whole=2), (16,), "has 1 GPUs, 2 are asked for"),
        (asks(4, whole=1), (16,), "asks for whole GPUs and for memory of a shared one"),
        (asks(4), (), "no GPUs of gpuyard"),
    ],
)
def test_a_node_that_cannot_take_a_pod_says_why(asked: GpuPod, free: tuple[int, ...], why: str) -> None:
    assert why_not(asked.request, opened(*free)) == why
    assert choose(asked, opened(*free), LEARNT) == ()
    assert score(asked, opened(*free), LEARNT) == 0


def test_the_same_company_in_another_order_does_the_same_harm() -> None:
    assert LEARNT(NEW, (LOUD, QUIET), "V100") == LEARNT(NEW, (QUIET, LOUD), "V100")


def test_many_tasks_of_an_unknown_kind_are_spread_before_they_share() -> None:
    books = books_of([YardNode("n1", gpus(16, 16, 16))], [])
    harm = interference_harm(InterferenceModel())
    for number in range(6):
        new = read_pod(pod(f"task-{number}", memory=8))
        books.reserve(new, "n1", choose(new, books.open_gpus("n1"), harm), number)
    assert [len(each.residents) for each in books.open_gpus("n1")] == [2, 2, 2]
