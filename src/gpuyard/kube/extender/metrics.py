"""What an extender counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from gpuyard.core.errors import MissingExtraError
from gpuyard.kube.extender.figures import FIGURES, PREFIX, ClusterFacts

try:
    from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector
except ImportError:
    raise MissingExtraError("gpuyard kube extender", "kube") from None

BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)

T = TypeVar("T")
Family = GaugeMetricFamily | CounterMetricFamily


class ExtenderMetrics:
    """Calls with their times and errors, and how the GPUs of the cluster are used."""

    def __init__(self, facts: Callable[[], ClusterFacts]) -> None:
        self._registry = CollectorRegistry()
        self._times = Histogram(
            f"{PREFIX}call_seconds", "Time of a call of the scheduler", ["call"], registry=self._registry,
            buckets=BUCKETS_S,
        )  # fmt: skip
        self._errors = Counter(
            f"{PREFIX}call_errors", "Calls of the scheduler answered with an error", ["call"], registry=self._registry,
        )  # fmt: skip
        self._registry.register(_ClusterFamilies(facts))

    def timed(self, call: str, answer: Callable[[], T], is_error: Callable[[T], bool]) -> T:
        """Answer a call and count it."""
        with self._times.labels(call).time():
            found = answer()
        if is_error(found):
            self._errors.labels(call).inc()
        return found

    def page(self) -> bytes:
        """All figures as Prometheus reads them."""
        return bytes(generate_latest(self._registry))

    def names(self) -> dict[str, str]:
        """Each figure as Prometheus asks for it, and what it means."""
        totals = {"counter": "_total"}
        return {each.name + totals.get(each.type, ""): each.documentation for each in self._registry.collect()}


class _ClusterFamilies(Collector):
    """The figures of the cluster, worked out when somebody asks."""

    def __init__(self, facts: Callable[[], ClusterFacts]) -> None:
        self._facts = facts

    def describe(self) -> Iterator[Family]:
        """Their names, without asking the cluster."""
        return self._families(None)

    def collect(self) -> Iterator[Family]:
        """Their values, all of one moment."""
        return self._families(self._facts())

    def _families(self, facts: ClusterFacts | None) -> Iterator[Family]:
        for figure in FIGURES:
            kind = CounterMetricFamily if figure.counts else GaugeMetricFamily
            family: Family = kind(f"{PREFIX}{figure.name}", figure.meaning, labels=list(figure.labels))
            for labels, value in figure.samples(facts) if facts is not None else ():
                family.add_metric(list(labels), value)
            yield family
