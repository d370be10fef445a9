"""What jobs are told while no node of the cluster has a GPU, when there is no world that could decide about them."""

from __future__ import annotations

from collections.abc import Iterable

from gpuyard.kube.client.api import Api, ApiError
from gpuyard.kube.jobs.status import conditions_of, words_of
from gpuyard.kube.resources.records import change_to
from gpuyard.kube.resources.training_job import TRAINING_JOBS, GangStatus, TrainingJob

REASON = "LacksNodes"
MESSAGE = words_of("no node has GPUs of gpuyard", "a node with the label of nodes with GPUs, and its device plugin")


def tell_no_gpus(api: Api, waiting: Iterable[TrainingJob], now: float) -> None:
    """Say so in the status of each job that has no other; ApiError if it cannot be written."""
    for thing in waiting:
        status = thing.status
        if status.phase != "Waiting" or status.reason == REASON:
            continue
        found = conditions_of(status.conditions, "Waiting", REASON, MESSAGE, now)
        told = change_to(GangStatus("Waiting", REASON, MESSAGE, conditions=found))
        kept = {name: told[name] for name in ("phase", "reason", "message", "conditions")}
        change = {"metadata": {"uid": thing.uid}, "status": kept}
        try:
            api.patch(TRAINING_JOBS.status_path(thing.name, thing.namespace), change)
        except ApiError as error:
            if not error.not_found:  # else it is gone, and the list of jobs will say so
                raise
