"""The GPUs that are being filled, and what every step of the planner asks of them."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.policies.partition.latency import LatencyModel
from gpuyard.policies.partition.limits import network_gbit
from gpuyard.policies.partition.published.layout import CutGpu, Gpulet, RatedTask
from gpuyard.policies.partition.published.sizing import Latency, Sizes, Wanted


@dataclass(frozen=True)
class Rules:
    """What the original is told by its configuration."""

    most_models: int = 3
    spatial: bool = True
    repartition: bool = True
    greedy: bool = False


@dataclass(frozen=True)
class Pool:
    """GPUs in the middle of a plan."""

    latency: LatencyModel
    sizes: Sizes
    gpus: list[CutGpu]
    rules: Rules

    def gpulets(self) -> list[Gpulet]:
        """All gpulets, in the order of their GPUs."""
        return [gpulet for gpu in self.gpus for gpulet in gpu.gpulets]

    def empty(self) -> list[Gpulet]:
        """Those on which nobody is."""
        return [gpulet for gpulet in self.gpulets() if not gpulet.residents]

    def gpu(self, gpulet: Gpulet) -> CutGpu:
        """The GPU of a gpulet."""
        return self.gpus[gpulet.gpu]

    def memory_mb(self, task: RatedTask) -> float:
        """What a task's model takes."""
        return self.latency.gpu.models[task.model].memory_mb

    def fits_memory(self, task: RatedTask, gpulet: Gpulet) -> bool:
        """Whether a gpulet can hold a task."""
        return self.gpu(gpulet).has_memory_for(task, self.memory_mb(task), gpulet)

    def estimate(self, task: RatedTask, rate: int) -> list[Wanted]:
        """The gpulets that a rate would ideally have."""
        return self.sizes.by_greed(task, rate) if self.rules.greedy else self.sizes.by_knee(task, rate)

    def beside(self, task: RatedTask, gpulet: Gpulet) -> Latency:
        """Latencies of a task's batches on a gpulet, beside what runs on the others of its GPU."""
        others = self.gpu(gpulet).others(gpulet)
        return lambda batch: self.latency.beside_ms(task.model, batch, gpulet.percent, others)

    def network(self, gpu: CutGpu) -> float:
        """Gbit/s of input of a GPU."""
        models = self.latency.gpu.models
        return sum(
            network_gbit(models[each.task.model].input_bytes, each.throughput)
            for gpulet in gpu.gpulets for each in gpulet.residents
        )  # fmt: skip
