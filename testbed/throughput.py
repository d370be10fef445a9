"""Pods a second through a whole cycle of a real scheduler: `python -m testbed.throughput [PODS] [NODES]`.

A control plane without kubelets: nodes are objects alone. What is measured is filter, prioritise and bind for each pod,
by the scheduler that gpuyard's manifests describe, from the first pod's creation to the last one's binding.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpuyard.kube import names
from gpuyard.kube.client.api import Api
from gpuyard.kube.install.certificates import make_certificates
from gpuyard.kube.install.scheduler_config import scheduler_config
from gpuyard.kube.install.values import Values
from gpuyard.kube.objects import YardGpu, write_gpus
from testbed.cluster import LocalCluster, free_port, until
from testbed.programs import programs

MINOR, GPUS_OF_NODE, GIB, CREATORS = 20, 8, 31, 8
PODS = "/api/v1/namespaces/default/pods"


def main(pods: int = 500, nodes: int = 100) -> None:
    """Print how many pods a second were bound."""
    with tempfile.TemporaryDirectory(prefix="gpuyard-") as name:
        cluster = LocalCluster(programs(), Path(name), nodes=0)
        try:
            cluster.start_control_plane()
            for number in range(nodes):
                add_node(cluster.api, f"n{number}")
            with scheduling(cluster):
                print(f"{pods / seconds_until_bound(cluster.api, pods):.0f} pods a second, {pods} on {nodes} nodes")
        finally:
            cluster.stop()


def add_node(api: Api, name: str) -> None:
    """A node with eight GPUs, which is ready because nobody says otherwise."""
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "250", names.MEMORY: str(GPUS_OF_NODE * GIB)}
    gpus = tuple(YardGpu(index, "V100", GIB) for index in range(GPUS_OF_NODE))
    metadata = {"name": name, "annotations": {names.GPUS_OF_NODE: write_gpus(gpus)}}
    api.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    ready = {"type": "Ready", "status": "True", "reason": "Told"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    api.patch(f"/api/v1/nodes/{name}/status", {"status": status})
    api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": []}})


@contextmanager
def scheduling(cluster: LocalCluster) -> Iterator[None]:
    """The extender, and a scheduler that asks it, as processes of this machine."""
    folder, port = cluster.folder / "yard", free_port()
    folder.mkdir()
    for name, content in make_certificates("localhost", ("127.0.0.1",)).items():
        (folder / name).write_bytes(content)
    values = Values(extenderUrl=f"https://127.0.0.1:{port}", namespace="kube-system")
    config = folder / "scheduler.yaml"
    config.write_text(scheduler_config(values, MINOR, str(folder)))
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    extender = [
        *(sys.executable, "-m", "gpuyard", "kube", "extender", "--listen", f"127.0.0.1:{port}"),
        *("--tls-cert", str(folder / "tls.crt"), "--tls-key", str(folder / "tls.key")),
        *("--client-ca", str(folder / "ca.crt")),
    ]
    scheduler = [
        *(str(cluster.programs / "kube-scheduler"), f"--config={config}", f"--secure-port={free_port()}"),
        *(f"--authentication-kubeconfig={cluster.kubeconfig}", f"--authorization-kubeconfig={cluster.kubeconfig}"),
    ]
    told = config.read_text().replace('"leaderElect": true', '"leaderElect": false')
    client = f'"clientConnection": {{"kubeconfig": "{cluster.kubeconfig}", "qps": 1000, "burst": 1000}},\n "profiles"'
    config.write_text(told.replace('"profiles"', client, 1))
    with (folder / "log").open("wb") as log:
        started = [subprocess.Popen(each, env=environment, stdout=log, stderr=log) for each in (extender, scheduler)]
    try:
        yield
    finally:
        for process in started:
            process.terminate()
            process.wait()


def seconds_until_bound(api: Api, count: int) -> float:
    """Create pods, after a first one has shown that everything runs, and wait until all are bound."""
    api.post(PODS, pod("first"))
    until(lambda: bound(api) == 1, "the first pod is bound")
    began = time.monotonic()
    with ThreadPoolExecutor(CREATORS) as creators:
        list(creators.map(lambda number: api.post(PODS, pod(f"pod-{number}")), range(count)))
    until(lambda: bound(api) == count + 1, "all pods are bound")
    return time.monotonic() - began


def bound(api: Api) -> int:
    """How many pods have a node."""
    return sum(bool(each["spec"].get("nodeName")) for each in api.get(PODS)["items"])


def pod(name: str) -> dict[str, Any]:
    """A pod that asks for 4 GiB."""
    container = {"name": "main", "image": "none", "resources": {"limits": {names.MEMORY: "4"}}}
    spec = {"schedulerName": names.SCHEDULER_NAME, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
