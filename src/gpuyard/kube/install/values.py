"""What can be chosen when gpuyard is installed: the fields of a YAML file, the same for commands and the chart."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

from gpuyard._version import __version__
from gpuyard.core.errors import InputError, nearest
from gpuyard.kube.install.value_rules import RULES
from gpuyard.kube.json_objects import JsonObject
from gpuyard.kube.judging import sharing_rule
from gpuyard.kube.plain_yaml import read_plain_yaml
from gpuyard.kube.quotas import read_quotas
from gpuyard.policies.resolve import resolve
from gpuyard.profiles.gpus import parse_gpus

OWN_VARIABLES = ("NODE_NAME", "POD_NAME")
"""Variables that containers of gpuyard are told who they are by."""


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
        content = read_plain_yaml(path, "file of values") or {}
    if not isinstance(content, dict):
        raise InputError("must be fields and their values", file=path, value=content)
    stated = {name: value for name, value in given.items() if value is not None}
    for name, value in content.items():
        if name not in RULES:
            raise InputError("is not a value of gpuyard", file=path, field=name, hint=nearest(name, RULES))
        RULES[name].check(name, value, path)
    for name, value in stated.items():
        RULES[name].check(name, value, None)
    values = replace(Values(), **content | stated)
    _check_policies(values, path)
    _check_folders(values, path)
    _check_env(values, path)
    with _field("emulated", values.emulated, None if "emulated" in stated else path):
        parse_gpus(values.emulated)
    return values


@contextmanager
def _field(name: str, value: Any, path: Path | None) -> Iterator[None]:
    """Let what others say of a value name the file and the field that it is from."""
    try:
        yield
    except InputError as error:
        wrong = value if error.value is None else error.value
        raise InputError(error.rule, file=path, field=name, value=wrong, hint=error.hint) from None


def _check_policies(values: Values, path: Path | None) -> None:
    """Those of gpuyard and of installed packages; files are looked for where the extender runs, in its image."""
    if ".py:" not in values.multiplex:
        with _field("multiplex", values.multiplex, path):
            sharing_rule(values.multiplex)
    if values.jobs and ".py:" not in values.jobs:
        with _field("jobs", values.jobs, path):
            resolve(values.jobs)
    with _field("jobsQuotas", values.jobsQuotas, path):
        read_quotas(values.jobsQuotas, "jobsQuotas")


def _check_folders(values: Values, path: Path | None) -> None:
    """Each is a folder of its own: what is written into one must not be seen in another."""
    folders = {name: f"{getattr(values, name)}/" for name in ("libraries", "sharedMemory", "tasks")}
    for (name, folder), (other, another) in permutations(folders.items(), 2):
        if folder.startswith(another):
            rule, hint = f"is the folder of {other}, or in it", "Give each of them a folder of its own"
            raise InputError(rule, file=path, field=name, value=getattr(values, name), hint=hint)


def _check_env(values: Values, path: Path | None) -> None:
    """Kubernetes would take the last of two variables of one name without a word, and ours are needed."""
    names = [each["name"] for each in values.env]
    for at, name in enumerate(names):
        if name in OWN_VARIABLES or name in names[:at]:
            rule = "is set by gpuyard itself" if name in OWN_VARIABLES else "stands twice"
            raise InputError(rule, file=path, field=f"env[{at}].name", value=name)


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
