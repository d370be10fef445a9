"""The simulated server takes and gives back slices through the ledger."""

import numpy as np
import pytest

from gpuyard.core.errors import LedgerError
from gpuyard.core.ledger import Ledger
from gpuyard.core.service import Service
from gpuyard.policies.partition import PartitionPlan, Slice, Turn
from gpuyard.policies.partition.deployment import Deployment, serving_cluster
from gpuyard.simulation.serving.world import SimulatedServer

SERVICES = (Service("faces", "resnet50", 50.0, 108.0), Service("scenes", "vgg16", 50.0, 142.0))


def deployed(*slices: tuple[str, int, int, float]) -> Deployment:
    """Slices by their service, GPU, thousandths and GB of memory."""
    parts = (Slice("node0", gpu, size, memory, (Turn(name, 4, 0.02),), 0.02) for name, gpu, size, memory in slices)
    return Deployment(SERVICES, serving_cluster("2x2080ti"), PartitionPlan(tuple(parts)))


def held(ledger: Ledger) -> dict[object, tuple[int, float, tuple[str, ...]]]:
    places = [("node0", gpu, number) for gpu in range(2) for number in range(2)]
    grants = {place: ledger.grant_of(place) for place in places}
    return {
        place: (grant.parts[0].thousandths, grant.parts[0].gpu_memory_gb, grant.tasks)
        for place, grant in grants.items() if grant is not None
    }  # fmt: skip


def server_of(deployment: Deployment) -> SimulatedServer:
    return SimulatedServer(SERVICES, deployment, np.zeros(0), np.zeros(0, np.int64))


def test_slices_hold_what_they_are_cut_from_and_give_it_back_when_others_take_over() -> None:
    server = server_of(deployed(("faces", 0, 600, 3.0), ("scenes", 0, 400, 4.0)))
    assert held(server.ledger) == {
        ("node0", 0, 0): (600, 3.0, ("faces",)), ("node0", 0, 1): (400, 4.0, ("scenes",)),
    }  # fmt: skip
    server.switch(deployed(("faces", 1, 1000, 3.0)))
    assert held(server.ledger) == {("node0", 1, 0): (1000, 3.0, ("faces",))}


@pytest.mark.parametrize("too_much", [("scenes", 0, 500, 4.0), ("scenes", 0, 400, 9.0)], ids=["compute", "memory"])
def test_what_does_not_fit_on_a_gpu_is_refused_and_changes_nothing(too_much: tuple[str, int, int, float]) -> None:
    server = server_of(deployed(("faces", 0, 600, 3.0)))
    before = held(server.ledger)
    with pytest.raises(LedgerError):
        server.switch(deployed(("faces", 0, 600, 3.0), too_much))
    assert held(server.ledger) == before
    assert len(server.deployment.plan.slices) == 1
