"""Judgements follow what is known by now, and never mix two states of it."""

from __future__ import annotations

from tests.kube.builders import gpus

from gpuyard.kube.books import OpenGpu, PodOnGpu
from gpuyard.kube.judging import PodJudge, sharing_rule
from gpuyard.kube.objects import GpuPod, GpuRequest
from gpuyard.policies.multiplex.interference import InterferenceModel, Observation, Usage

LOUD, NEW = Usage("loud", 0.9, 0.6), Usage("new", 0.5, 0.3)
POD = GpuPod("u", "lab", "a", GpuRequest(2), NEW)
HARMLESS, HARMFUL = (
    InterferenceModel((Observation((NEW, LOUD), (0, 1), value),) * 20) for value in (0.1, 0.7)
)  # fmt: skip


def beside_the_loud_one() -> OpenGpu:
    (gpu,) = gpus(16)
    return OpenGpu("n1", gpu, 8, (PodOnGpu(LOUD, 8),))


def test_what_was_learnt_counts_from_the_next_pod_on_and_not_in_the_middle_of_one() -> None:
    judge, there, rule = PodJudge(sharing_rule("interference"), HARMLESS), beside_the_loud_one(), "interference"
    before, again = judge.places(POD), judge.places(POD)
    low = before.score(there)
    judge.learn(HARMFUL)
    assert judge.known is HARMFUL
    assert before.score(there) == again.score(there) == low  # who is being judged is so to the end
    high = judge.places(POD).score(there)
    assert high == PodJudge(sharing_rule(rule), HARMFUL).places(POD).score(there)
    assert low is not None
    assert high is not None
    assert high > low + 0.3


class Counting(InterferenceModel):
    """A model that notes what it is asked."""

    asked = 0

    def slowdowns(self, mix, gpu=""):  # type: ignore[no-untyped-def]
        Counting.asked += 1
        return super().slowdowns(mix, gpu)


def test_what_was_asked_before_is_worked_out_before_the_next_call() -> None:
    judge, there = PodJudge(sharing_rule("interference"), HARMLESS), beside_the_loud_one()
    judge.places(POD).score(there)
    judge.learn(Counting(HARMFUL.observations))
    assert Counting.asked == 1
    judge.places(POD).score(there)
    assert Counting.asked == 1
