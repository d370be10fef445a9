"""gpuyard kube submit, jobs, cancel: gangs of pods."""

from __future__ import annotations

import shlex
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuyard.cli.kube_parts import Kubeconfig
from gpuyard.cli.output import Format, emit, say

if TYPE_CHECKING:
    from gpuyard.core.workload import Job
    from gpuyard.kube.client.api import Api

InNamespace = Annotated[str, typer.Option("--namespace", "-n", metavar="NAME", help="The namespace of the jobs.")]
COLUMNS = ("job", "phase", "gpus", "model", "step", "total_steps", "attempt", "places", "reason")


def submit(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[WORKLOAD] [-- COMMAND …]", help="A workload file, or a command.")
    ] = None,
    *,
    image: Annotated[str, typer.Option(metavar="IMAGE", help="The image of each pod.")] = "",
    template: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A template of pods, as in a Deployment; YAML.")
    ] = None,
    checkpoints: Annotated[
        str, typer.Option(metavar="CLAIM|/FOLDER", help="Where jobs save: a volume claim, or a folder of every node.")
    ] = "",
    name: Annotated[str, typer.Option(metavar="NAME", help="The job's name, of a command.")] = "",
    model: Annotated[str, typer.Option(metavar="MODEL", help="The model that it trains.")] = "generic",
    gpus: Annotated[int, typer.Option(metavar="N", min=1, help="GPUs that it needs.")] = 1,
    iterations: Annotated[float | None, typer.Option(metavar="N", help="Its steps.")] = None,
    tenant: Annotated[str, typer.Option(metavar="NAME", help="Whose it is.")] = "default",
    priority: Annotated[int, typer.Option(metavar="N", help="Higher goes first.")] = 0,
    namespace: InNamespace = "default",
    kubeconfig: Kubeconfig = None,
) -> None:
    """Ask for gangs of pods: a TrainingJob for each job of a workload, or one for a command.

    Refuses all of them if one could not be asked for. When jobs arrive is when they are submitted.
    """
    from gpuyard.core.errors import InputError
    from gpuyard.core.workload import Job
    from gpuyard.kube.runs.asking import GangTemplate, checkpoints_at, job_of_command, pod_template, post_all
    from gpuyard.profiles import load_zoo

    given = words or []
    if len(given) == 1 and Path(given[0]).suffix in (".yaml", ".yml", ".parquet"):
        jobs = _of_workload(Path(given[0]))
    elif given:
        if not name:
            raise InputError("is missing", field="name", hint="Give --name NAME, by which the job is found again")
        job = Job(name, 0.0, gpus, model, tenant=tenant, priority=priority, command=shlex.join(given))
        jobs = [job_of_command(job, iterations, load_zoo())]
    else:
        raise InputError("nothing is to be submitted", hint="Name a workload file, or a command behind --")
    common = GangTemplate(pod_template(image, template), checkpoints_at(checkpoints), namespace)
    made = common.gangs(jobs)
    with api_of(kubeconfig) as api:
        for gang in post_all(api, made):
            say(f"submitted: {gang}")


def _of_workload(path: Path) -> list[Job]:
    from gpuyard.traces import read_workload

    workload = read_workload(path)
    return [workload.job(number) for number in range(len(workload))]


def jobs(
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="Of this namespace alone. [all]")
    ] = "",
    format: Annotated[Format, typer.Option(help="How to print the result.")] = Format.table,
    kubeconfig: Kubeconfig = None,
) -> None:
    """List gangs of pods: how far each is, where, and why not."""
    from gpuyard.kube.views.gangs import gang_rows

    with api_of(kubeconfig) as api:
        rows = gang_rows(api, namespace)
    if format == Format.table and not rows:
        say("There are no TrainingJobs: 'gpuyard kube submit' makes them.")
        return
    if format == Format.table:
        rows = [{**row, "places": ", ".join(row["places"])} for row in rows]
    emit(rows, format, columns=COLUMNS)


def cancel(
    job: Annotated[str, typer.Argument(metavar="JOB", help="NAME, or NAMESPACE/NAME.")],
    namespace: InNamespace = "default",
    kubeconfig: Kubeconfig = None,
) -> None:
    """Let a gang save what it did, leave, and not start again."""
    from gpuyard.core.errors import InputError
    from gpuyard.kube.resources.training_job import TRAINING_JOBS
    from gpuyard.kube.views.gangs import find_gang

    space, _, name = job.rpartition("/")
    with api_of(kubeconfig) as api:
        if find_gang(api, space or namespace, name) is None:
            raise InputError("is not a TrainingJob of this cluster", field="job", value=f"{space or namespace}/{name}")
        api.patch(TRAINING_JOBS.path(name, space or namespace), {"spec": {"cancelled": True}})
    say(f"{space or namespace}/{name} is to leave")


def api_of(kubeconfig: Path | None) -> closing[Api]:
    """The cluster's API server, for people: it may take its time."""
    from gpuyard.kube.client.access import find_access
    from gpuyard.kube.client.api import PATIENT_S, Api

    return closing(Api(find_access(kubeconfig), PATIENT_S))
