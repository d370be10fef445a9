"""gpuyard kube: tasks that share GPUs on Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuyard.cli.kube_jobs import cancel, jobs, submit
from gpuyard.cli.kube_parts import Kubeconfig, alive, device_plugin, extender, node
from gpuyard.cli.output import Format, emit, say
from gpuyard.core.errors import InputError

if TYPE_CHECKING:
    from gpuyard.kube.client.api import Api

DEFAULT_MINOR = 31
"""The Kubernetes 1.x that manifests are printed for unless another one is named."""

app = typer.Typer(
    help="Let training tasks share GPUs on Kubernetes: the parts that run there, and what installs and shows them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)
app.command()(extender)
app.command()(device_plugin)
app.command()(node)
app.command()(alive)
app.command()(submit)
app.command()(jobs)
app.command()(cancel)

ValuesFile = Annotated[
    Path | None, typer.Option("--values", metavar="FILE", help="YAML: what is to differ from the defaults.")
]
Namespace = Annotated[str | None, typer.Option(metavar="NAME", help="Where gpuyard's own pods are.")]


@app.command()
def render(
    values: ValuesFile = None,
    namespace: Namespace = None,
    image: Annotated[str | None, typer.Option(metavar="IMAGE", help="The image of gpuyard.")] = None,
    emulated: Annotated[str | None, typer.Option(metavar="GPUS", help="The emulated GPUs of each node.")] = None,
    kubernetes: Annotated[
        str, typer.Option(metavar="1.X", help="For which version of Kubernetes.")
    ] = f"1.{DEFAULT_MINOR}",
    secrets: Annotated[
        bool, typer.Option("--secrets/--no-secrets", help="With certificates, made anew each time.")
    ] = True,
) -> None:
    """Print all manifests, as YAML for 'kubectl apply -f -'."""
    import yaml

    from gpuyard.kube.install.manifests import manifests
    from gpuyard.kube.install.values import read_values

    chosen = read_values(values, namespace=namespace, image=image, emulated=emulated)
    major, _, minor = kubernetes.partition(".")
    if major != "1" or not minor.isdecimal() or int(minor) < 20:
        raise InputError(
            "is not a version of Kubernetes from 1.20 on, as in 1.31", field="kubernetes", value=kubernetes
        )
    files = _certificates(chosen.namespace) if secrets else None
    print(yaml.safe_dump_all(manifests(chosen, int(minor), files), sort_keys=False, width=120), end="")


@app.command()
def chart(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write it: a folder that is not there yet.")],
) -> None:
    """Write a Helm chart that installs the same as 'install', by the same values."""
    from gpuyard.kube.install.chart import write_chart

    write_chart(out)
    say(f"helm install gpuyard {out} --namespace gpuyard-system --create-namespace")


@app.command()
def certificates(namespace: Namespace = None, kubeconfig: Kubeconfig = None) -> None:
    """Make the secrets with certificates in a cluster, for what 'render --no-secrets' prints, unless they are there."""
    from gpuyard.kube.install.installing import make_once
    from gpuyard.kube.install.manifests import marked, secret_objects
    from gpuyard.kube.install.values import read_values

    chosen = read_values(None, namespace=namespace)
    with _api(kubeconfig) as api:
        made = make_once(api, marked(secret_objects(chosen, _certificates(chosen.namespace))))
    say(f"made {', '.join(made)}" if made else "the certificates are there")


@app.command()
def install(
    values: ValuesFile = None,
    namespace: Namespace = None,
    image: Annotated[str | None, typer.Option(metavar="IMAGE", help="The image of gpuyard.")] = None,
    emulated: Annotated[str | None, typer.Option(metavar="GPUS", help="The emulated GPUs of each node.")] = None,
    wait: Annotated[float, typer.Option(metavar="SECONDS", help="How long to wait until all of it runs.")] = 120.0,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Install gpuyard in a cluster, or bring it up to date; certificates that are there are kept."""
    from gpuyard.kube.install.installing import DEFINITION, apply_all, is_there, minor_version, wait_until_ready
    from gpuyard.kube.install.manifests import manifests
    from gpuyard.kube.install.values import read_values

    chosen = read_values(values, namespace=namespace, image=image, emulated=emulated)
    with _api(kubeconfig) as api:
        made = manifests(chosen, minor_version(api), _certificates(chosen.namespace))
        there = [each for each in made if each["kind"] == "Secret" and is_there(api, each)]
        wanted = made if len(there) < 2 else [each for each in made if each["kind"] != "Secret"]
        kinds = [each for each in wanted if each["kind"] == DEFINITION]
        for part in (kinds, [each for each in wanted if each["kind"] != DEFINITION]):
            for path in apply_all(api, part):
                say(f"applied {path}")
            wait_until_ready(api, part, wait, say)  # whoever uses a kind must find it
    selector = ",".join(f"{name}={value}" for name, value in chosen.nodeSelector.items())
    say(f"gpuyard runs. Nodes with the label {selector} offer GPUs; pods ask for them with schedulerName: gpuyard")


@app.command()
def uninstall(values: ValuesFile = None, namespace: Namespace = None, kubeconfig: Kubeconfig = None) -> None:
    """Remove everything that 'install' made, what was measured too; pods that have GPUs keep them."""
    from gpuyard.kube.install.installing import minor_version, remove_all
    from gpuyard.kube.install.manifests import manifests
    from gpuyard.kube.install.values import read_values

    chosen = read_values(values, namespace=namespace)
    with _api(kubeconfig) as api:
        made = manifests(chosen, minor_version(api), _certificates(chosen.namespace))
        for path in remove_all(api, made):
            say(f"removed {path}")


@app.command()
def status(
    observations: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What was measured of mixes, to predict slowdowns by.")
    ] = None,
    format: Annotated[Format, typer.Option(help="How to print the result.")] = Format.table,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """List all GPUs: memory, who is on them, how much slower each is expected to be than alone, and how it is."""
    from gpuyard.kube.install.values import Values
    from gpuyard.kube.views.measured import read_model
    from gpuyard.kube.views.viewing import gpu_rows, read_cluster
    from gpuyard.policies.multiplex.interference import InterferenceModel
    from gpuyard.policies.multiplex.observation_files import read_observations

    before = read_observations(observations) if observations else InterferenceModel()
    with _api(kubeconfig) as api:
        rows = gpu_rows(read_cluster(api), read_model(api, namespace or Values().namespace, before))
    if format == Format.table and not rows:
        say("No node has GPUs of gpuyard: 'gpuyard kube install' says which label nodes need.")
        return
    if format == Format.table:
        rows = [{**row, "tasks": _told(row["tasks"]), "disputes": "; ".join(row["disputes"])} for row in rows]
    emit(rows, format, columns=_COLUMNS)


_COLUMNS = ("node", "gpu", "kind", "memory_gib", "free_gib", "healthy", "phase", "tasks", "disputes")


def _told(tasks: list[dict[str, Any]]) -> str:
    return ", ".join(f"{each['pod']} ({', '.join(_details(each))})" for each in tasks)


def _details(task: dict[str, Any]) -> Iterator[str]:
    """Slowdowns first as expected, then as measured."""
    yield f"{task['memory_gib']} GiB"
    measured = task["measured_slowdown"]
    yield f"+{task['predicted_slowdown']:.0%}" + ("" if measured is None else f", measured {measured:+.0%}")
    if task["batch"] is not None:
        yield f"batch {task['batch']}"


@app.command()
def why(
    pod: Annotated[str, typer.Argument(metavar="POD|JOB", help="NAME, or NAMESPACE/NAME.")],
    namespace: Annotated[str, typer.Option("--namespace", "-n", metavar="NAME")] = "default",
    multiplex: Annotated[
        str, typer.Option(metavar="NAME", help="The policy of the extender, to say why it refuses.")
    ] = "interference",
    system_namespace: Annotated[str | None, typer.Option(metavar="NAME", help="Where gpuyard's own pods are.")] = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Say in words where a pod or a gang of pods is and what is known of it, or why it waits and what would help."""
    from gpuyard.kube.install.values import Values
    from gpuyard.kube.judging import PodJudge, sharing_rule
    from gpuyard.kube.views.gangs import explain_gang, find_gang
    from gpuyard.kube.views.measured import read_model
    from gpuyard.kube.views.viewing import explain_pod
    from gpuyard.policies.multiplex.interference import InterferenceModel

    space, _, name = pod.rpartition("/")
    rule = sharing_rule(multiplex)
    with _api(kubeconfig) as api:
        gang = find_gang(api, space or namespace, name)
        if gang is not None:
            print("\n".join(explain_gang(gang)))
            return
        judge = PodJudge(rule, read_model(api, system_namespace or Values().namespace, InterferenceModel()))
        for line in explain_pod(api, space or namespace, name, judge):
            print(line)


@app.command()
def dashboard() -> None:
    """Print a Grafana dashboard of the extender's figures, as JSON to import."""
    import json

    from gpuyard.kube.views.dashboard import dashboard as made

    print(json.dumps(made(), indent=2))


@app.command()
def snapshot(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write it.")],
    gangs: Annotated[
        bool, typer.Option("--gangs", help="As gangs are decided about: GPUs of others are taken.")
    ] = False,
    quota: Annotated[
        str, typer.Option(metavar="TENANT=GPUS,...", help="With --gangs: the quotas of the extender, to be noted.")
    ] = "",
    multiplex: Annotated[
        str, typer.Option(metavar="NAME", help="The policy that the extender decides by, to be noted.")
    ] = "interference",
    observations: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What the extender was told of mixes; what it has learnt is noted with it."),
    ] = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Write what the scheduler sees: a snapshot for 'gpuyard decide' and 'gpuyard simulate --snapshot'."""
    import time

    from gpuyard.kube.install.values import Values
    from gpuyard.kube.jobs.controller import JobSettings
    from gpuyard.kube.jobs.gang_snapshot import gang_facts
    from gpuyard.kube.judging import sharing_rule
    from gpuyard.kube.quotas import read_quotas
    from gpuyard.kube.views.measured import read_model
    from gpuyard.kube.views.snapshotting import cluster_facts, gangs_of
    from gpuyard.kube.views.viewing import read_cluster
    from gpuyard.policies.facts import from_its_beginning
    from gpuyard.policies.multiplex.interference import InterferenceModel
    from gpuyard.policies.multiplex.observation_files import read_observations
    from gpuyard.policies.resolve import resolve
    from gpuyard.policies.snapshot import Snapshot
    from gpuyard.profiles import load_zoo

    zoo, now_s = load_zoo(), time.time()
    sharing_rule(multiplex)
    before = read_observations(observations) if observations else InterferenceModel()
    settings = JobSettings(resolve("fifo+tune"), zoo, quotas=read_quotas(quota, "quota"))
    with _api(kubeconfig) as api:
        view = read_cluster(api)
        found = gang_facts(api, view.books, settings, now_s)
        known = read_model(api, namespace or Values().namespace, before)
    if gangs:
        if found is None:
            hint = "'gpuyard kube submit' makes them"
            raise InputError("has no TrainingJobs, or no node with GPUs", field="cluster", hint=hint)
        facts = from_its_beginning(found.facts)
    else:
        jobs = gangs_of(found.facts.jobs, found.pods) if found else ()
        facts = cluster_facts(view, now_s, zoo.names, policy=multiplex, known=known, gangs=jobs)
    Snapshot.of(facts, zoo).save(out)
    say(f"{len(facts.nodes)} nodes and {len(facts.jobs)} jobs are in {out}")


def _api(kubeconfig: Path | None) -> closing[Api]:
    from gpuyard.kube.client.access import find_access
    from gpuyard.kube.client.api import PATIENT_S, Api

    return closing(Api(find_access(kubeconfig), PATIENT_S))


def _certificates(namespace: str) -> dict[str, bytes]:
    """The extender is reached at its service, or on the node's own network."""
    from gpuyard.kube.install.certificates import make_certificates
    from gpuyard.kube.install.pods import EXTENDER

    service = f"{EXTENDER}.{namespace}.svc"
    return make_certificates(service, (f"{service}.cluster.local", "127.0.0.1", "localhost"))
