"""gpuyard in a cluster of this machine: how its parts and tasks find this machine's Python, and what tests ask."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from gpuyard.kube.client.api import ApiError, pod_path
from gpuyard.kube.objects import GpuPod, read_pod
from testbed.cluster import IMAGE, KUBELET, LocalCluster, free_port, until

ROOT = Path(__file__).resolve().parents[1]
GPUS_OF_NODE, GIB_OF_GPU = 4, 31
GPUS = f"{GPUS_OF_NODE}xV100"
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
PARTS = "/api/v1/namespaces/gpuyard-system/pods"
LABEL = {"gpuyard.io/gpus": "emulated"}
HERE = {"PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
"""Parts and pods run the sources of this very folder, whichever installation their Python belongs to."""
GRACE_S = 1
Json = dict[str, Any]


class Yard:
    """gpuyard, installed in a cluster by its own command."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster, self.api = cluster, cluster.api
        self.listen = f"127.0.0.1:{free_port()}"
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

    def submit_tunable(self, name: str, gib: int, batch: int, *, changes: int = 1, seconds: float = 0.0) -> None:
        """Create a pod that trains with the batch size that is wished of it, until it was left alone for a while.

        It does not end before its size was changed so often, nor before so many seconds.
        """
        words = ["/programs/tunable.py", str(gib / 2), str(batch), str(changes), str(seconds)]
        self.api.post(PODS, self.pod(name, gib, [sys.executable, *words], step_us=500))

    def submit_job(self, name: str, gib: int, steps: int, *, pods: int, together: int) -> None:
        """Create a Job, which makes pods until so many have trained: one that fails is made anew."""
        pod = self.pod(name, gib, [sys.executable, "/programs/train.py", str(gib / 2), str(steps)])
        template = {"metadata": {"labels": {"app": name}}, "spec": pod["spec"]}
        spec = {"completions": pods, "parallelism": together, "backoffLimit": 1000, "template": template}
        self.api.post(JOBS, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})

    def leave_one_gpu(self) -> None:
        """Take all GPUs but one, as a whole, so that those who come next must share."""
        first, last = self.cluster.nodes[0], self.cluster.nodes[-1]
        for node, count in ((first, GPUS_OF_NODE), (last, GPUS_OF_NODE - 1)):
            forever = [sys.executable, "/programs/train.py", "1", "1000000"]
            pod = self.pod(f"all-of-{node}", count, forever, resource="gpuyard.io/gpu", step_us=1_000_000)
            self.api.post(PODS, pod)
        until(lambda: all(pod.devices for pod in self.pods().values()), "all GPUs but one are taken")

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

    def place(self, name: str) -> tuple[str, tuple[int, ...]]:
        """The node and the GPUs of a pod."""
        pod = self.pods()[name]
        return pod.node, pod.devices

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
            self.end_part(name)

        def replaced() -> bool:
            now = self._parts(part)
            return len(now) == len(before) and all(now.values()) and not set(now) & set(before)

        until(replaced, f"{part} has begun anew")

    def end_part(self, name: str) -> None:
        """Delete a pod of gpuyard's own; Kubernetes makes another one."""
        self.api.delete(f"{PARTS}/{name}?gracePeriodSeconds={GRACE_S}")

    def parts(self, part: str) -> list[Json]:
        """The pods of a part of gpuyard."""
        return list(self.api.get(PARTS, labelSelector=f"app={part}")["items"])

    def _parts(self, part: str) -> dict[str, bool]:
        """The names of these, and whether each is ready."""
        return {
            each["metadata"]["name"]: ("Ready", "True")
            in {(one["type"], one["status"]) for one in each["status"].get("conditions") or []}
            for each in self.parts(part)
        }

    def allocatable(self, node: str) -> int:
        """How many GiB of GPUs a kubelet offers."""
        found = self.api.get(f"/api/v1/nodes/{node}")["status"]["allocatable"]
        return int(found.get("gpuyard.io/gpu-memory", 0))

    def expect(self, *names: str) -> None:
        """Wait until these pods have trained; whoever fails is told of at once."""

        def trained() -> bool:
            phases = {name: self.phase(name) for name in names}
            assert "Failed" not in phases.values(), [self.end_of(name) for name in names if phases[name] == "Failed"]
            return set(phases.values()) == {"Succeeded"}

        until(trained, f"{', '.join(names)} have trained")

    def remove_all(self) -> None:
        """Delete all jobs and pods in the default namespace."""
        for job in self.api.get(JOBS)["items"]:
            self.api.delete(f"{JOBS}/{job['metadata']['name']}")

        def gone() -> bool:
            for name in self.phases():
                with suppress(ApiError):  # it is on its way
                    self.api.delete(pod_path("default", name))
            return not self.phases()

        until(gone, "all pods are gone")

    def _values(self) -> Json:
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
            "jobs": "fifo+proportional",
            "jobsRound": 2.0,
            "hostNetwork": True,
            "listen": self.listen,
            "extenderUrl": f"https://{self.listen}",
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
