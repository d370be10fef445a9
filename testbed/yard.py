"""gpuyard in a cluster of this machine: how its parts and tasks find this machine's Python, and what tests ask."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from gpuyard.kube.client.api import ApiError, pod_path
from gpuyard.kube.objects import GpuPod, read_pod
from gpuyard.kube.views.viewing import gpu_rows, read_cluster
from gpuyard.policies.multiplex.interference import InterferenceModel
from testbed.cluster import IMAGE, KUBELET, LocalCluster, free_port, until

ROOT = Path(__file__).resolve().parents[1]
GPUS = "4xV100"
GIB_OF_GPU = 31
PODS = "/api/v1/namespaces/default/pods"
LABEL = {"gpuyard.io/gpus": "emulated"}
HERE = {"PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
"""Parts and pods run the sources of this very folder, whichever installation their Python belongs to."""
Json = dict[str, Any]


class Yard:
    """gpuyard, installed in a cluster by its own command."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster, self.api = cluster, cluster.api
        self.values = cluster.folder / "values.yaml"
        self.values.write_text(yaml.safe_dump(self._values()))
        self.shm = Path("/dev/shm") / f"gpuyard-{cluster.folder.name}"

    def command(self, *words: str) -> str:
        """Run a command of gpuyard against the cluster."""
        done = subprocess.run(
            [sys.executable, "-m", "gpuyard", "kube", *words],
            env={**os.environ, **HERE, "KUBECONFIG": str(self.cluster.kubeconfig)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def install(self) -> None:
        """Label the nodes and install."""
        for node in self.cluster.nodes:
            self.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": LABEL}})
        self.command("install", "--values", str(self.values), "--wait", "300")

    def submit(self, name: str, gib: int, steps: int, *, uses: float = 0.5, **more: Any) -> None:
        """Create a pod that trains."""
        words = ["/programs/train.py", str(gib * uses), str(steps)]
        self.api.post(PODS, self.pod(name, gib, [sys.executable, *words], **more))

    def submit_tunable(self, name: str, gib: int, batch: int) -> None:
        """Create a pod that trains with the batch size that is wished of it."""
        words = ["/programs/tunable.py", str(gib / 2), str(batch)]
        self.api.post(PODS, self.pod(name, gib, [sys.executable, *words], step_us=500))

    def pod(
        self, name: str, gib: int, command: list[str], *, resource: str = "gpuyard.io/gpu-memory",
        scheduler: str = "gpuyard", step_us: int = 20000,
    ) -> Json:  # fmt: skip
        """A pod that asks for memory of a GPU."""
        train = {"name": "train", "hostPath": {"path": str(ROOT / "testbed" / "programs_of_pods")}}
        environment = {"GPUYARD_EXECUTE": "0", "GPUYARD_KERNEL_TIMES": f"step={step_us}", **HERE}
        container = {
            "name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": command,
            "env": [{"name": key, "value": value} for key, value in environment.items()],
            "resources": {"limits": {resource: str(gib)}},
            "volumeMounts": [*self._mounts(), {"name": "train", "mountPath": "/programs", "readOnly": True}],
        }  # fmt: skip
        return {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "schedulerName": scheduler, "restartPolicy": "Never", "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 1,
                "dnsPolicy": "Default", "containers": [container], "volumes": [*self._volumes(), train],
            },
        }  # fmt: skip

    def pods(self) -> dict[str, GpuPod]:
        """All pods in the default namespace, by name."""
        return {pod.name: pod for pod in map(read_pod, self.api.get(PODS)["items"])}

    def phase(self, name: str) -> str:
        """How far a pod is."""
        return str(self.api.get(pod_path("default", name))["status"].get("phase"))

    def phases(self) -> dict[str, str]:
        """The same of all."""
        return {each["metadata"]["name"]: each["status"].get("phase", "") for each in self.api.get(PODS)["items"]}

    def log(self, name: str) -> str:
        """What a pod has written, as its node keeps it."""
        pod = self.api.get(pod_path("default", name))
        logs = self.cluster.folder / str(pod["spec"].get("nodeName")) / "logs"
        folder = logs / f"default_{name}_{pod['metadata']['uid']}" / "main"
        return "".join(file.read_text() for file in sorted(folder.glob("*.log")))

    def end_of(self, name: str) -> str:
        """How a pod ended, with what it has written."""
        status = self.api.get(pod_path("default", name))["status"]
        told = (status.get(field, "") for field in ("phase", "reason", "message"))
        return " ".join([*map(str, told), self.log(name)])

    def restart(self, part: str) -> None:
        """Let a part of gpuyard begin anew: delete its pods, and wait until others are ready in their place."""
        before = self._parts(part)
        for name in before:
            self.api.delete(f"/api/v1/namespaces/gpuyard-system/pods/{name}")

        def replaced() -> bool:
            now = self._parts(part)
            return len(now) == len(before) and all(now.values()) and not set(now) & set(before)

        until(replaced, f"{part} has begun anew")

    def _parts(self, part: str) -> dict[str, bool]:
        """The pods of a part of gpuyard, and whether each is ready."""
        listed = self.api.get("/api/v1/namespaces/gpuyard-system/pods", labelSelector=f"app={part}")["items"]
        return {
            each["metadata"]["name"]: ("Ready", "True")
            in {(one["type"], one["status"]) for one in each["status"].get("conditions") or []}
            for each in listed
        }

    def allocatable(self, node: str) -> int:
        """How many GiB of GPUs a kubelet offers."""
        found = self.api.get(f"/api/v1/nodes/{node}")["status"]["allocatable"]
        return int(found.get("gpuyard.io/gpu-memory", 0))

    def check_books(self) -> list[Json]:
        """The rows of all GPUs, none of which is over-committed or disputed."""
        view = read_cluster(self.api)
        view.books.check()
        rows = gpu_rows(view, InterferenceModel())
        assert not [row for row in rows if row["disputes"]]
        return rows

    def remove_pods(self) -> None:
        """Delete all pods in the default namespace."""
        for name in self.phases():
            try:
                self.api.delete(pod_path("default", name))
            except ApiError:
                continue
        until(lambda: not self.phases(), "all pods are gone")

    def _values(self) -> Json:
        port = free_port()
        api = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.cluster.port)}
        programs = self.cluster.programs
        return {
            "image": IMAGE,
            "imagePullPolicy": "Never",
            "command": [sys.executable, "-m", "gpuyard"],
            "schedulerImage": IMAGE,
            "schedulerPort": free_port(),
            "schedulerCommand": [str(programs / "kube-scheduler")],
            "emulated": GPUS,
            "speed": 1.0,
            "replicas": 1,
            "hostNetwork": True,
            "listen": f"127.0.0.1:{port}",
            "extenderUrl": f"https://127.0.0.1:{port}",
            "libraries": str(self.cluster.folder / "lib"),
            "sharedMemory": f"/dev/shm/gpuyard-{self.cluster.folder.name}",
            "tasks": str(KUBELET / "gpuyard-tasks"),  # the one folder that each node of the testbed has for itself
            "env": [{"name": key, "value": value} for key, value in {**api, **HERE}.items()],
            "volumes": [*self._volumes(), {"name": "programs", "hostPath": {"path": str(programs)}}],
            "volumeMounts": [*self._mounts(), {"name": "programs", "mountPath": str(programs), "readOnly": True}],
        }

    def _volumes(self) -> list[Json]:
        return [{"name": f"host-{i}", "hostPath": {"path": here}} for i, (here, _) in enumerate(_python())]

    def _mounts(self) -> list[Json]:
        return [{"name": f"host-{i}", "mountPath": there, "readOnly": True} for i, (_, there) in enumerate(_python())]


def _python() -> list[tuple[str, str]]:
    """Folders of this machine that its Python needs, and where a container has them."""
    own = {str(ROOT), sys.prefix, sys.base_prefix, *(each for each in sys.path if each.endswith("site-packages"))}
    apart = [each for each in sorted(own) if not any(each != other and each.startswith(f"{other}/") for other in own)]
    return [("/usr", "/usr"), ("/usr/lib", "/lib"), ("/usr/lib64", "/lib64"), *((each, each) for each in apart)]
