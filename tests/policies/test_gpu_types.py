"""A job that names GPU types finds them in whatever spelling job and cluster use."""

import pytest
from tests.builders import job, workload, zoo

from gpuyard.core.cluster import Cluster
from gpuyard.policies.jobs import build_jobs


@pytest.mark.parametrize(
    ("named", "mask"), [("V100", 1), ("tesla-v100", 1), ("a100-40gb|G3", 6), ("", 7), ("V100M16|V100M32", 1)]
)
def test_types_meet_in_any_spelling(named: str, mask: int) -> None:
    cluster = Cluster.parse("1x2:type=v100+1x2:type=A100+1x2:type=G3")
    assert build_jobs(workload(job(0, types=named)), cluster, zoo()).types.tolist() == [mask]
