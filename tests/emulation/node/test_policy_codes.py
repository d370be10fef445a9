"""The sharing policy as numbers in the segment, which programs built earlier still read."""

import pytest
from tests.emulation.node.conftest import OpenNode

from gpuyard.emulation.node.policy_codes import CODES
from gpuyard.policies.timeshare import TIME_SHARINGS, time_sharing


def test_every_policy_keeps_its_number() -> None:
    names = {code: policy.name for code, policy in CODES.items()}
    assert names == {0: "time-slice", 1: "fifo", 2: "priority", 3: "spatial", 4: "partition", 5: "exclusive"}
    assert set(CODES.values()) == set(TIME_SHARINGS.values())


@pytest.mark.parametrize(
    "written",
    [
        "time-slice:quantum=5ms,switch=3us",
        "priority:quantum=7ms,switch=0s",
        "spatial:capacity=1.5,interference=0.75",
        "fifo",
        "partition",
        "exclusive",
    ],
)
def test_whoever_attaches_finds_the_policy_with_its_options(open_node: OpenNode, written: str) -> None:
    open_node(written)
    assert open_node(written).sharing == time_sharing(written)
