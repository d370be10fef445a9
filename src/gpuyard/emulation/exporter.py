"""Readings of emulated GPUs for Prometheus, under names like those of the exporters for real ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpuyard.core.errors import InputError, MissingExtraError
from gpuyard.emulation.monitor import GpuReading, ProcessReading, read

try:
    from prometheus_client import CollectorRegistry, start_http_server
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.registry import Collector
except ImportError:
    raise MissingExtraError("gpuyard smi --export", "monitor") from None

LOOPBACK = "127.0.0.1"
LABELS = ("node", "gpu", "uuid", "kind")

GPU_METRICS: dict[str, tuple[str, Callable[[GpuReading], float]]] = {
    "gpuyard_gpu_memory_used_bytes": ("Memory in use", lambda gpu: gpu.memory_used_bytes),
    "gpuyard_gpu_memory_total_bytes": ("Memory of the GPU", lambda gpu: gpu.memory_total_bytes),
    "gpuyard_gpu_utilization_ratio": ("Part of the time in which it worked", lambda gpu: gpu.utilisation),
    "gpuyard_gpu_power_draw_watts": ("Power drawn, modelled", lambda gpu: gpu.power_w),
    "gpuyard_gpu_power_limit_watts": ("Power drawn at most", lambda gpu: gpu.power_limit_w),
    "gpuyard_gpu_temperature_celsius": ("Temperature, modelled", lambda gpu: gpu.temperature_c),
    "gpuyard_gpu_processes": ("Processes that use it", lambda gpu: len(gpu.processes)),
}
PROCESS_METRICS: dict[str, tuple[str, Callable[[ProcessReading], float]]] = {
    "gpuyard_process_memory_used_bytes": ("Memory of the GPU that a process holds", lambda one: one.memory_bytes),
    "gpuyard_process_utilization_ratio": ("Part of the GPU's time that went to a process", lambda one: one.utilisation),
}


class Exporter(Collector):
    """Takes a reading whenever it is asked; ratios are those of the last second."""

    def __init__(self, node: str | None = None) -> None:
        self._node = node

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return one family for each metric, with a sample for each GPU or process."""
        gpus = {name: GaugeMetricFamily(name, about, labels=LABELS) for name, (about, _) in GPU_METRICS.items()}
        processes = {
            name: GaugeMetricFamily(name, about, labels=[*LABELS, "pid"])
            for name, (about, _) in PROCESS_METRICS.items()
        }
        for where, gpu in self._read():
            for name, (_, value) in GPU_METRICS.items():
                gpus[name].add_metric(where, value(gpu))
            for process in gpu.processes:
                for name, (_, figure) in PROCESS_METRICS.items():
                    processes[name].add_metric([*where, str(process.pid)], figure(process))
        yield from (*gpus.values(), *processes.values())

    def _read(self) -> list[tuple[list[str], GpuReading]]:
        nodes = read(self._node)
        return [([node.node, str(gpu.index), gpu.uuid, gpu.key], gpu) for node in nodes for gpu in node.gpus]


@contextmanager
def serve(address: str, node: str | None = None) -> Iterator[str]:
    """Answer Prometheus on `[HOST:]PORT` until the block ends; gives the URL. Port 0 takes any that is free."""
    host, port = parse_address(address)
    registry = CollectorRegistry()
    registry.register(Exporter(node))
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        rule = f"cannot be listened on: {error.strerror or error}"
        raise InputError(rule, field="export", value=address, hint="Choose another port or host") from error
    try:
        shown = f"[{host}]" if ":" in host else host
        yield f"http://{shown}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def parse_address(text: str) -> tuple[str, int]:
    """Read `[HOST:]PORT`; without a host only this machine is answered."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise InputError("is not [HOST:]PORT, as in 9400 or 0.0.0.0:9400", field="export", value=text)
    return host.strip("[]") or LOOPBACK, int(port)


def is_local(address: str) -> bool:
    """Say whether only this machine reaches an address."""
    host, _ = parse_address(address)
    return host in ("localhost", "::1") or host.startswith("127.")
