"""The parts of gpuyard kube that run in a cluster: each is started in a pod of its own."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuyard.cli.output import say

if TYPE_CHECKING:
    from gpuyard.kube.jobs.controller import JobSettings
    from gpuyard.kube.judging import PodJudge
    from gpuyard.kube.objects import YardGpu

Kubeconfig = Annotated[
    Path | None, typer.Option(metavar="FILE", help="How to reach the cluster; by default as kubectl and pods do.")
]
Emulated = Annotated[str, typer.Option(metavar="GPUS", help="The emulated GPUs of this node, as in 4xV100.")]
Real = Annotated[bool, typer.Option("--real", help="The GPUs that this node has, as NVML tells of them.")]
HeartbeatFile = Annotated[
    Path | None,
    typer.Option("--heartbeat", metavar="FILE", help="A file to renew while all works: 'kube alive' looks at it."),
]
NodeName = Annotated[
    str, typer.Option("--node", metavar="NAME", envvar="NODE_NAME", help="The name of this node in the cluster.")
]
PodResources = Annotated[
    Path, typer.Option(metavar="FILE", help="The socket by which the kubelet says which pod has what.")
]
POD_RESOURCES = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
TASKS = Path("/var/lib/gpuyard/tasks")
WAIT_S = 2.0


def extender(
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the scheduler asks.")] = "127.0.0.1:12345",
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="Certificate; without one, plain HTTP.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its key.")] = None,
    client_ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Who asks must show a certificate signed by this authority.")
    ] = None,
    lease_namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Where replicas elect a leader; without it this is the only one.")
    ] = "",
    observations: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What was measured of mixes, to place tasks by.")
    ] = None,
    multiplex: Annotated[
        str, typer.Option(metavar="NAME", help="The policy by which tasks share GPUs, as in a simulation.")
    ] = "interference",
    jobs: Annotated[
        str, typer.Option(metavar="POLICY", help="Schedule gangs of pods (TrainingJob), too, as in las+tune.")
    ] = "",
    round: Annotated[str, typer.Option(metavar="TIME", help="Time between two decisions about gangs.")] = "60s",
    quota: Annotated[
        str, typer.Option(metavar="TENANT=GPUS,…", help="Most GPUs that gangs of a tenant may hold.")
    ] = "",
    starvation: Annotated[
        str, typer.Option(metavar="none|TIME", help="Let a gang that has waited this long go first.")
    ] = "none",
    tries: Annotated[int, typer.Option(min=1, help="Attempts without a step until a gang is given up.")] = 3,
    leave: Annotated[float, typer.Option(metavar="SECONDS", min=1, help="Time for a gang to save and leave.")] = 30.0,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Answer kube-scheduler: which nodes have room for a pod, how good each is, and bind it to a GPU there.

    Runs until it is ended. /healthz, /readyz and /metrics are there for anybody.
    """
    if jobs:  # to compile takes minutes at each start of a container; without, deciding for 1,000 gangs takes 0.2 s
        os.environ.setdefault("NUMBA_DISABLE_JIT", "1")
    from gpuyard.core.errors import InputError
    from gpuyard.kube.client.access import find_access
    from gpuyard.kube.client.api import Api
    from gpuyard.kube.extender.running import ExtenderSettings, running_extender
    from gpuyard.kube.extender.server import server_tls

    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or not host or int(port) > 65535:
        raise InputError("is not HOST:PORT, as in 127.0.0.1:12345", field="listen", value=listen)
    if (tls_cert is None) != (tls_key is None) or (client_ca and not tls_cert):
        raise InputError("go together: a certificate and its key, and --client-ca with both", field="tls_cert, tls_key")
    tls = server_tls(tls_cert, tls_key, client_ca) if tls_cert and tls_key else None
    judge = _judge(multiplex, observations)
    me = f"{socket.gethostname()}-{os.getpid()}"
    settings = ExtenderSettings(host.strip("[]"), int(port), tls, lease_namespace, me, os.environ.get("POD_NAME", ""))
    if jobs:
        settings = replace(settings, jobs=_gangs(jobs, round, quota, tries, leave, starvation))
    with running_extender(Api(find_access(kubeconfig)), judge, settings, say) as server:
        say(f"answering the scheduler at {'https' if tls else 'http'}://{host}:{server.server_port}")
        signal.pause()


def device_plugin(
    node: NodeName,
    emulated: Emulated = "",
    real: Real = False,
    libraries: Annotated[
        Path, typer.Option(metavar="DIR", help="A folder of the node: where pods find libraries.")
    ] = Path("/var/lib/gpuyard/lib"),
    shared_memory: Annotated[
        Path, typer.Option(metavar="DIR", help="A folder of the node: where programs on one GPU meet.")
    ] = Path("/dev/shm/gpuyard"),  # noqa: S108
    tasks: Annotated[
        Path, typer.Option(metavar="DIR", help="A folder of the node: the node daemon's socket, and what it needs.")
    ] = TASKS,
    plugins: Annotated[Path, typer.Option(metavar="DIR", help="Where the kubelet's socket is.")] = Path(
        "/var/lib/kubelet/device-plugins"
    ),
    pod_resources: PodResources = POD_RESOURCES,
    out_of_order: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The numbers of GPUs that nobody shall get; may change.")
    ] = None,
    speed: Annotated[float, typer.Option(metavar="FACTOR", help="How much faster than real time GPUs work.")] = 1.0,
    devices: Annotated[
        Path, typer.Option(metavar="DIR", help="With --real: where the node's devices are seen.")
    ] = Path("/dev"),
    driver: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="With --real: a folder of the node with libcuda.so.1, where no runtime gives it to pods.",
        ),
    ] = None,
    memory_limit: Annotated[
        bool, typer.Option(help="With --real: refuse programs more memory than their container asked for.")
    ] = True,
    heartbeat: HeartbeatFile = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Offer a node's GPUs to its kubelet: memory of GPUs that are shared, and whole GPUs. Runs until it is ended."""
    from gpuyard.kube.client.access import find_access
    from gpuyard.kube.client.api import Api
    from gpuyard.kube.plugin.container_gpus import POD_DEVICES
    from gpuyard.kube.plugin.device_plugin import DevicePlugin, PluginSettings
    from gpuyard.kube.plugin.service import DeviceSource

    _either(emulated, real)
    source: DeviceSource
    if real:
        from gpuyard.kube.plugin.nvml_devices import NvmlDevices
        from gpuyard.kube.plugin.nvml_library import NvmlLibrary

        source = NvmlDevices(NvmlLibrary(say), tasks, libraries, devices=devices, driver=driver, limits=memory_limit)
    else:
        from gpuyard.emulation.settings import Settings
        from gpuyard.kube.plugin.emulated_devices import EmulatedDevices

        Settings(emulated, speed=speed).check()
        source = EmulatedDevices(emulated, node, libraries, shared_memory, tasks, speed)
        source.present()  # refuses GPUs that nobody knows, before anything is written
    source.prepare()
    settings = PluginSettings(node, plugins, pod_resources, out_of_order, heartbeat, tasks / POD_DEVICES)
    DevicePlugin(settings, source, Api(find_access(kubeconfig)), say).run()


def node(
    node: NodeName,
    emulated: Emulated = "",
    real: Real = False,
    tasks: Annotated[
        Path, typer.Option(metavar="DIR", help="A folder of the node: where the device plugin notes tasks.")
    ] = TASKS,
    heartbeat: HeartbeatFile = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Hear the tasks of this node, tune the batch sizes of those that share a GPU, and tell the cluster how they are.

    Runs until it is ended.
    """
    from gpuyard.kube.client.access import find_access
    from gpuyard.kube.client.api import Api
    from gpuyard.kube.heartbeat import answers_lines, start_beating
    from gpuyard.kube.node.running import NodeDaemon, NodeSettings
    from gpuyard.kube.plugin.container_gpus import NOTES, POD_DEVICES, RECORDS, SOCKETS, STEPS_SOCKET, TASK_SOCKET

    _either(emulated, real)
    sockets = tasks / SOCKETS
    settings = NodeSettings(
        node, tasks / RECORDS, tasks / NOTES, sockets / TASK_SOCKET, sockets / STEPS_SOCKET, tasks / POD_DEVICES
    )
    gpus = _gpus_of_node(emulated, tasks)
    api = Api(find_access(kubeconfig))
    whole = NodeDaemon(settings, gpus, api, say)
    with whole.running() as daemon:
        say(f"tasks are heard in {sockets}")
        if heartbeat is not None:
            start_beating(heartbeat, lambda: not whole.trouble and answers_lines(sockets / TASK_SOCKET), say)
        daemon.run()


def alive(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The --heartbeat of a part.")],
    within: Annotated[float, typer.Option(metavar="SECONDS", help="How old it may be.")] = 60.0,
) -> None:
    """Say whether a part that renews this file works: the probe of its kubelet. Exits with 1 if it does not."""
    from gpuyard.kube.heartbeat import why_not_alive

    if missing := why_not_alive(file, within):
        say(missing)
        raise typer.Exit(1)


def _either(emulated: str, real: bool) -> None:
    from gpuyard.core.errors import InputError

    if bool(emulated) == real:
        rule = "say which GPUs there are, one of the two"
        raise InputError(
            rule, field="emulated, real", value=emulated or None, hint="As in --emulated 4xV100, or --real"
        )


def _gpus_of_node(emulated: str, tasks: Path) -> Sequence[YardGpu]:
    """Those that are emulated, or those that the device plugin has written down, as soon as it has."""
    from gpuyard.kube.objects import YardGpu, whole_gib
    from gpuyard.kube.plugin.gpu_numbers import FILE, as_yard_gpu, read_numbers
    from gpuyard.profiles.gpus import parse_gpus

    if emulated:
        kinds = parse_gpus(emulated)
        return [YardGpu(index, kind.key, whole_gib(kind.memory_bytes)) for index, kind in enumerate(kinds)]
    while not (found := read_numbers(tasks)):
        say(f"waiting for the device plugin, which writes {tasks / FILE}")
        time.sleep(WAIT_S)
    return [as_yard_gpu(index, gpu) for index, gpu in enumerate(found)]


def _gangs(policy: str, round_time: str, quota: str, tries: int, leave_s: float, starvation: str) -> JobSettings:
    from gpuyard.core.errors import InputError
    from gpuyard.core.units import seconds
    from gpuyard.kube.jobs.controller import JobSettings
    from gpuyard.kube.quotas import read_quotas
    from gpuyard.policies.resolve import resolve
    from gpuyard.profiles import load_zoo

    round_s = seconds(round_time, "round")
    if round_s <= 0:
        raise InputError("must be longer than nothing", field="round", value=round_time)
    limit = None if starvation == "none" else seconds(starvation, "starvation")
    chosen = resolve(policy, starvation_s=limit)
    return JobSettings(chosen, load_zoo(), round_s, read_quotas(quota, "quota"), leave_s, tries=tries)


def _judge(multiplex: str, observations: Path | None) -> PodJudge:
    from gpuyard.kube.judging import PodJudge, sharing_rule
    from gpuyard.policies.multiplex.interference import InterferenceModel
    from gpuyard.policies.multiplex.observation_files import read_observations

    known = read_observations(observations) if observations else InterferenceModel()
    return PodJudge(sharing_rule(multiplex), known)
