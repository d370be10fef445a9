"""What an extender counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from gpuyard.core.errors import MissingExtraError
from gpuyard.kube.extender.cluster_state import ClusterState

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
except ImportError:
    raise MissingExtraError("gpuyard kube extender", "kube") from None

BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)

T = TypeVar("T")


class ExtenderMetrics:
    """Calls with their times and errors, and how the GPUs of the cluster are used."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._registry = CollectorRegistry()
        self._times = Histogram(
            "gpuyard_kube_call_seconds", "Time of a call of the scheduler", ["call"], registry=self._registry,
            buckets=BUCKETS_S,
        )  # fmt: skip
        self._errors = Counter(
            "gpuyard_kube_call_errors", "Calls of the scheduler answered with an error", ["call"],
            registry=self._registry,
        )  # fmt: skip
        gauges = (
            ("gpus", "GPUs of all nodes", lambda gpus, _: len(gpus)),
            ("gpu_memory_gibibytes", "Their memory", lambda gpus, _: sum(each.gpu.memory_gib for each in gpus)),
            ("gpu_memory_free_gibibytes", "Memory that a pod could get", lambda gpus, _: sum(e.free_gib for e in gpus)),
            ("gpus_shared", "GPUs with more than one pod", lambda gpus, _: sum(len(e.residents) > 1 for e in gpus)),
            ("disputed_pods", "Pods that do not fit where they are", lambda _, disputed: disputed),
        )  # fmt: skip
        for name, about, figure in gauges:
            gauge = Gauge(f"gpuyard_kube_{name}", about, registry=self._registry)
            gauge.set_function(self._figure(figure))

    def timed(self, call: str, answer: Callable[[], T], is_error: Callable[[T], bool]) -> T:
        """Answer a call and count it."""
        with self._times.labels(call).time():
            found = answer()
        if is_error(found):
            self._errors.labels(call).inc()
        return found

    def page(self) -> bytes:
        """All figures as Prometheus reads them."""
        with self._state.lock:
            return bytes(generate_latest(self._registry))

    def _figure(self, figure: Callable[[list[Any], int], float]) -> Callable[[], float]:
        def value() -> float:
            books = self._state.books
            gpus = [each for node in books.nodes for each in books.open_gpus(node)]
            return figure(gpus, sum(len(books.disputes(node)) for node in books.nodes))

        return value
