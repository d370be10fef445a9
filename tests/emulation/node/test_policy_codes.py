"""The sharing policy of a node is found by all who attach."""

import pytest
from tests.emulation.node.conftest import OpenNode

from gpuyard.policies.timeshare import time_sharing


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
