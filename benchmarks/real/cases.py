"""The runs: which trace, cluster and policy, and how fast the clock goes, so that each ends within ten minutes."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.paper.cases import SHARED

STATIC, DYNAMIC = "static", "dynamic"
GPEMU_40, GPEMU_20 = "gpemu40", "gpemu20"
TITLES = {
    STATIC: "testbed, 100 jobs at once, 32 GPUs",
    DYNAMIC: "testbed, 100 jobs as they arrived, 32 GPUs",
    GPEMU_40: "GPEmu, 40 jobs at once, 32 GPUs",
    GPEMU_20: "GPEmu, 20 jobs at once, 8 GPUs",
}
ALLOCATIONS = ("proportional", "tune")
_NODE = "cpus=24,memory=500GB,type=V100"
_TRACES = {
    STATIC: {"workload": str(SHARED / "synergy" / "deploy_static_100jobs.csv"), "cluster": f"4x8:{_NODE}"},
    DYNAMIC: {"workload": str(SHARED / "synergy" / "deploy_dynamic_100jobs.csv"), "cluster": f"4x8:{_NODE}"},
    GPEMU_40: {"jobs": "40", "split": "100,0,0", "cluster": f"4x8:{_NODE}"},
    GPEMU_20: {"jobs": "20", "split": "100,0,0", "cluster": f"1x8:{_NODE}"},
}
_FLAGS = {STATIC: ("static",), DYNAMIC: (), GPEMU_40: ("static", "small"), GPEMU_20: ("static", "small")}
_SPEEDS = {
    (STATIC, "fifo"): 150, (DYNAMIC, "srtf"): 150, (GPEMU_40, "las"): 75, (GPEMU_40, "srtf"): 120,
    (GPEMU_20, "las"): 90, (GPEMU_20, "srtf"): 150,
}  # fmt: skip
"""Where jobs are stopped often, a second must not be so much of a round that starts take longer than that."""


@dataclass(frozen=True)
class RealCase:
    """One run in both worlds."""

    trace: str
    order: str
    allocate: str
    speed: int

    @property
    def policy(self) -> str:
        return f"{self.order}+{self.allocate}"

    @property
    def name(self) -> str:
        return f"{self.trace}-{self.policy}"

    def options(self) -> dict[str, str | bool]:
        """What both worlds take."""
        return _TRACES[self.trace] | {"policy": self.policy} | dict.fromkeys(_FLAGS[self.trace], True)

    def words(self) -> list[str]:
        """The same for a command line."""
        named = [(f"--{name}", value) for name, value in self.options().items()]
        return [word for name, value in named for word in ((name,) if value is True else (name, str(value)))]


CASES = [
    RealCase(trace, order, allocate, speed) for (trace, order), speed in _SPEEDS.items() for allocate in ALLOCATIONS
]
