"""What is really so in a cluster, by the kubelets' own word and the API's, beside what gpuyard's books say of it."""

from __future__ import annotations

import json
import ssl
from base64 import b64decode
from http.client import HTTPSConnection
from pathlib import Path

from gpuyard.kube.device_ids import by_gpu
from gpuyard.kube.views.viewing import ClusterView, read_cluster
from testbed.yard import GIB_OF_GPU, Yard

CHECKPOINT = Path("kubelet") / "device-plugins" / "kubelet_internal_checkpoint"
FIGURES = ("gpus", "gpus_shared", "gpu_memory_free_gibibytes", "disputed_pods")

Place = tuple[str, tuple[int, ...]]
"""A node, and the numbers of GPUs there."""


def check_devices(yard: Yard) -> dict[str, Place]:
    """No GPU is given out beyond its memory, and no pod that shares is on two; returns who has which by the kubelets.

    Kubelets are looked at before the API: who has devices of somebody else by then sees the API say that he has ended.
    """
    told = {node: noted_devices(yard.cluster.folder / node / CHECKPOINT) for node in yard.cluster.nodes}
    view = read_cluster(yard.api)
    view.books.check()
    there = {pod.uid: pod for pod in view.pods}
    places = dict[str, Place]()
    taken: dict[tuple[str, int], dict[str, int]] = {}
    for node, devices in told.items():
        for uid in devices.keys() & there.keys():
            pod, groups = there[uid], by_gpu(devices[uid])
            assert len(groups) == 1 or pod.request.whole, f"{pod.full_name} is on GPUs {list(groups)} of {node}"
            assert pod.full_name not in places, f"{pod.full_name} is on {places[pod.full_name]} and on {node}"
            places[pod.full_name] = (node, tuple(groups))
            for gpu, ids in groups.items():
                gib = sum(1 if "-" in each else GIB_OF_GPU for each in ids)
                taken.setdefault((node, gpu), {})[pod.full_name] = gib
    over = {gpu: holders for gpu, holders in taken.items() if sum(holders.values()) > GIB_OF_GPU}
    assert not over, f"over-committed: {over}"
    return places


def noted_devices(checkpoint: Path) -> dict[str, list[str]]:
    """By uid, the devices of pods as their kubelet notes them for itself; to ask it would disturb it (docs)."""
    found: dict[str, list[str]] = {}
    for entry in json.loads(checkpoint.read_text())["Data"]["PodDeviceEntries"] or []:
        ids = [each for part in entry["DeviceIDs"].values() for each in part]
        found.setdefault(entry["PodUID"], []).extend(ids)
    return found


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
