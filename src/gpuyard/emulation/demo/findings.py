"""What the studies show in short, with what GPEmu and the papers that it repeats have printed.

The printed figures come from GPEmu's repository (mengwanguc/gpemu, `plots/rep`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpuyard.emulation.demo import pinning, sharing, stalls


@dataclass(frozen=True)
class Finding:
    """One figure: measured here, and as it was printed."""

    study: str
    what: str
    here: float
    gpemu: float | None = None
    paper: float | None = None


def findings() -> Iterator[tuple[str, Callable[[], list[Finding]]]]:
    """Yield each study: what it does, and how to have it done."""
    yield "One and six loader processes feed AlexNet and ResNet-50 on a V100", _data_stalls
    yield "Three ResNet-50 jobs arrive on one P100, one after the other", _equal_jobs
    yield "A job that waits for its CPUs and one that waits for its GPU share a V100", _unequal_jobs
    yield "AlexNet on a P100, from pageable and from pinned memory", _copies


def _data_stalls() -> list[Finding]:
    rates = stalls.throughput(("alexnet", "resnet50"), ("1", "6", "6@90"), steps=10)
    light, heavy = rates["alexnet"], rates["resnet50"]
    return [
        Finding("data stalls", "AlexNet, 1 core decodes: images/s", light["1"], 174),
        Finding("data stalls", "AlexNet, 6 cores decode: images/s", light["6"], 940),
        Finding("data stalls", "ResNet-50, 1 core decodes: images/s", heavy["1"], 173),
        Finding("data stalls", "ResNet-50, 6 cores decode: images/s", heavy["6"], 338),
        Finding("data stalls", "AlexNet waits for the disk: % of time", 100 * stalls.stall(light, "6@90"), 26, 41),
        Finding("data stalls", "ResNet-50 waits for the disk: % of time", 100 * stalls.stall(heavy, "6@90"), 1, 6),
    ]


def _equal_jobs() -> list[Finding]:
    printed = (218, 111, 74)
    phases = sharing.rates_as_jobs_arrive(steps=8)
    return [
        Finding("sharing", f"ResNet-50, {len(rates)} on one GPU: images/s of each", sum(rates) / len(rates), gpemu)
        for rates, gpemu in zip(phases, printed, strict=True)
    ]


def _unequal_jobs() -> list[Finding]:
    ratio = sharing.pair(steps=8).makespan_ratio
    return [Finding("sharing", "CPU- and GPU-bound job, one after the other / together", ratio, 1.35, 1.56)]


def _copies() -> list[Finding]:
    return [
        Finding("pinning", f"AlexNet, copies {copies.way}: ms per step", copies.step_ms)
        for copies in pinning.step_times(steps=20)
    ]
