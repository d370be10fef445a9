"""A Grafana dashboard of the extender's figures, made from a table: import what `gpuyard kube dashboard` prints."""

from __future__ import annotations

from typing import NamedTuple

from gpuyard.kube.json_objects import JsonObject

SCHEMA = 36
"""Of Grafana 9; newer ones bring it up to date by themselves."""
WIDTH, HEIGHT, COLUMNS = 8, 8, 3
DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


class DashboardPanel(NamedTuple):
    """One graph: its title, the unit as Grafana names it, and a query and a legend for each line."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]


PANELS = (
    DashboardPanel(
        "GPUs",
        "short",
        (
            ("max(gpuyard_kube_gpus)", "all"),
            ("max(gpuyard_kube_gpus_shared)", "shared"),
            ("max(gpuyard_kube_gpus_out_of_order)", "out of order"),
        ),
    ),
    DashboardPanel(
        "GPU memory",
        "gbytes",
        (
            ("max(gpuyard_kube_gpu_memory_gibibytes)", "all"),
            ("max(gpuyard_kube_gpu_memory_free_gibibytes)", "free"),
        ),
    ),
    DashboardPanel(
        "Pods that wait, by what they lack", "short", (("max by (lacks) (gpuyard_kube_waiting_pods)", "{{lacks}}"),)
    ),
    DashboardPanel(
        "How much longer steps take than alone",
        "percentunit",
        (
            ("max(gpuyard_kube_measured_slowdown_mean)", "measured"),
            ("max(gpuyard_kube_expected_slowdown_mean)", "expected"),
        ),
    ),
    DashboardPanel(
        "Tasks slowed down by at most", "short", (("max by (most) (gpuyard_kube_tasks_measured_slowdown)", "{{most}}"),)
    ),
    DashboardPanel("GPUs by what tuners do", "short", (("max by (phase) (gpuyard_kube_gpus_by_phase)", "{{phase}}"),)),
    DashboardPanel(
        "Time of calls of the scheduler, 99th percentile",
        "s",
        (
            (
                "histogram_quantile(0.99, sum by (call, le) (rate(gpuyard_kube_call_seconds_bucket[5m])))",
                "{{call}}",
            ),
        ),
    ),
    DashboardPanel(
        "Calls answered with an error",
        "reqps",
        (("sum by (call) (rate(gpuyard_kube_call_errors_total[5m]))", "{{call}}"),),
    ),
    DashboardPanel(
        "Learnt, disputed, and never told",
        "short",
        (
            ("max(gpuyard_kube_learnt_mixes)", "mixes learnt"),
            ("max(gpuyard_kube_disputed_pods)", "pods that do not fit"),
            ("max(gpuyard_kube_events_lost_total)", "events lost"),
        ),
    ),
)  # fmt: skip


def dashboard() -> JsonObject:
    """The dashboard, as Grafana imports it; it asks which Prometheus to look at."""
    return {
        "title": "gpuyard on Kubernetes",
        "uid": "gpuyard-kube",
        "schemaVersion": SCHEMA,
        "tags": ["gpuyard"],
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]},
        "panels": [_panel(number, each) for number, each in enumerate(PANELS)],
    }


def _panel(number: int, panel: DashboardPanel) -> JsonObject:
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": DATA_SOURCE,
        "gridPos": {
            "x": number % COLUMNS * WIDTH,
            "y": number // COLUMNS * HEIGHT,
            "w": WIDTH,
            "h": HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + position), "datasource": DATA_SOURCE, "expr": query, "legendFormat": legend}
            for position, (query, legend) in enumerate(panel.queries)
        ],
    }
