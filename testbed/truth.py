"""What is really so in a cluster, by the kubelets' own word and the API's, beside what gpuyard's books say of it."""

from __future__ import annotations

import ssl
from base64 import b64decode
from http.client import HTTPSConnection
from pathlib import Path

from gpuyard.kube.device_ids import by_gpu
from gpuyard.kube.plugin.pod_devices import list_pod_devices
from gpuyard.kube.views.viewing import ClusterView, read_cluster
from testbed.yard import GIB_OF_GPU, Yard

SOCKET = Path("pod-resources") / "kubelet.sock"
FIGURES = ("gpus", "gpus_shared", "gpu_memory_free_gibibytes", "disputed_pods")

Place = tuple[str, tuple[int, ...]]
"""A node, and the numbers of GPUs there."""


def check_devices(yard: Yard) -> dict[str, Place]:
    """No GPU is given out beyond its memory, and no pod that shares is on two; returns who has which by the kubelets.

    Kubelets are asked before the API: who has devices of somebody else by then sees the API say that he has ended.
    """
    told = {node: list_pod_devices(yard.cluster.folder / node / "kubelet" / SOCKET) for node in yard.cluster.nodes}
    view = read_cluster(yard.api)
    view.books.check()
    there = {(pod.node, pod.full_name): pod for pod in view.pods}
    places = dict[str, Place]()
    taken: dict[tuple[str, int], dict[str, int]] = {}
    for node, devices in told.items():
        for name, containers in devices.items():
            if (node, name) not in there:
                continue
            groups = by_gpu(each for ids in containers for each in ids)
            assert len(groups) == 1 or there[node, name].request.whole, f"{name} is on GPUs {list(groups)} of {node}"
            assert name not in places, f"{name} is on {places[name]} and on {node}"
            places[name] = (node, tuple(groups))
            for gpu, ids in groups.items():
                taken.setdefault((node, gpu), {})[name] = sum(1 if "-" in each else GIB_OF_GPU for each in ids)
    over = {gpu: holders for gpu, holders in taken.items() if sum(holders.values()) > GIB_OF_GPU}
    assert not over, f"over-committed: {over}"
    return places


def check_at_rest(yard: Yard) -> None:
    """Nothing is disputed, and books, kubelets and the extender itself say the same."""
    places, view = check_devices(yard), read_cluster(yard.api)
    assert {node: view.books.disputes(node) for node in view.books.nodes if view.books.disputes(node)} == {}
    assert {pod.full_name: (pod.node, pod.devices) for pod in view.pods if pod.node} == places
    assert figures_of_extender(yard) == figures_of(view)


def figures_of(view: ClusterView) -> dict[str, float]:
    """What the API server's pods and nodes come to."""
    gpus = [each for node in view.books.nodes for each in view.books.open_gpus(node)]
    shared, free = sum(len(each.residents) > 1 for each in gpus), sum(each.free_gib for each in gpus)
    disputed = sum(len(view.books.disputes(node)) for node in view.books.nodes)
    return dict(zip(FIGURES, map(float, (len(gpus), shared, free, disputed)), strict=True))


def figures_of_extender(yard: Yard) -> dict[str, float]:
    """The same by the books of the extender that runs, as it tells Prometheus."""
    secret = yard.api.get("/api/v1/namespaces/gpuyard-system/secrets/gpuyard-extender-tls")["data"]
    tls = ssl.create_default_context(cadata=b64decode(secret["ca.crt"]).decode())
    host, _, port = yard.listen.partition(":")
    connection = HTTPSConnection(host, int(port), context=tls, timeout=60)
    connection.request("GET", "/metrics")
    lines = [line.split() for line in connection.getresponse().read().decode().splitlines() if line[:1] != "#"]
    connection.close()
    told = {words[0]: float(words[1]) for words in lines if len(words) == 2}
    return {name: told[f"gpuyard_kube_{name}"] for name in FIGURES}
