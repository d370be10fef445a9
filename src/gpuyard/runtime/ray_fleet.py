"""Agents on the nodes of a Ray cluster: Ray places them, knows whether they live, and keeps what they print.

A run asks Ray for a group of places, each on another node. An agent is an actor in its place. When a node is lost, its
actor is, and Ray looks for another place as soon as there is one; until then the agent that is started anew waits. The
process of a lost actor may live on, and ends when the scheduler says so. Group and actors outlive the scheduler, which
may be started again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

from gpuyard.core.cluster import DEFAULT_GPU_TYPE, Cluster
from gpuyard.core.errors import InputError, MissingExtraError
from gpuyard.runtime.addresses import AgentSettings
from gpuyard.runtime.agent import NodeAgent

NAMESPACE = "gpuyard"
PLACE_S = 30.0
"""How long Ray may take to find a node for each agent."""
ANSWER_S = 10.0
"""How long the address of a Ray cluster may take to be reached."""
LEAVE_S = 5.0
"""How long a process of Ray may take to end as it is used to; without the rest of its node it never would."""
ACCELERATOR = "accelerator_type:"


def connect() -> Any:
    """Join the Ray cluster that RAY_ADDRESS names, or the one that runs on this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    address = os.environ.get("RAY_ADDRESS", "auto")
    try:
        import ray
    except ImportError:
        raise MissingExtraError("--on ray", "ray") from None
    if not ray.is_initialized():
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        host = os.environ.get("RAY_NODE_IP_ADDRESS")
        if host:
            quiet["_node_ip_address"] = host
        try:
            _knock(address)
            ray.init(address=address, namespace=NAMESPACE, **quiet)
        except (ConnectionError, TimeoutError):
            hint = "'ray start --head' starts one; RAY_ADDRESS names another"
            raise InputError("no Ray cluster is running", field="on", value="ray", hint=hint) from None
    return ray


def _knock(address: str) -> None:
    """ConnectionError or TimeoutError if nobody listens at HOST:PORT: Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "://" not in address:
        with suppress(socket.gaierror):  # Ray says what it thinks of the name
            socket.create_connection((host, int(port)), ANSWER_S).close()


def cluster_of_ray(ray: Any) -> str:
    """The nodes with GPUs as Ray states them, in the short form of a cluster; InputError if there is none."""
    found = Counter(_kind(node["Resources"]) for node in _alive(ray) if node["Resources"].get("GPU", 0) >= 1)
    if not found:
        hint = "State the nodes with --cluster: GPUs are emulated then"
        raise InputError("knows of no GPU", field="on", value="ray", hint=hint)
    return "+".join(f"{count}x{kind}" for kind, count in sorted(found.items()))


def _kind(resources: Mapping[str, float]) -> str:
    types = [name.removeprefix(ACCELERATOR) for name in resources if name.startswith(ACCELERATOR)]
    memory = resources.get("memory", 0.0) / 1e9
    named = types[0] if types else DEFAULT_GPU_TYPE
    return f"{resources['GPU']:.0f}:cpus={resources.get('CPU', 0.0):g},memory={memory:.3f}GB,type={named}"


def _alive(ray: Any) -> list[Any]:
    return [node for node in ray.nodes() if node["Alive"]]


class RayFleet:
    """An agent on a Ray node for each node of a cluster."""

    def __init__(self, ray: Any, cluster: Cluster, state: Path) -> None:
        self._ray, self._cluster = ray, cluster
        self.host = str(ray.util.get_node_ip_address())
        self._name = f"gpuyard-{sha256(str(state.resolve()).encode()).hexdigest()[:12]}"
        self._group: Any = None
        self._names: dict[str, str] = {}
        self._ends: dict[str, Any] = {}
        """What becomes ready when an agent is gone."""

    def reserve(self) -> None:
        """Take a place for each agent, or find those of an earlier scheduler."""
        self._group = self._found_group() or self._new_group()

    def start(self, node: str, settings: Path) -> None:
        """Let Ray start the agent of a node in its place, when there is one."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        place = PlacementGroupSchedulingStrategy(self._group, self._cluster.node_names.index(node))
        name = f"{self._name}-{node}-{uuid4().hex[:8]}"
        actor = self._ray.remote(RayAgent).options(
            name=name, lifetime="detached", num_cpus=0, num_gpus=0, max_restarts=0, scheduling_strategy=place
        )
        self._watch(node, name, actor.remote(str(settings)))

    def lives(self, node: str) -> bool:
        """Whether Ray has the agent of a node, or is about to."""
        end = self._ends.get(node)
        return end is not None and not self._ray.wait([end], timeout=0)[0]

    def end(self, node: str) -> None:
        """Let Ray kill the agent of a node; its processes die with it."""
        with suppress(ValueError):  # there is no such actor any more
            self._ray.kill(self._ray.get_actor(self._names[node], NAMESPACE))

    def handles(self) -> dict[str, Any]:
        """Names of actors."""
        return dict(self._names)

    def adopt(self, found: Mapping[str, Any]) -> None:
        """Take over the agents of an earlier scheduler that live."""
        for node, name in found.items():
            with suppress(ValueError):  # there is no such actor any more
                self._watch(node, name, self._ray.get_actor(name, NAMESPACE))

    def stop(self, patience_s: float = 5.0) -> None:
        """Wait for agents that were told to end, give Ray back its places, and with them agents that are left."""
        from ray.util.placement_group import remove_placement_group

        ends = list(self._ends.values())
        self._ray.wait(ends, num_returns=len(ends), timeout=patience_s)
        remove_placement_group(self._group)
        self._ray.shutdown()

    def _watch(self, node: str, name: str, actor: Any) -> None:
        self._names[node], self._ends[node] = name, actor.ended.remote()

    def _found_group(self) -> Any:
        from ray.util.placement_group import get_placement_group

        with suppress(ValueError):
            return get_placement_group(self._name)
        return None

    def _new_group(self) -> Any:
        from ray.util.placement_group import placement_group, remove_placement_group

        known = any("GPU" in node["Resources"] for node in _alive(self._ray))
        wanted = [_wanted(self._cluster, number, gpus=known) for number in range(self._cluster.nodes)]
        group = placement_group(wanted, strategy="STRICT_SPREAD", name=self._name, lifetime="detached")
        if not group.wait(PLACE_S):
            remove_placement_group(group)
            self._ray.shutdown()
            rule = f"Ray has no node of its own for each of {self._cluster.nodes}, with as many CPUs and GPUs"
            raise InputError(rule, field="cluster", hint="'ray status' says what is there and what is taken")
        return group


def _wanted(cluster: Cluster, number: int, *, gpus: bool) -> dict[str, float]:
    """What an agent asks of its node; no GPUs where Ray knows of none, as they are emulated."""
    kind = cluster.kinds[cluster.node_kind[number]]
    return {"CPU": kind.cpus} | ({"GPU": float(kind.gpus)} if gpus and kind.gpus else {})


class RayAgent:
    """An agent as an actor. It ends with its process, by which Ray knows."""

    def __init__(self, settings: str) -> None:
        ray = connect()
        os.environ.pop("OMP_NUM_THREADS", None)  # Ray's, for an actor that computes; jobs shall not find it
        told = replace(AgentSettings.read(Path(settings)), host=str(ray.util.get_node_ip_address()))
        self._agent = NodeAgent(told)
        threading.Thread(target=self._run, name="agent", daemon=True).start()

    def _run(self) -> None:
        try:
            self._agent.run()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(LEAVE_S)
            os._exit(0)

    async def ended(self) -> None:
        """Answer never: who waits for it hears from Ray when the actor is gone."""
        await asyncio.Event().wait()
