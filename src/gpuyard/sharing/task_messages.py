"""What tasks that let their batch size be chosen say of themselves, each beat."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpuyard.core.errors import InputError
from gpuyard.policies.multiplex.learning_rate import RULES

Amount = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
MeasuredSeconds = Annotated[float, Field(ge=1e-9, le=1e7, allow_inf_nan=False)]
"""What no step takes is refused here: calculations further on would not bear it."""
Gigabytes = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Size = Annotated[int, Field(ge=1, le=10**9)]
Which = tuple[str, int]
"""A wish, by its round and its generation."""


class TaskSample(BaseModel):
    """Steps that a task has measured."""

    model_config = ConfigDict(extra="forbid", strict=True)
    steps: Size
    step_s: MeasuredSeconds
    error_s: Amount
    noise_scale: Annotated[float | None, Field(ge=1e-12, le=1e15, allow_inf_nan=False)] = None


class TaskMessage(BaseModel):
    """All that a task says, each beat."""

    model_config = ConfigDict(extra="forbid", strict=True)
    task: Annotated[str, Field(min_length=1, max_length=100)]
    own: Size
    smallest: Size
    largest: Size
    fixed_gb: Gigabytes
    sample_gb: Gigabytes
    rule: str
    applied: Annotated[Which | None, Field(strict=False)] = None
    sample: TaskSample | None = None
    out_of_memory: Annotated[Which | None, Field(strict=False)] = None
    alone_s: MeasuredSeconds | None = None
    """The time of a step alone, where that is known before any is measured."""
    remaining_s: Amount | None = None
    """How long it is likely to go on, where that is known."""


def read_message(line: bytes) -> TaskMessage:
    """What a task says; InputError if it makes no sense."""
    try:
        message = TaskMessage.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(first["msg"], field=".".join(map(str, first["loc"]))) from None
    if not message.smallest <= message.own <= message.largest:
        raise InputError("must be from smallest to largest", field="own", value=message.own)
    if message.rule not in RULES:
        raise InputError(f"is none of {', '.join(RULES)}", field="rule", value=message.rule)
    return message
