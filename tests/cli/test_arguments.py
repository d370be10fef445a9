"""Arguments of another kind are refused where they are given, by name."""

from collections.abc import Callable
from typing import Any

import pytest

import gpuyard
from gpuyard import Cluster, InputError, Job, Options, Workload
from gpuyard.policies.allocate.tune import Tune
from gpuyard.policies.order.fifo import fifo
from gpuyard.policies.policy import Policy
from gpuyard.policies.resolve import resolve

GOOD: dict[str, Any] = {"job_id": 1, "arrival_s": 0.0, "gpus": 1, "model": "res18", "duration_s": 60.0}
JOBS = Workload.from_jobs([Job(**GOOD)])
STRANGE: list[Any] = [5, 1.5, [], {}, object, True, b"4x8"]

CALLS: dict[str, tuple[Callable[[Any], object], str]] = {
    "the cluster of a simulation": (lambda x: gpuyard.simulate(x, JOBS), "cluster"),
    "its workload": (lambda x: gpuyard.simulate("1x2", x), "workload"),
    "its policy": (lambda x: gpuyard.simulate("1x2", JOBS, x), "policy"),
    "its options": (lambda x: gpuyard.simulate("1x2", JOBS, "fifo+tune", x), "options"),
    "one of its profiles": (lambda x: gpuyard.simulate("1x2", JOBS, profiles=[x]), "profiles"),
    "a cluster's text": (Cluster.parse, "cluster"),
    "a cluster's nodes": (lambda x: Cluster((x,)), "groups"),
    "a node's kind": (lambda x: Cluster.uniform(1, x), "kind"),
    "a cluster file": (gpuyard.read_cluster, "cluster"),
    "a trace file": (gpuyard.read_workload, "path"),
    "a run folder to read": (gpuyard.load_run, "folder"),
    "a job": (lambda x: Workload.from_jobs([x]), "jobs"),
    "the name of a policy": (resolve, "policy"),
    "the name of an own policy": (lambda x: Policy(x, fifo, Tune()), "name"),
    "an allocation": (lambda x: Policy("mine", fifo, x), "allocate"),
}


@pytest.mark.parametrize("value", STRANGE, ids=repr)
@pytest.mark.parametrize("what", CALLS)
def test_an_argument_of_another_kind_is_named(what: str, value: Any) -> None:
    call, field = CALLS[what]
    with pytest.raises(InputError) as refused:
        call(value)
    assert str(refused.value).startswith(f"field {field}: ")


@pytest.mark.parametrize("value", [None, [], {}, object, "two"], ids=repr)
@pytest.mark.parametrize("name", ["jobs", "load", "seed"])
def test_what_a_workload_is_made_from_is_numbers(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"field {name}: "):
        gpuyard.generate(**({"jobs": 10} | {name: value}))


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("job_id", 1.5, "job_id"),
        ("job_id", [1], "job_id"),
        ("model", 5, "model of job 1"),
        ("tenant", None, "tenant of job 1"),
        ("gpu_types", ["V100"], "gpu_types of job 1"),
        ("gpus", "two", "gpus"),
        ("cpus", [], "cpus"),
    ],
)
def test_a_field_of_a_job(name: str, value: Any, field: str) -> None:
    with pytest.raises(InputError, match=f"field {field}: "):
        Workload.from_jobs([Job(**(GOOD | {name: value}))])


@pytest.mark.parametrize("name", ["policy", "cluster", "workload", "placement", "recorded_on"])
def test_options_that_are_texts(name: str) -> None:
    with pytest.raises(InputError, match=f"field {name}: 3 should be a valid string"):
        Options(**{name: 3})  # type: ignore[arg-type]


def test_an_order_is_a_function() -> None:
    with pytest.raises(InputError, match="field order: 3 must be a function of a snapshot"):
        Policy("mine", 3, Tune())  # type: ignore[arg-type]


def test_a_table_is_a_name() -> None:
    with pytest.raises(InputError, match="field tables: 3 is not a table that a run can have"):
        gpuyard.simulate("1x2", JOBS)[3]  # type: ignore[index]


def test_a_folder_to_save_to_is_a_path() -> None:
    with pytest.raises(InputError, match="field folder: 3 must be the name of a file"):
        gpuyard.simulate("1x2", JOBS).save(3)  # type: ignore[arg-type]
