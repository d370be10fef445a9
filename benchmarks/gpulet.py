"""gpulet's own inputs and results, as recorded."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from gpuyard.core.cluster import Cluster, NodeKind
from gpuyard.core.service import Service
from gpuyard.profiles.inference import ServingGpu, gpulet_ids, inference_model, serving_gpu

SLO_MS = {0: 5, 6: 66, 7: 108, 8: 202, 9: 142, 10: 62, 11: 64, 12: 202, 13: 22}
"""Of each model, by its number, in the scenarios."""
APPLICATION_SLO_MS = {
    "game": dict.fromkeys((0, 1, 2, 3, 4, 5, 7), 108),
    "traffic": {6: 112, 8: 90, 9: 112},
}
"""The same where models are parts of an application."""
FIRST_GENERATOR = "createMultiModelScenConfigs.py"

Row = dict[str, str]


def rows(folder: Path, name: str) -> list[Row]:
    """A table without its comments."""
    with (folder / "gpulet" / name).open(encoding="utf-8") as lines:
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def service(number: int, rate: float, slo_ms: float | None = None) -> Service:
    """A service of one of gpulet's models."""
    name = gpulet_ids()[number]
    return Service(name, inference_model(name), rate, SLO_MS[number] if slo_ms is None else slo_ms)


def task_lists(folder: Path) -> dict[str, list[Service]]:
    """The thirty task lists of the baseline."""
    found: dict[str, list[Service]] = {}
    for row in rows(folder, "baseline_inputs.csv"):
        one = service(int(row["model_id"]), float(row["rate_rps"]), float(row["slo_ms"]))
        found.setdefault(row["scenario"], []).append(one)
    return found


def families(folder: Path) -> dict[str, list[Service]]:
    """The services of each family at index 1; two families of the first generator differ from those of the other."""
    found: dict[str, list[Service]] = {}
    for row in rows(folder, "scenario_families.csv"):
        first, name = row["generator"] == FIRST_GENERATOR, row["family"]
        if not first or name in ("scen1", "scen2"):
            number = int(row["model_id"])
            slo_ms = APPLICATION_SLO_MS.get(name, SLO_MS)[number]
            one = service(number, float(row["rate_per_index_rps"]), slo_ms)
            found.setdefault(f"{name}(MultiModelScen)" if first else name, []).append(one)
    return found


def at_index(services: Iterable[Service], index: int) -> list[Service]:
    """A family at an index: so many times the rates."""
    return [replace(each, rate_per_s=each.rate_per_s * index) for each in services]


def asked(numbers: Iterable[int], row: Row, columns: Iterable[str]) -> list[Service]:
    """The services of one case of a schedulability table."""
    pairs = zip(numbers, (float(row[column]) for column in columns), strict=True)
    return [service(number, rate) for number, rate in pairs if rate]


FIVE = (0, 6, 7, 8, 9)
FIVE_COLUMNS = ("r_lenet1", "r_googlenet", "r_resnet50", "r_ssd", "r_vgg16")


def gpus(count: int) -> Cluster:
    """So many RTX 2080 Ti."""
    return Cluster.uniform(1, NodeKind(gpus=count, gpu_type="RTX2080Ti"))


def known() -> dict[str, ServingGpu]:
    """What is known of models on them."""
    return {"RTX2080Ti": serving_gpu("2080ti")}
