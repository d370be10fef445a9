"""Which GPU a pod gets."""

from pathlib import Path

import pytest
from tests.kube.builders import gpus, pod

from gpuyard.core.errors import InputError
from gpuyard.core.units import GB_OF_GIB
from gpuyard.kube.books import OpenGpu, PodOnGpu, books_of
from gpuyard.kube.choosing import choose, scores, why_no_place, why_not
from gpuyard.kube.judging import PodJudge, sharing_rule
from gpuyard.kube.objects import GpuPod, GpuRequest, YardNode, read_pod
from gpuyard.policies.multiplex.interference import InterferenceModel, Observation, Usage
from gpuyard.policies.multiplex.placing import place_in_order
from gpuyard.policies.multiplex.shared_gpus import GpuFact, SharedGpus, TaskFact
from gpuyard.policies.registry import MULTIPLEXERS

LOUD, QUIET = Usage("loud", 0.9, 0.8), Usage("quiet", 0.1, 0.1)
NEW = Usage("new", 0.5, 0.25)
KNOWN = InterferenceModel().learn(
    *[Observation((NEW, LOUD), (0, 1), 1.5)] * 5, *[Observation((NEW, QUIET), (0, 1), 0.1)] * 5
)
LEARNT = PodJudge(sharing_rule("interference"), KNOWN)


def asks(memory: int = 0, whole: int = 0) -> GpuPod:
    return read_pod(pod("new", memory=memory, whole=whole))


def opened(*free: int, residents: tuple[tuple[Usage, ...], ...] = ()) -> list[OpenGpu]:
    company = residents or ((),) * len(free)
    here = [
        tuple(PodOnGpu(one, (16 - left) // len(who)) for one in who) for left, who in zip(free, company, strict=True)
    ]
    return [OpenGpu("n1", *each) for each in zip(gpus(*[16] * len(free)), free, here, strict=True)]


def test_an_idle_gpu_comes_before_company() -> None:
    assert choose(opened(10, 16, residents=((QUIET,), ())), LEARNT.places(asks(4))) == (1,)


def test_quiet_company_comes_before_loud_company() -> None:
    there = opened(10, 10, residents=((LOUD,), (QUIET,)))
    assert choose(there, LEARNT.places(asks(4))) == (1,)
    loud, quiet, idle = scores([there[:1], there[1:], opened(16)], LEARNT.places(asks(4)))
    assert 0 < loud < quiet < idle == 10


def test_memory_is_a_hard_limit_however_quiet_the_company() -> None:
    assert choose(opened(9, 7, residents=((LOUD,), (QUIET,))), LEARNT.places(asks(8))) == (0,)
    assert choose(opened(9, 7), LEARNT.places(asks(10))) == ()


def test_of_equal_gpus_the_fuller_one_is_taken_so_that_room_for_large_tasks_is_left() -> None:
    there = opened(12, 6, residents=((QUIET,), (QUIET,)))
    assert choose(there, LEARNT.places(asks(5))) == (1,)


def test_whole_gpus_are_empty_ones() -> None:
    there = opened(16, 10, 16, residents=((), (QUIET,), ()))
    assert choose(there, LEARNT.places(asks(whole=2))) == (0, 2)
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
    assert choose(opened(*free), LEARNT.places(asked)) == ()
    assert scores([opened(*free)], LEARNT.places(asked)) == [0]
    assert why_no_place(opened(*free), LEARNT.places(asked)) == why


def test_many_tasks_of_an_unknown_kind_are_spread_before_they_share() -> None:
    books = books_of([YardNode("n1", gpus(16, 16, 16))], [])
    judge = PodJudge(sharing_rule("interference"), InterferenceModel())
    for number in range(6):
        new = read_pod(pod(f"task-{number}", memory=8))
        books.reserve(new, "n1", choose(books.open_gpus("n1"), judge.places(new)), number)
    assert [len(each.residents) for each in books.open_gpus("n1")] == [2, 2, 2]


OWN = f"{Path(__file__).parents[2]}/examples/yard_policies.py:SameModel"
COMPANIES = (((QUIET, 2),), ((LOUD, 12),), ((QUIET, 6), (LOUD, 2)), ())
"""Those on each GPU of node n1, with their memory, and then of n2 the same from the last to the first and one more."""


@pytest.mark.parametrize("name", [*(name for name in MULTIPLEXERS.names if name != "pairwise"), OWN])
@pytest.mark.parametrize("memory", [4, 12])
@pytest.mark.parametrize("there", [COMPANIES, COMPANIES[:3]], ids=["one idle", "all busy"])
def test_a_pod_gets_the_gpu_that_a_task_gets_in_a_simulation(
    name: str, memory: int, there: tuple[tuple[tuple[Usage, int], ...], ...]
) -> None:
    rule, new = sharing_rule(name), read_pod(pod("new", memory=memory))
    nodes = {"n1": there, "n2": (*there[::-1], ((LOUD, 10),))}
    tasks, pods = [], []
    for node, number, usage, gib in (
        (node, number, usage, gib)
        for node, companies in nodes.items() for number, who in enumerate(companies) for usage, gib in who
    ):  # fmt: skip
        label = f"{node}-{number}-{usage.model}"
        tasks.append(TaskFact(label, usage, gib * GB_OF_GIB, (node, number)))
        pods.append(GpuPod(label, "lab", label, GpuRequest(gib), usage, node=node, devices=(number,)))
    facts = tuple(GpuFact(node, n, "V100", 16 * GB_OF_GIB) for node in nodes for n in range(len(nodes[node])))
    task = TaskFact(new.full_name, new.usage, memory * GB_OF_GIB)
    simulated = place_in_order(rule, SharedGpus(facts, (*tasks, task), KNOWN)).places.get(task.name)

    books = books_of([YardNode(node, gpus(*[16] * len(nodes[node]))) for node in nodes], pods)
    places, opened = PodJudge(rule, KNOWN).places(new), [books.open_gpus(node) for node in nodes]
    found = scores(opened, places)
    if simulated is None:
        assert found == [0, 0]
        assert all(why_no_place(each, places) for each in opened)
    else:
        best = opened[found.index(10)]
        assert best[0].node == simulated.node
        assert why_no_place(best, places) is None
        assert choose(best, places) == (simulated.gpu,)


def test_a_gpu_that_the_policy_refuses_is_no_place_and_the_node_says_why() -> None:
    judge, there = PodJudge(sharing_rule("exclusive"), KNOWN), opened(12, residents=((QUIET,),))
    assert why_no_place(there, judge.places(asks(4))) == "its memory would fit, but GPUs are not shared"
    assert choose(there, judge.places(asks(4))) == ()
    assert scores([there, opened(16)], judge.places(asks(4))) == [0, 10]


def test_a_policy_that_weighs_all_tasks_together_is_refused() -> None:
    with pytest.raises(InputError, match="a scheduler asks about one pod at a time"):
        sharing_rule("pairwise")
