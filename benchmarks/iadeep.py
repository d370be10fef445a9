"""IADeep's experiment in gpuyard's own formats: a profile file, what was measured of mixes, and 300 tasks."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from math import nan
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from gpuyard.core.workload import Job, Workload
from gpuyard.policies.multiplex.interference import InterferenceModel, Observation, Usage
from gpuyard.policies.multiplex.observation_files import write_observations

CLUSTER = "5x4:cpus=64,memory=512GB,type=RTX3090,gpu_memory=25.77GB"
"""20 RTX 3090 of 24 GiB. Two CPUs for each of the eight smallest tasks that fit on a GPU: CPUs are never short."""
SOURCE = "IADeep (SC'23), buzy-coder/IADeep: profiles, mixes, curves and workloads of its repository"
STANDS_FOR = {"resnet50": "resnet152", "lstm": "googlenet"}
"""Models of the experiment of which no mix was measured, and whose mixes stand in: the first has the same profile in
the repository, of the other nothing is known but that its steps are short."""
USE_UNDER = {"resnet152": "lstm"}
"""In the table of use, this model's row has another's name: its mixes are those of the first."""
GROWING = 0.5
"""The part of a task's GPU memory that grows with its batch: an assumption."""


def table(shared: Path, name: str) -> list[dict[str, str]]:
    """The rows of one of the published tables."""
    with (shared / "iadeep" / name).open() as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def named(model: str) -> str:
    """What a model is called in our files: gpuyard has profiles of its own of some of these."""
    return f"iadeep-{model}"


def mix_of(text: str) -> list[str]:
    """The models of a mix, each as often as it is in it."""
    found = []
    for part in text.split("+"):
        model, _, count = part.partition("*")
        found += [model] * int(count)
    return found


@dataclass(frozen=True)
class Published:
    """What the repository says of the models of its experiment."""

    shared: Path

    def use(self, model: str) -> tuple[float, float]:
        """The parts of the time in which a model keeps processors and memory busy."""
        known = STANDS_FOR.get(model, model)
        row = {each["model"]: each for each in table(self.shared, "model_utilisation.csv")}[USE_UNDER.get(known, known)]
        return float(row["sm_util_pct"]) / 100, float(row["mem_util_pct"]) / 100

    def usage(self, model: str) -> Usage:
        """The same as policies see it."""
        return Usage(named(model), *self.use(model))

    @property
    def weights(self) -> dict[str, float]:
        """The models of the experiment, and how often each is drawn."""
        rows = table(self.shared, "workloads.csv")
        return {row["task"]: float(row["generator_weight_5"]) for row in rows if row["generator_weight_5"]}

    def noise_scale(self, model: str, own: int) -> float | None:
        """From the curves of epochs by batch size, the median of four: how much more work twice the batch takes."""
        found = []
        for row in table(self.shared, "epochs_vs_batch_polynomials.csv"):
            if row["model"] == model:
                powers = [float(row[f"c{power}"]) for power in range(5)]
                epochs = [sum(each * size**power for power, each in enumerate(powers)) for size in (own, 2 * own)]
                more = epochs[1] / epochs[0] / (2 if row["divide_by_batch"] == "1" else 1)
                found.append(own * (2 - more) / (more - 1))
        return median(found) if found else None

    def slowdowns(self) -> dict[tuple[str, str], float]:
        """Who is slowed down beside whom: of a pair's two values the higher is of the one whose neighbour uses more."""
        known: dict[tuple[str, str], float] = {}
        for row in table(self.shared, "interference_by_mix_offline.csv"):
            mix = mix_of(row["mix_from_counts"])
            if row["flags_consistent"] == "1" and len(mix) == 2:
                high, low = float(row["derived_slowdown_high"]), float(row["derived_slowdown_low"])
                lighter, heavier = sorted(mix, key=lambda model: sum(self.use(model)))
                known[heavier, lighter] = low
                known[lighter, heavier] = high if lighter != heavier else (high + low) / 2
        return known

    def pairs(self) -> dict[tuple[str, str], float]:
        """The same of the models of the experiment, under their own names."""
        known, models = self.slowdowns(), list(self.weights)
        theirs = {
            (one, other): known.get((STANDS_FOR.get(one, one), STANDS_FOR.get(other, other)))
            for one in models
            for other in models
        }
        return {pair: slowdown for pair, slowdown in theirs.items() if slowdown is not None}

    def seconds(self, model: str) -> tuple[int, float, float]:
        """A model's own batch size, and the seconds of a step and of a whole task alone."""
        row = {each["model"]: each for each in table(self.shared, "offline_profile_extender.csv")}[model]
        return (
            int(row["default_batch_size"]), float(row["solo_minibatch_time_s"]), float(row["solo_completion_time_s"])
        )  # fmt: skip

    def profile_file(self, path: Path) -> Path:
        """Write all of it as a profile file."""
        memory = {row["task"]: float(row["gpu_mem_gib"]) * 1024 for row in table(self.shared, "workloads.csv")}
        models = {named(model): self._model(model, memory[model]) for model in self.weights}
        grid = {"cpus": [1, 2], "memory_gb": [5, 10]}
        content = {"source": SOURCE, "gpu_type": "RTX3090", "grid": grid, "models": models}
        path.write_text(json.dumps(content, indent=1) + "\n")  # YAML has all of JSON
        return path

    def _model(self, model: str, mib: float) -> dict[str, Any]:
        own, step_s, _ = self.seconds(model)
        compute, bandwidth = self.use(model)
        noise = self.noise_scale(model, own)
        return {
            "batch": own, "iteration_s": step_s, "throughput": [[0.5, 0.5], [0.5, 1.0]],
            "memory_mib": {size: mib * (1 + GROWING * (size / own - 1)) for size in (own // 2, own, 2 * own)},
            "sharing": {"compute": compute, "bandwidth": bandwidth} | ({"noise_scale": noise} if noise else {}),
            "slowdown": [
                {"beside": named(other), "factor": 1 + slowdown}
                for (one, other), slowdown in self.pairs().items() if one == model
            ],
        }  # fmt: skip

    def observation_file(self, path: Path) -> Path:
        """Write the sums of slowdowns of the published mixes of these models, as IADeep's scheduler has them."""
        theirs = {STANDS_FOR.get(model, model): model for model in self.weights}
        found = []
        for row in table(self.shared, "interference_by_mix_offline.csv"):
            mix = mix_of(row["mix_from_counts"])
            if row["flags_consistent"] == "1" and len(mix) > 1 and set(mix) <= set(theirs):
                usages = tuple(self.usage(theirs[model]) for model in mix)
                found.append(Observation(usages, tuple(range(len(mix))), float(row["sum_slowdown"])))
        write_observations(InterferenceModel(tuple(found)), path)
        return path

    def workload(self, load: float, seed: int, jobs: int = 300) -> Workload:
        """So many tasks, drawn as IADeep's generator draws them; load 2 is twice as dense as its trace."""
        stamps = [float(row["submitted_time"]) for row in table(self.shared, "arrivals_microsoft.csv")][:jobs]
        weights = self.weights
        drawn = np.random.default_rng([seed, 0x1ADE]).choice(
            list(weights), size=len(stamps), p=np.array(list(weights.values())) / sum(weights.values())
        )
        solo = {model: self.seconds(model) for model in weights}
        return Workload.from_jobs(
            [
                Job(number, (stamp - stamps[0]) / 1000 / load, 1, named(str(model)), iterations=solo[str(model)][2]
                    / solo[str(model)][1], cpus=nan)
                for number, (stamp, model) in enumerate(zip(stamps, drawn, strict=True))
            ],
            source="IADeep's generator",
        )  # fmt: skip
