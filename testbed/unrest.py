"""Ends parts of a cluster at any time, and lets them begin anew: Kubernetes' own and gpuyard's, by a seed."""

from __future__ import annotations

import signal
import time
from random import Random

from gpuyard.kube.client.api import ApiError
from testbed.cluster import until
from testbed.yard import Yard

PARTS_OF_GPUYARD = ("gpuyard-extender", "gpuyard-scheduler", "gpuyard-device-plugin", "gpuyard-node")
LONGEST_AWAY_S, LONGEST_QUIET_S = 3.0, 4.0
DELETES = 0.5
"""The part of restarts of gpuyard in which a pod is deleted, not a program in it killed."""


class Unrest:
    """What is restarted when: the same for the same seed, but for how long each takes."""

    def __init__(self, yard: Yard, seed: int) -> None:
        self._yard, self._random = yard, Random(seed)
        self.told: list[str] = []
        """What was done, in order."""

    def go_on(self, seconds: float) -> None:
        """Restart one part after the other for so long, with pauses between."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.step()
            time.sleep(self._random.uniform(0, LONGEST_QUIET_S))

    def step(self) -> None:
        """Restart one part, any of them."""
        programs = self._yard.cluster.restartable()
        part = self._random.choice(sorted((*programs, *PARTS_OF_GPUYARD)))
        if part not in programs:
            self._restart_ours(part)
            return
        how, away_s = self._random.choice((signal.SIGKILL, signal.SIGTERM)), self._random.uniform(0, LONGEST_AWAY_S)
        self.told.append(f"{part}: {how.name}, away for {away_s:.1f} s")
        self._yard.cluster.end(part, how)
        time.sleep(away_s)
        programs[part]()

    def _restart_ours(self, part: str) -> None:
        """Kill a program of a pod, or delete the pod. One that was killed before is deleted: kubelets let it wait."""
        deletes, choice = self._random.random() < DELETES, self._random.random()
        until(lambda: self._ended(part, deletes, choice), f"{part} is there to be ended")

    def _ended(self, part: str, deletes: bool, choice: float) -> bool:
        try:
            pods = sorted(self._yard.parts(part), key=lambda pod: str(pod["spec"].get("nodeName")))
            if not pods:
                return False
            pod = pods[int(choice * len(pods))]
            name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
            running = pod["status"].get("containerStatuses") or []
            if not deletes and node and running and not any(each["restartCount"] for each in running):
                container = running[int(choice * len(pods) % 1 * len(running))]["name"]
                if self._yard.cluster.kill_container(node, name, container):
                    self.told.append(f"{part} of {node}: {container} was killed")
                    return True
            self._yard.end_part(name)
        except ApiError:
            return False  # the API server is on its way back
        self.told.append(f"{part} of {node}: deleted")
        return True
