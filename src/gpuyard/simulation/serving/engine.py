"""Simulate serving: a deployment and requests in, a run out."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuyard._version import __version__
from gpuyard.core.arguments import check_number
from gpuyard.core.interrupts import interrupts_between_steps
from gpuyard.policies.controller import control
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.replanning import Counts, Replanner
from gpuyard.results import Run, StageFigures, summarise_serving
from gpuyard.simulation.serving.following import FollowedServer, Replanning
from gpuyard.simulation.serving.tables import requests_table, slices_table, stage_requests_table
from gpuyard.simulation.serving.world import SimulatedServer, open_server
from gpuyard.traces.arrivals import Arrivals


@dataclass(frozen=True)
class ServingOptions:
    """How a deployment is served."""

    buffer: float = 1.0
    """Factor on all latencies in truth; the plan has its own on top of what it expects."""
    replanning: Replanning | None = None
    seconds: float | None = None
    """For how long requests come; by default until the last one."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """What else the run was made from: load, seed, policy."""

    def __post_init__(self) -> None:
        check_number(self.buffer, "buffer", least=0.01)


DEFAULTS = ServingOptions()


def simulate_serving(
    deployment: Deployment,
    arrivals: Arrivals,
    options: ServingOptions = DEFAULTS,
    *,
    progress: Callable[[int], None] = lambda _: None,
) -> Run:
    """Serve all requests in virtual time; the run is not yet saved.

    An interrupt ends it early: the run then has what came until then, and says so as `stopped_s`.
    """
    began, began_cpu = time.perf_counter(), time.process_time()
    server = open_server(deployment, arrivals, options.buffer)
    switches, stopped_s = _serve(server, options.replanning, progress)
    cpu_seconds = time.process_time() - began_cpu
    tables = {"requests": requests_table(server), "slices": slices_table(server)}
    seconds = stopped_s or options.seconds or server.end_s
    asked, stages = deployment.asked, None
    if deployment.applications:
        tables["stage_requests"] = stage_requests_table(server)
        stages = StageFigures(tables["stage_requests"], deployment.stages)
        asked += tuple(each for each in deployment.stages if each.service_id in arrivals.services)
    figures, services = summarise_serving(tables["requests"], tables["slices"], asked, seconds, stages)
    info = _inputs(deployment, arrivals, options) | {
        "end_s": server.end_s,
        "stopped_s": stopped_s,
        "deployments": 1 + switches,
        "machine": {"python": platform.python_version(), "system": platform.platform()},
        "timing": {"cpu_seconds": cpu_seconds, "wall_seconds": time.perf_counter() - began},
    }
    return Run(info, tables | {"services": services}, figures | {"cpu_seconds": cpu_seconds})


def _serve(
    server: SimulatedServer, replanning: Replanning | None, progress: Callable[[int], None]
) -> tuple[int, float | None]:
    """Let all requests come and be answered: how often slices changed, and when somebody stopped it, if so."""
    stopped_s = None
    with interrupts_between_steps() as deliver:

        def between() -> None:
            progress(server.arrived)
            deliver()

        world = FollowedServer(server, replanning, between)
        try:
            control(world, _decide(server, replanning))
        except KeyboardInterrupt:
            stopped_s = server.now_s
            server.admit_no_more()
        server.close()
    return world.switches, stopped_s


def _decide(server: SimulatedServer, replanning: Replanning | None) -> Callable[[Counts], Deployment | None]:
    """The next deployment by what was counted; without replanning it is never asked for."""
    if replanning is None:
        return lambda _: None
    return Replanner(server.deployment, replanning.policy, replanning.tracking, also=server.services).decide


def _inputs(deployment: Deployment, arrivals: Arrivals, options: ServingOptions) -> dict[str, Any]:
    """What the run was made from: equal inputs and version give equal runs."""
    cluster = deployment.cluster
    return {
        "version": __version__,
        "world": "simulated",
        "kind": "serving",
        "gpus": " + ".join(f"{group.kind.gpus}x{group.kind.gpu_type}" for group in cluster.groups),
        "requests": len(arrivals),
        "buffer": {"planned": deployment.buffer, "served": options.buffer},
        "replan": options.replanning is not None,
        "seconds": options.seconds,
        **options.inputs,
    }
