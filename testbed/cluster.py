"""A cluster on this machine: etcd, API server, controllers, a scheduler, and nodes with a real kubelet and containers.

Everything listens on loopback, on ports that are free, and keeps its files in one folder. Each node has its own
containerd, in a mount namespace of its own, in which its kubelet's folder is at the usual place.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import Path

import yaml

from gpuyard.kube.client.access import from_kubeconfig
from gpuyard.kube.client.api import PATIENT_S, Api, ApiError
from gpuyard.kube.install.certificates import make_certificates
from testbed.images import write_image

IMAGE = "docker.io/testbed/base:1"
SERVICES = "10.96.0.0/16"
KUBELET, LOGS = Path("/var/lib/kubelet"), Path("/var/log/pods")
PATIENCE_S = 300.0
ENDING_S, LOOK_S = 20.0, 1.0

PAUSE = """
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int number) { (void)number; _exit(0); }
static void collect(int number) { (void)number; while (waitpid(-1, NULL, WNOHANG) > 0) {} }
int main(void) {
    signal(SIGTERM, end);
    signal(SIGINT, end);
    signal(SIGCHLD, collect);
    while (1) pause();
}
"""


class LocalCluster:
    """One cluster; `start` and `stop` it."""

    def __init__(self, programs: Path, folder: Path, nodes: int = 2) -> None:
        self.programs, self.folder, self.nodes = programs, folder, [f"node-{number + 1}" for number in range(nodes)]
        self.kubeconfig, self.port = folder / "kubeconfig", free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._etcd, self._over = "", threading.Event()

    @cached_property
    def api(self) -> Api:
        """A client that may do everything."""
        return Api(from_kubeconfig(self.kubeconfig), PATIENT_S)

    def start(self) -> None:
        """Start everything, and wait until all nodes are ready."""
        self.start_control_plane()
        self.start_controllers()
        self.start_scheduler()
        image = self._image()
        for number, node in enumerate(self.nodes):
            self._start_containers(node, number)
            self._import(node, image)
            self.start_kubelet(node)
        until(lambda: len(self._ready()) == len(self.nodes), "the nodes are ready")
        threading.Thread(target=self._keep_alive, name="keeper", daemon=True).start()

    def _keep_alive(self) -> None:
        """Start what has ended by itself, as every machine does: controllers give up when they miss the API server."""
        while not self._over.wait(LOOK_S):
            for name, start in self.restartable().items():
                process = self._processes.get(name)
                if process is not None and process.poll() is not None and not self._over.is_set():
                    start()

    def stop(self) -> None:
        """End everything, containers too."""
        self._over.set()
        self.api.close()
        for name in [name for name in self._processes if name.startswith("kubelet")]:
            self.end(name)
        for node in self.nodes:
            self._end_containers(node)
        for name in list(self._processes):
            self.end(name)

    def restartable(self) -> dict[str, Callable[[], None]]:
        """Everything of Kubernetes that may end and begin anew while pods go on, and how it begins."""
        kubelets = {f"kubelet-{node}": partial(self.start_kubelet, node) for node in self.nodes}
        return {
            "etcd": self.start_etcd, "api-server": self.start_api_server, "controllers": self.start_controllers,
            "scheduler": self.start_scheduler, **kubelets,
        }  # fmt: skip

    def end(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        """End one program."""
        process = self._processes.pop(name)
        process.send_signal(how)
        try:
            process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def answers(self) -> bool:
        """Whether the API server does."""
        try:
            return bool(self.api.get("/api/v1/namespaces/default"))
        except ApiError:
            return False

    # Control plane

    def start_control_plane(self) -> None:
        """Start the store and the API server alone."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write_secrets()
        self.start_etcd()
        self.start_api_server()

    def start_etcd(self) -> None:
        """Start the store."""
        peers = f"http://127.0.0.1:{free_port()}"
        self._etcd = self._etcd or f"http://127.0.0.1:{free_port()}"
        self._start("etcd", [
            "etcd", "--data-dir", str(self.folder / "etcd"), "--unsafe-no-fsync", "--listen-peer-urls", peers,
            "--listen-client-urls", self._etcd, "--advertise-client-urls", self._etcd,
        ])  # fmt: skip

    def start_api_server(self) -> None:
        """Start the API server, and wait until it answers."""
        secret = self.folder / "secrets"
        self._start("api-server", [
            self._program("kube-apiserver"), f"--etcd-servers={self._etcd}", "--bind-address=127.0.0.1",
            f"--secure-port={self.port}", f"--tls-cert-file={secret}/tls.crt",
            f"--tls-private-key-file={secret}/tls.key", f"--token-auth-file={secret}/tokens.csv",
            "--authorization-mode=RBAC", f"--service-account-key-file={secret}/accounts.pub",
            *([] if self.nodes else ["--disable-admission-plugins=ServiceAccount"]),
            f"--service-account-signing-key-file={secret}/accounts.key", f"--service-cluster-ip-range={SERVICES}",
            "--service-account-issuer=https://kubernetes.default.svc", "--allow-privileged=true",
        ])  # fmt: skip
        until(self.answers, "the API server answers")

    def start_controllers(self) -> None:
        """Start the controllers of jobs, deployments and whatever else is Kubernetes' own."""
        secret = self.folder / "secrets"
        self._start("controllers", [
            self._program("kube-controller-manager"), f"--kubeconfig={self.kubeconfig}", "--leader-elect=false",
            "--port=0", f"--secure-port={free_port()}", "--bind-address=127.0.0.1", f"--root-ca-file={secret}/ca.crt",
            f"--service-account-private-key-file={secret}/accounts.key",
        ])  # fmt: skip

    def start_scheduler(self) -> None:
        """Start the cluster's own scheduler, which knows nothing of gpuyard."""
        self._start("scheduler", [
            self._program("kube-scheduler"), f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--port=0",
            f"--secure-port={free_port()}", "--bind-address=127.0.0.1",
        ])  # fmt: skip

    # Nodes

    def start_kubelet(self, node: str) -> None:
        """Start the kubelet of a node, among the mounts of its containers."""
        containers = self._processes[f"containers-{node}"].pid
        self._start(f"kubelet-{node}", [
            "nsenter", f"--mount=/proc/{containers}/ns/mnt", self._program("kubelet"),
            f"--kubeconfig={self.kubeconfig}", f"--hostname-override={node}", "--address=127.0.0.1",
            f"--port={free_port()}", "--read-only-port=0", f"--healthz-port={free_port()}", f"--root-dir={KUBELET}",
            "--container-runtime=remote", f"--container-runtime-endpoint=unix://{self._containers(node)}",
            "--cgroup-driver=cgroupfs", f"--cgroup-root=/{self.folder.name}-{node}", "--cgroups-per-qos=false",
            "--enforce-node-allocatable=", "--fail-swap-on=false", "--oom-score-adj=0", "--eviction-hard=",
            "--anonymous-auth=true", "--authorization-mode=AlwaysAllow", "--resolv-conf=", "--max-pods=250",
        ])  # fmt: skip

    def _start_containers(self, node: str, number: int) -> None:
        home = self.folder / node
        (home / "kubelet").mkdir(parents=True)
        (home / "network").mkdir()
        network = {"type": "ptp", "ipam": {
            "type": "host-local", "subnet": f"10.88.{number}.0/24", "dataDir": str(home / "addresses"),
        }}  # fmt: skip
        listed = {"cniVersion": "0.4.0", "name": node, "plugins": [network]}
        (home / "network" / "10.conflist").write_text(json.dumps(listed))
        config = home / "containerd.toml"
        config.write_text(f"""version = 2
root = "{home}/images"
state = "{home}/state"
[grpc]
address = "{self._containers(node)}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{IMAGE}"
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{home}/network"
""")
        # Kubelets remove logs of pods that they do not know: each has a folder of its own for them, too.
        own = {home / "kubelet": KUBELET, home / "logs": LOGS}
        for here, there in own.items():
            here.mkdir(exist_ok=True)
            there.mkdir(parents=True, exist_ok=True)
        script = 'mount --bind "$1" "$2" && mount --bind "$3" "$4" && exec containerd --config "$5"'
        mounts = [str(path) for pair in own.items() for path in pair]
        self._start(f"containers-{node}", [
            "unshare", "--mount", "sh", "-c", script, "sh", *mounts, str(config),
        ])  # fmt: skip
        until(lambda: self._ctr(node, "version").returncode == 0, f"containerd of {node} answers")

    def _import(self, node: str, image: Path) -> None:
        done = self._ctr(node, "images", "import", str(image))
        assert done.returncode == 0, done.stderr

    def _end_containers(self, node: str) -> None:
        for task in self._ctr(node, "tasks", "list", "--quiet").stdout.split():
            self._ctr(node, "tasks", "kill", "--signal", "SIGKILL", task)
        until(lambda: "RUNNING" not in self._ctr(node, "tasks", "list").stdout, f"the containers of {node} have ended")

    def kill_container(self, node: str, pod: str, container: str) -> bool:
        """Kill what runs in a container, as a lack of memory would; whether there was any."""
        wanted = {"io.kubernetes.pod.name": pod, "io.kubernetes.container.name": container}
        only = ",".join(f'labels."{label}"=={value}' for label, value in wanted.items())
        found = self._ctr(node, "containers", "list", "--quiet", only).stdout.split()
        return any(self._ctr(node, "tasks", "kill", "--signal", "SIGKILL", each).returncode == 0 for each in found)

    def _ctr(self, node: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = ["ctr", "--address", str(self._containers(node)), "--namespace", "k8s.io", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def _containers(self, node: str) -> Path:
        return self.folder / node / "containerd.sock"

    # Files

    def _write_secrets(self) -> None:
        folder, token = self.folder / "secrets", secrets.token_hex(16)
        folder.mkdir(mode=0o700)
        names = ("kubernetes", "kubernetes.default", "127.0.0.1", "10.96.0.1")
        for name, content in make_certificates("kubernetes.default.svc", names).items():
            (folder / name).write_bytes(content)
        (folder / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
        for command in (
            ["openssl", "genrsa", "-out", "accounts.key", "2048"],
            ["openssl", "rsa", "-in", "accounts.key", "-pubout", "-out", "accounts.pub"],
        ):
            subprocess.run(command, cwd=folder, capture_output=True, check=True)
        here = {"server": f"https://127.0.0.1:{self.port}", "certificate-authority": str(folder / "ca.crt")}
        self.kubeconfig.write_text(yaml.safe_dump({
            "apiVersion": "v1", "kind": "Config", "current-context": "testbed",
            "clusters": [{"name": "testbed", "cluster": here}], "users": [{"name": "admin", "user": {"token": token}}],
            "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": "admin"}}],
        }))  # fmt: skip
        self.kubeconfig.chmod(0o600)

    def _image(self) -> Path:
        """An image with a shell, and what holds a pod's namespaces."""
        root = self.folder / "root"
        for name in ("bin", "tmp", "proc", "dev", "etc"):
            (root / name).mkdir(parents=True)
        source = self.folder / "pause.c"
        source.write_text(PAUSE)
        subprocess.run(["gcc", "-O2", "-static", "-o", str(root / "pause"), str(source)], check=True)
        shutil.copy("/bin/busybox", root / "bin" / "busybox")
        (root / "bin" / "sh").symlink_to("busybox")
        target = self.folder / "image.tar"
        write_image(root, IMAGE.removeprefix("docker.io/"), target, "/pause")
        return target

    # Processes

    def _program(self, name: str) -> str:
        return str(self.programs / name)

    def _start(self, name: str, command: list[str], environment: Mapping[str, str] = os.environ) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(environment), start_new_session=True
            )

    def _ready(self) -> list[str]:
        nodes = self.api.get("/api/v1/nodes")["items"]
        return [
            node["metadata"]["name"]
            for node in nodes
            for each in node["status"].get("conditions") or []
            if (each["type"], each["status"]) == ("Ready", "True")
        ]


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


def until(true: Callable[[], object], what: str, seconds: float = PATIENCE_S) -> None:
    """Wait until something holds; the deadline is only a guard."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"not after {seconds:g} s: {what}")
        time.sleep(0.5)
