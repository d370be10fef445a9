"""gpuyard plan: slices of GPUs for services with rates and SLOs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuyard.cli.output import Format, emit, say

if TYPE_CHECKING:
    from gpuyard.core.cluster import Cluster
    from gpuyard.policies.partition import Partition
    from gpuyard.profiles.inference import ServingGpu

UNSERVED = 3
"""The exit code where not all that is asked for can be served."""


def plan(
    tasks: Annotated[Path, typer.Argument(metavar="TASKS", help="A task list, or a YAML file of services.")],
    gpus: Annotated[str, typer.Option(metavar="4x2080ti", help="GPUs that there are.")] = "4x2080ti",
    policy: Annotated[str, typer.Option(metavar="NAME", help="elastic, squishy, greedy or exhaustive.")] = "elastic",
    profile: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Latencies: model,percent,batch,milliseconds.")
    ] = None,
    interference: Annotated[bool, typer.Option(help="Count what neighbours on a GPU do to each other.")] = True,
    buffer: Annotated[float, typer.Option(help="Factor on every predicted latency.")] = 1.1,
    minimise: Annotated[
        str | None, typer.Option(metavar="gpus", help="Look for the fewest GPUs, however long that takes.")
    ] = None,
    faithful: Annotated[bool, typer.Option("--faithful", help="Plan as gpulet does, with its faults.")] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the plan as gpulet's ModelList.txt.")
    ] = None,
    format: Annotated[Format, typer.Option(help="How to print the plan.")] = Format.table,
) -> None:
    """Cut GPUs into slices so that every service answers in time.

    Exits with 3 where not all requests can be served; what is missing is said for each service.
    """
    from gpuyard.core.errors import GpuyardError
    from gpuyard.policies.partition.as_json import as_json
    from gpuyard.policies.partition.check import violations
    from gpuyard.policies.partition.latency import latency_models
    from gpuyard.profiles.inference import InferenceModel
    from gpuyard.traces.services import model_list, read_services

    services = read_services(tasks)
    cluster, known = _gpus(gpus, profile)
    chosen = _policy(policy, faithful, interference=interference, buffer=buffer, minimise=_only_gpus(minimise))
    found = chosen.plan(services, cluster, known)
    reading = InferenceModel.published_ms if faithful else InferenceModel.cautious_ms
    latency = latency_models(services, cluster, known, buffer=buffer, interference=interference, interpolation=reading)
    broken = violations(found, services, cluster, latency)
    if broken and not faithful:
        raise GpuyardError(f"the plan of {policy} does not hold: {broken[0]}")
    if output is not None:
        _write(output, model_list(found))
    told = as_json(found, services, cluster, [str(each) for each in broken])
    _print(told, format)
    if not told["feasible"]:
        raise typer.Exit(UNSERVED)


def _only_gpus(minimise: str | None) -> bool | None:
    from gpuyard.core.errors import InputError

    if minimise not in (None, "gpus"):
        raise InputError("is nothing that can be minimised; gpus can", field="minimise", value=minimise)
    return True if minimise else None


def _gpus(text: str, profile: Path | None) -> tuple[Cluster, Mapping[str, ServingGpu]]:
    from gpuyard.core.cluster import Cluster, NodeGroup, NodeKind
    from gpuyard.profiles.gpus import parse_groups
    from gpuyard.profiles.inference import read_latencies, serving_gpu, with_latencies

    groups = parse_groups(text)
    known = {gpu.key: gpu for gpu in (serving_gpu(name) for _, name in groups)}
    if profile is not None:
        own = read_latencies(profile)
        known = {key: with_latencies(gpu, own) for key, gpu in known.items()}
    kinds = [NodeGroup(1, NodeKind(gpus=count, gpu_type=serving_gpu(name).key)) for count, name in groups]
    return Cluster(tuple(kinds)), known


def _policy(name: str, faithful: bool, **options: Any) -> Partition:
    from gpuyard.core.errors import InputError, nearest
    from gpuyard.policies.partition.published.policy import SHIPPED
    from gpuyard.policies.registry import PARTITIONS

    if not faithful:
        found: Partition = PARTITIONS.find(name, **options)
        return found
    if name not in SHIPPED:
        raise InputError("has no published variant", field="policy", value=name, hint=nearest(name, SHIPPED))
    return SHIPPED[name](interference=options["interference"], buffer=options["buffer"])


def _write(path: Path, text: str) -> None:
    from gpuyard.core.errors import WriteError

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise WriteError(f"cannot be written: {error.strerror}", file=path) from error


def _print(told: dict[str, Any], format: Format) -> None:
    if format == Format.json:
        json.dump(told, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    rows = [
        {"gpu": each["gpu"], "share": each["share"], "duty_ms": each["duty_ms"], **model}
        for each in told["slices"] for model in each["models"]
    ]  # fmt: skip
    emit(rows, format)
    if format == Format.table:
        say(f"{told['gpus_used']} GPU{'' if told['gpus_used'] == 1 else 's'} used")
        for each in told["violations"]:
            say(f"not kept: {each}")
        for each in told["unserved"]:
            say(f"not served: {each['rate']:g} requests/s of {each['model']}: {each['reason']}")
