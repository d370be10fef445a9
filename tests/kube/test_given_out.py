"""What a plugin knows of devices between two looks at what its kubelet says."""

from __future__ import annotations

from tests.kube.builders import pod

from gpuyard.kube import names
from gpuyard.kube.objects import GpuPod, read_pod
from gpuyard.kube.plugin.given_out import QUIET_S, GivenOut
from gpuyard.kube.pod_devices import HeldDevices, PodDevices


class Hand:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def waits(name: str, gpu: int, containers: int = 1) -> GpuPod:
    return read_pod(pod(name, containers=[4] * containers, node="n1", devices=str(gpu), chosen_at=gpu + 1))


def said(**devices: str) -> PodDevices:
    return {f"lab/{name}": [HeldDevices(names.MEMORY, (each,))] for name, each in devices.items()}


def test_a_kubelet_is_asked_only_when_it_has_been_quiet_for_a_while() -> None:
    clock = Hand()
    given = GivenOut(clock=clock)
    assert given.look(dict) == {}
    given.heard()
    clock.now += QUIET_S * 0.9
    assert given.look(dict) is None
    clock.now += QUIET_S * 0.2
    assert given.look(dict) == {}


def test_what_was_given_since_is_held_and_served_until_the_kubelet_says_whose_it_is() -> None:
    clock, pods = Hand(), [waits("a", 0), waits("b", 1)]
    given = GivenOut(clock=clock)
    given.give(pods[0], ["gpu0-0"])  # taken for the first one, though it was the second one
    here = given.here(pods)
    assert (here.guessed, list(here.held), [each.devices for each in here.pods]) == (
        {pods[0].uid: 1}, ["gpu0-0"], [(0,), (1,)],
    )  # fmt: skip
    clock.now += 1
    given.look(lambda: said(b="gpu0-0"))
    here = given.here(pods)
    assert (here.served, list(here.held), [each.devices for each in here.pods]) == (
        {pods[1].uid: 1}, ["gpu0-0"], [(1,), (0,)],
    )  # fmt: skip


def test_what_is_given_while_the_kubelet_answers_is_not_forgotten() -> None:
    clock, pods = Hand(), [waits("a", 0)]
    given = GivenOut(clock=clock)

    def answers() -> PodDevices:
        given.give(pods[0], ["gpu0-0"])
        return {}

    given.look(answers)
    assert given.here(pods).guessed == {pods[0].uid: 1}


def test_an_answer_that_does_not_come_changes_nothing() -> None:
    clock, pods = Hand(), [waits("a", 0)]
    given = GivenOut(clock=clock)
    given.give(pods[0], ["gpu0-0"])
    clock.now += 1
    assert given.look(lambda: None) is None
    assert given.here(pods).guessed == {pods[0].uid: 1}


def test_who_has_ended_holds_nothing_and_where_nobody_knows_the_pods_everybody_does() -> None:
    given = GivenOut(clock=Hand())
    given.look(lambda: said(a="gpu0-0", b="gpu1-0"))
    assert list(given.here([waits("b", 1)]).held) == ["gpu1-0"]
    assert list(given.here(None).held) == ["gpu0-0", "gpu1-0"]


def test_a_pod_stays_with_the_gpu_that_its_first_container_got() -> None:
    pods = [waits("a", 0, containers=2), waits("b", 1, containers=2)]
    given = GivenOut(clock=Hand())
    given.give(pods[0], ["gpu0-0"])
    here = given.here(pods)
    assert (here.guessed, here.pods[0].devices) == ({pods[0].uid: 1}, (0,))
