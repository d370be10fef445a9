"""What can be chosen when gpuyard is installed: the fields of a YAML file, the same for commands and the chart."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from gpuyard._version import __version__
from gpuyard.core.errors import InputError, nearest
from gpuyard.kube.json_objects import JsonObject
from gpuyard.profiles.gpus import parse_gpus


@dataclass(frozen=True)
class Values:
    """Everything that differs between installations."""

    namespace: str = "gpuyard-system"
    """Where gpuyard's own pods are."""
    image: str = f"gpuyard:{__version__}"
    """An image in which `pip install 'gpuyard[kube]'` was done."""
    imagePullPolicy: str = "IfNotPresent"  # noqa: N815
    """When nodes fetch images."""
    command: list[str] = field(default_factory=lambda: ["gpuyard"])
    """How gpuyard is started in it."""
    schedulerImage: str = "registry.k8s.io/kube-scheduler:v1.31.0"  # noqa: N815
    """Of the version of the cluster."""
    schedulerCommand: list[str] = field(default_factory=lambda: ["kube-scheduler"])  # noqa: N815
    """How the scheduler is started in it."""
    schedulerPort: int = 10259  # noqa: N815
    """Where the scheduler tells that it works; another one where it is on a node's network beside the cluster's own."""
    gpus: str = field(default="emulated", metadata={"choices": ("emulated", "nvml")})
    """Which GPUs nodes offer: emulated ones, or their own, as NVML tells of them."""
    emulated: str = "4xV100"
    """The emulated GPUs of each node that has them."""
    speed: float = 1.0
    """How much faster than real time emulated GPUs work."""
    runtimeClass: str = ""  # noqa: N815
    """With nvml: the runtime class by which the device plugin gets the driver, as nvidia; empty: the usual one does."""
    nodeSelector: JsonObject = field(default_factory=lambda: {"gpuyard.io/gpus": "emulated"})  # noqa: N815
    """The nodes that have GPUs, by their labels."""
    multiplex: str = "interference"
    """The policy by which tasks share GPUs."""
    jobs: str = ""
    """The policy by which gangs of pods (TrainingJob) are scheduled, as las+tune; empty: they are not."""
    jobsRound: float = 60.0  # noqa: N815
    """Seconds between two decisions about gangs."""
    jobsStarvation: str = ""  # noqa: N815
    """How long a gang waits until it goes first, as 6h; empty: as long as the order lets it."""
    jobsQuotas: str = ""  # noqa: N815
    """Most GPUs that gangs of tenants may hold, as in research=16,teaching=4."""
    replicas: int = 2
    """Of the extender and of the scheduler: one leads, the others wait."""
    hostNetwork: bool = False  # noqa: N815
    """Where a cluster has no network for services, the extender and the scheduler meet on the node's own."""
    extenderUrl: str = ""  # noqa: N815
    """Where the scheduler finds the extender; empty: at its service."""
    listen: str = "0.0.0.0:12345"
    """Where the extender listens."""
    networkPolicy: bool = True  # noqa: N815
    """Whether only the scheduler may reach the extender, and nobody the other parts."""
    metricsFrom: list[JsonObject] = field(default_factory=list)  # noqa: N815
    """Who else may reach the extender, for its /metrics: peers as in a NetworkPolicy."""
    makeCertificates: bool = True  # noqa: N815
    """For the chart alone: a job makes the certificates in the cluster; otherwise their secrets are there already."""
    libraries: str = "/var/lib/gpuyard/lib"
    """A folder of nodes: the libraries that pods find."""
    sharedMemory: str = "/dev/shm/gpuyard"  # noqa: N815, S108
    """A folder of nodes: where programs on one emulated GPU meet."""
    tasks: str = "/var/lib/gpuyard/tasks"
    """A folder of nodes: what the device plugin notes of tasks, and the node daemon's socket."""
    env: list[JsonObject] = field(default_factory=list)
    """Variables of every container of gpuyard."""
    volumes: list[JsonObject] = field(default_factory=list)
    """Added to every pod of gpuyard."""
    volumeMounts: list[JsonObject] = field(default_factory=list)  # noqa: N815
    """Added to every container of gpuyard."""

    @property
    def port(self) -> int:
        """Where the extender listens."""
        return int(self.listen.rpartition(":")[2])

    @property
    def url(self) -> str:
        """Where the scheduler finds the extender."""
        return self.extenderUrl or f"https://gpuyard-extender.{self.namespace}.svc:{self.port}"


def read_values(path: Path | None, **given: Any) -> Values:
    """Values of a file, and those that were given otherwise; InputError names what is wrong."""
    content: Any = {}
    if path is not None:
        try:
            content = yaml.safe_load(path.read_text()) or {}
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", file=path) from None
        except yaml.YAMLError as error:
            raise InputError(f"is not YAML: {error}", file=path) from None
    known = {each.name: each for each in fields(Values)}
    if not isinstance(content, dict):
        raise InputError("must be fields and their values", file=path)
    usual = Values()
    for name, value in content.items():
        if name not in known:
            raise InputError("is not a value of gpuyard", file=path, field=name, hint=nearest(str(name), known))
        wanted = type(getattr(usual, name))
        if not isinstance(value, wanted) and not (wanted is float and type(value) is int):
            raise InputError(f"must be a {wanted.__name__}", file=path, field=name, value=value)
        choices = known[name].metadata.get("choices", (value,))
        if value not in choices:
            raise InputError(f"is none of {', '.join(choices)}", file=path, field=name, value=value)
    values = replace(usual, **content | {name: value for name, value in given.items() if value is not None})
    parse_gpus(values.emulated)
    if not re.fullmatch(r".+:\d{1,5}", values.listen):
        raise InputError("is not HOST:PORT", file=path, field="listen", value=values.listen, hint="As in 0.0.0.0:12345")
    if values.replicas < 1:
        raise InputError("must be at least 1", file=path, field="replicas", value=values.replicas)
    return values


def values_docs() -> dict[str, str]:
    """What each value is, in the words that stand below it here."""
    (definition,) = ast.parse(inspect.getsource(Values)).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for stated, below in pairwise(definition.body):
        match stated, below:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                found[name] = " ".join(text.split())
    return found
