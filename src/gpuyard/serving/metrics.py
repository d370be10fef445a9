"""Counts and gauges for Prometheus: Triton's names, so that its dashboards work, and ours for what it does not have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from gpuyard.serving.front import Front
from gpuyard.serving.protocol.contract import VERSION
from gpuyard.serving.statistics import Refusal, ServiceStatistics

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
US = 1e6

TRITON: dict[str, tuple[str, Callable[[ServiceStatistics], float]]] = {
    "nv_inference_request_success": ("Requests that were answered", lambda one: one.success.count),
    "nv_inference_request_failure": ("Requests that were not", lambda one: one.fail.count),
    "nv_inference_count": ("Rows that were answered", lambda one: one.rows),
    "nv_inference_exec_count": ("Batches", lambda one: sum(each.count for each in one.batches.values())),
    "nv_inference_request_duration_us": ("Time of answered requests", lambda one: one.success.total_s * US),
    "nv_inference_queue_duration_us": ("Time in queues", lambda one: one.queue.total_s * US),
    "nv_inference_compute_infer_duration_us": ("Time in batches", lambda one: one.compute.total_s * US),
}
"""Counters by their names there, which lack the suffix that the library gives to counters: to it they are gauges."""


class Metrics(Collector):
    """Takes a reading whenever it is asked; a request costs nothing more than its statistics."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._responses: Counter[int] = Counter()
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def count_response(self, status: int) -> None:
        """One more response of HTTP."""
        self._responses[status] += 1

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        text = generate_latest(self._registry)
        for name in TRITON:
            text = text.replace(f"# TYPE {name} gauge\n".encode(), f"# TYPE {name} counter\n".encode())
        return text

    def collect(self) -> Iterator[Any]:
        """Return one family for each metric."""
        for name, (about, value) in TRITON.items():
            family = GaugeMetricFamily(name, about, labels=["model", "version"])
            for service, each in self._front.statistics.items():
                family.add_metric([service, VERSION], value(each))
            yield family
        yield self._pending()
        yield self._outcomes()
        yield self._answers()
        yield from self._server()

    def _pending(self) -> GaugeMetricFamily:
        family = GaugeMetricFamily(
            "nv_inference_pending_request_count", "Requests that wait or run", labels=["model", "version"]
        )
        for service, each in self._front.statistics.items():
            family.add_metric([service, VERSION], each.pending)
        return family

    def _outcomes(self) -> CounterMetricFamily:
        about = "Requests by what became of them"
        family = CounterMetricFamily("gpuyard_requests", about, labels=["service", "outcome"])
        for service, each in self._front.statistics.items():
            family.add_metric([service, "answered"], each.success.count)
            for why in Refusal:
                family.add_metric([service, why.value], each.failures[why])
        return family

    def _answers(self) -> CounterMetricFamily:
        family = CounterMetricFamily("gpuyard_http_responses", "Responses of HTTP", labels=["code"])
        for status, count in sorted(self._responses.items()):
            family.add_metric([str(status)], count)
        return family

    def _server(self) -> Iterator[Any]:
        front = self._front
        gpus = front.deployment.plan.gpus if front.deployment is not None else 0
        yield GaugeMetricFamily("gpuyard_gpus_used", "GPUs that the plan in force uses", value=gpus)
        yield CounterMetricFamily("gpuyard_plans", "Plans that have come into force", value=front.switches)
        replaced = front.fleet.replaced
        yield CounterMetricFamily("gpuyard_gpu_processes_replaced", "GPU processes that died", value=replaced)
