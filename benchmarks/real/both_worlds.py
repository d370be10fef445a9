"""Runs a case with real processes, measures its costs, and simulates it with and without them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.real.cases import RealCase
from gpuyard.reports.calibration import Calibration, calibrate
from gpuyard.reports.gap import Gap, gap_between
from gpuyard.results import Run, load_run
from gpuyard.simulation.options import make_options
from gpuyard.simulation.study import prepare

CONDITIONS = "conditions.json"


@dataclass(frozen=True)
class Outcome:
    """One case: the real run, and the simulator without costs, with those of this run, and with those of the others."""

    case: RealCase
    real: Run
    load: tuple[float, float]
    """Processes that wanted a CPU of this machine, at the beginning and at the end."""
    costs: Calibration
    bare: Run
    told: Run
    foreign: Run

    def gap(self, simulated: Run) -> Gap:
        """How far a simulation is from the real run."""
        found = gap_between(simulated, self.real)
        assert found is not None
        return found


def run_real(case: RealCase, folder: Path) -> Path:
    """Run a case with processes, unless that was done before; returns its run folder."""
    place = folder / case.name
    found = _done(case, place)
    if found is None:
        print(f"{case.name}: runs …", file=sys.stderr, flush=True)
        began = os.getloadavg()[0]
        words = ["run", *case.words(), "--speed", str(case.speed), "--out", str(place), "--quiet"]
        subprocess.run([sys.executable, "-m", "gpuyard", *words], check=True, stdout=subprocess.DEVNULL)
        told = {"load": [began, os.getloadavg()[0]], "ended": time.strftime("%Y-%m-%d %H:%M")}
        (place / CONDITIONS).write_text(json.dumps(told))
        found = _done(case, place)
        assert found is not None
    return found


def _done(case: RealCase, place: Path) -> Path | None:
    """The newest run of a case that came to its end at this speed; one that was interrupted says nothing."""
    told = {path.parent: json.loads(path.read_text()) for path in place.glob("real-*/run.json")}
    whole = [run for run, info in told.items() if info["complete"] and info["speed"] == case.speed]
    return max(whole, key=lambda run: (run / "run.json").stat().st_mtime, default=None)


def outcomes(cases: Sequence[RealCase], folder: Path) -> list[Outcome]:
    """All cases in both worlds, one after the other."""
    real = {case: load_run(run_real(case, folder)) for case in cases}
    return [_simulate(case, real, folder) for case in cases]


def _simulate(case: RealCase, real: Mapping[RealCase, Run], folder: Path) -> Outcome:
    costs = calibrate([real[case]])
    others = [run for other, run in real.items() if other.speed == case.speed and other != case] or [real[case]]
    load = json.loads((folder / case.name / CONDITIONS).read_text())["load"]
    return Outcome(
        case, real[case], (load[0], load[1]), costs, _simulated(case, {}), _simulated(case, costs.options()),
        _simulated(case, calibrate(others).options()),
    )  # fmt: skip


def _simulated(case: RealCase, costs: Mapping[str, float]) -> Run:
    named: dict[str, Any] = {name.replace("-", "_"): value for name, value in costs.items()}
    return prepare(make_options(case.options() | named)).run()
