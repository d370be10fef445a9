"""Monitors: every figure is named once, the dashboard names no other, and the page says what is there."""

from __future__ import annotations

import re
from itertools import combinations

from prometheus_client.parser import text_string_to_metric_families
from tests.kube.builders import gpus

from gpuyard.kube.books import OpenGpu, PodOnGpu
from gpuyard.kube.extender.cluster_state import WaitCause
from gpuyard.kube.extender.figures import FIGURES, PREFIX, ClusterFacts
from gpuyard.kube.extender.metrics import ExtenderMetrics
from gpuyard.kube.resources.custom_kinds import CustomObject
from gpuyard.kube.resources.shared_gpu import GpuState, GpuWanted, TaskOnGpu
from gpuyard.kube.views.dashboard import PANELS, SCHEMA, dashboard
from gpuyard.policies.multiplex.interference import InterferenceModel, Usage

NAMES = ExtenderMetrics(ClusterFacts).names()


def values(facts: ClusterFacts) -> dict[tuple[str, ...], float]:
    """What stands on the page, by name and labels."""
    page = ExtenderMetrics(lambda: facts).page().decode()
    return {
        (sample.name.removeprefix(PREFIX), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_the_page_says_how_the_cluster_is() -> None:
    first, second = gpus(16, 16, out_of_order=(1,))
    two = tuple(PodOnGpu(Usage(name, 0.5, 0.25), 4) for name in "ab")
    tasks = (TaskOnGpu("a", slowdown=0.4), TaskOnGpu("b", slowdown=0.8), TaskOnGpu("c"))
    found = values(
        ClusterFacts(
            gpus=[OpenGpu("n1", first, 8, two), OpenGpu("n1", second, 0, ())],
            disputed=3,
            waiting=[WaitCause.MEMORY, WaitCause.MEMORY, WaitCause.POLICY],
            shared=[CustomObject("n1-0", "", GpuWanted("n1", 0), GpuState("Explore", tasks))],
            known=InterferenceModel(),
            learnt=5,
            events_lost=7,
        )
    )
    wanted = {
        ("gpus",): 2, ("gpus_shared",): 1, ("gpus_out_of_order",): 1, ("gpu_memory_gibibytes",): 32,
        ("gpu_memory_free_gibibytes",): 8, ("disputed_pods",): 3, ("waiting_pods", "memory"): 2,
        ("waiting_pods", "policy"): 1, ("waiting_pods", "never"): 0, ("gpus_by_phase", "Explore"): 1,
        ("gpus_by_phase", "Stable"): 0, ("tasks_measured_slowdown", "0.3"): 0, ("tasks_measured_slowdown", "0.5"): 1,
        ("tasks_measured_slowdown", "+Inf"): 2, ("tasks_expected_slowdown", "0.3"): 0,
        ("tasks_expected_slowdown", "0.5"): 2, ("learnt_mixes",): 5, ("events_lost_total",): 7,
    }  # fmt: skip
    assert {name: found[name] for name in wanted} == wanted
    assert abs(found[("measured_slowdown_mean",)] - 0.6) < 1e-9
    assert abs(found[("expected_slowdown_mean",)] - 0.49 * (0.5 + 0.25)) < 1e-9


def test_a_cluster_without_anything_has_a_page_without_means() -> None:
    found = values(ClusterFacts())
    assert found[("gpus",)] == 0
    assert ("measured_slowdown_mean",) not in found


def test_there_are_few_lines_however_large_the_cluster_is() -> None:
    (gpu,) = gpus(16)
    large = values(ClusterFacts(gpus=[OpenGpu(f"n{number}", gpu, 16, ()) for number in range(2000)]))
    assert len(large) <= len(values(ClusterFacts())) + 1


def test_every_figure_has_one_prefix_and_a_meaning() -> None:
    assert len(NAMES) == len(FIGURES) + 2
    assert all(name.startswith(PREFIX) and meaning for name, meaning in NAMES.items())


def test_the_dashboard_names_only_figures_that_there_are_and_all_of_them_matter() -> None:
    queries = [query for panel in PANELS for query, _ in panel.queries]
    named = {re.sub("_bucket$", "", name) for query in queries for name in re.findall(r"gpuyard_\w+", query)}
    assert named <= set(NAMES)
    assert set(NAMES) - named == {"gpuyard_kube_tasks_expected_slowdown"}
    labels = {f"{PREFIX}{figure.name}": set(figure.labels) for figure in FIGURES}
    for query, legend in (each for panel in PANELS for each in panel.queries):
        for label in re.findall(r"\{\{(\w+)\}\}", legend):
            (name,) = re.findall(r"gpuyard_\w+", query)
            assert label in labels.get(name, {"call"})


def test_the_dashboard_is_what_grafana_imports() -> None:
    made = dashboard()
    assert made["schemaVersion"] == SCHEMA
    assert {"title", "uid", "time", "templating", "panels"} <= set(made)
    assert len({panel["id"] for panel in made["panels"]}) == len(PANELS)
    for panel in made["panels"]:
        assert panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in {"short", "gbytes", "percentunit", "s", "reqps"}
        assert all(target["expr"] and target["legendFormat"] for target in panel["targets"])
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    places = [panel["gridPos"] for panel in made["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        assert abs(one["x"] - other["x"]) >= one["w"] or abs(one["y"] - other["y"]) >= one["h"]
