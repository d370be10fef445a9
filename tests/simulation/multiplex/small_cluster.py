"""Two models that are easy to count with, and short runs of them."""

from pathlib import Path

from gpuyard import Job, Options, Workload, simulate
from gpuyard.results import Run

PROFILES = """
source: made up
grid: {cpus: [1, 3], memory_gb: [20, 62.5]}
models:
  big:
    batch: 64
    iteration_s: 0.1
    throughput: [[1.0, 1.0], [1.0, 1.0]]
    memory_mib: {32: 4000, 64: 6000, 128: 10000}
    sharing: {compute: 0.9, bandwidth: 0.5, noise_scale: 2000}
    slowdown: [{beside: small, factor: 1.5}, {beside: big, factor: 1.9}]
  small:
    batch: 128
    iteration_s: 0.05
    throughput: [[0.5, 0.5], [0.5, 1.0]]
    memory_mib: {64: 2000, 128: 2500, 256: 3500}
    sharing: {compute: 0.2, bandwidth: 0.1, noise_scale: 64}
    slowdown: [{beside: big, factor: 1.2}, {beside: small, factor: 1.1}]
  unmeasured:
    iteration_s: 1
    throughput: [[1.0, 1.0], [1.0, 1.0]]
"""


def tasks(*wanted: tuple[str, float, float]) -> Workload:
    """Tasks by model, arrival and the seconds that they would take alone."""
    step = {"big": 0.1, "small": 0.05, "unmeasured": 1.0}
    return Workload.from_jobs(
        Job(number, arrival, 1, model, iterations=seconds / step[model])
        for number, (model, arrival, seconds) in enumerate(wanted)
    )


def shared_run(folder: Path, workload: Workload, multiplex: str, policy: str = "fifo+proportional",
               cluster: str = "1x1:cpus=24,memory=500GB,gpu_memory=12GB", **options: object) -> Run:  # fmt: skip
    """Simulate with these profiles."""
    (folder / "models.yaml").write_text(PROFILES)
    chosen = Options(multiplex=multiplex, **{"round_s": 1.0, **options})  # type: ignore[arg-type]
    return simulate(cluster, workload, policy, chosen, profiles=[folder / "models.yaml"])
