"""Where pods are, by what was chosen for them and what their kubelet says."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gpuyard.kube import names
from gpuyard.kube.objects import GpuPod, GpuRequest
from gpuyard.kube.pod_devices import HeldDevices, PodDevices, corrections, gpus_of, places
from gpuyard.policies.multiplex.interference import Usage

CHOSEN = st.lists(st.tuples(st.sampled_from([4, 7]), st.integers(0, 3)), max_size=8)


def pods_of(chosen: list[tuple[int, int]]) -> list[GpuPod]:
    """Pods that wait, each with the GiB that it asks for and the GPU that was chosen for it."""
    return [
        GpuPod(
            uid=str(number), namespace="lab", name=f"p{number}", request=GpuRequest(gib), usage=Usage("m", 0.5, 0.5),
            containers=(GpuRequest(gib),), node="n1", devices=(gpu,), chosen_at=number,
        )
        for number, (gib, gpu) in enumerate(chosen)
    ]  # fmt: skip


def admitted(pods: list[GpuPod], order: list[int], count: int) -> PodDevices:
    """What a kubelet says after it has admitted some in this order, each on the next GPU chosen for equal ones."""
    said: PodDevices = {}
    for number in order[:count]:
        pod = pods[number]
        alike = [each for each in pods if each.containers == pod.containers]
        taken = len([each for each in alike if each.full_name in said])
        (gpu,) = alike[taken].devices
        said[pod.full_name] = [HeldDevices(names.MEMORY, (f"gpu{gpu}-{number}",))]
    return said


@given(CHOSEN, st.randoms(use_true_random=False), st.integers(0, 8))
def test_all_gpus_that_were_chosen_stay_taken_in_whichever_order_pods_are_admitted(
    chosen: list[tuple[int, int]], random: object, count: int
) -> None:
    pods, order = pods_of(chosen), list(range(len(chosen)))
    random.shuffle(order)  # type: ignore[attr-defined]
    said = admitted(pods, order, count)
    found = places(pods, {pod.uid: gpus_of(said.get(pod.full_name, [])) for pod in pods})
    assert Counter((pod.request, found[pod.uid]) for pod in pods) == Counter((pod.request, pod.devices) for pod in pods)
    for pod in pods:
        if pod.full_name in said:
            assert found[pod.uid] == (int(said[pod.full_name][0].ids[0].partition("-")[0].removeprefix("gpu")),)
    moved = {pod.uid: gpus for pod, gpus in corrections(pods, said)}
    assert moved == {pod.uid: found[pod.uid] for pod in pods if found[pod.uid] != pod.devices}


def test_a_gpu_that_somebody_else_has_got_is_kept_by_whom_it_was_chosen_for_until_that_one_is_admitted() -> None:
    waits, strange = pods_of([(4, 0), (4, 0)])
    strange = GpuPod(**{**vars(strange), "devices": ()})
    assert places([waits, strange], {"1": (0,)}) == {"1": (0,)}
