"""What users ask a running scheduler."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import grpc

from gpuyard.client.control import SCHEDULER, messages
from gpuyard.core.errors import GpuyardError, InputError
from gpuyard.runtime.addresses import RunningScheduler, open_channel
from gpuyard.runtime.admission import why_not

ANSWER_S = 60.0
TRIES = 3
"""Of what does no more when it is asked twice; a job that is submitted twice would be another one."""


class SchedulerError(GpuyardError):
    """A scheduler did not answer."""


def submit(scheduler: RunningScheduler, jobs: Sequence[Mapping[str, Any]], directory: str) -> list[str]:
    """Hand over jobs, as fields of a job each; returns their ids."""
    asked = json.dumps({"jobs": [dict(each) for each in jobs], "directory": directory})
    return list(_ask(scheduler, "Submit", jobs=asked).ids)


def cancel(scheduler: RunningScheduler, job: str) -> str:
    """End a job; returns its state."""
    return str(_ask(scheduler, "Cancel", job=job).state)


def queue_of(scheduler: RunningScheduler) -> Any:
    """All jobs, and how far each is."""
    return _ask(scheduler, "Queue")


def end(scheduler: RunningScheduler) -> None:
    """Let all jobs save and leave, and the scheduler end."""
    _ask(scheduler, "End")


def _ask(scheduler: RunningScheduler, call: str, **fields: Any) -> Any:
    kinds = messages()
    with open_channel(scheduler.address) as channel:
        method = channel.unary_unary(
            f"/{SCHEDULER}/{call}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=kinds[f"{call}Response"].FromString,
        )
        left = TRIES if call != "Submit" else 1
        while True:
            left -= 1
            try:
                request = kinds[f"{call}Request"](**fields)
                return method(request, timeout=ANSWER_S, metadata=scheduler.address.metadata())
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.INVALID_ARGUMENT:
                    raise InputError(str(error.details())) from None
                if error.code() is grpc.StatusCode.UNAVAILABLE and left:
                    continue
                rule = why_not(error, scheduler.address)
                raise SchedulerError(f"the scheduler of {scheduler.state} did not answer: {rule}") from None
