"""Comparing workloads."""

from __future__ import annotations

import numpy as np

from gpuyard.core.workload import Workload

NUMBERS = ("arrival_s", "gpus", "iterations", "duration_s", "cpus", "memory_gb", "storage_mbps")


def texts(workload: Workload, name: str) -> list[str]:
    """The jobs' models, tenants or GPU types as text."""
    codes, names = {
        "model": (workload.model, workload.models),
        "tenant": (workload.tenant, workload.tenants),
        "gpu_types": (workload.gpu_type, workload.gpu_types),
    }[name]
    return [names[code] for code in codes]


def assert_same(left: Workload, right: Workload, but: tuple[str, ...] = ()) -> None:
    """Fail unless all fields but these are equal, digit by digit."""
    assert left.job_id.tolist() == right.job_id.tolist()
    assert left.priority.tolist() == right.priority.tolist() or "priority" in but
    for name in ("model", "tenant", "gpu_types"):
        assert name in but or texts(left, name) == texts(right, name), name
    for name in NUMBERS:
        if name not in but:
            np.testing.assert_array_equal(getattr(left, name), getattr(right, name), name)
