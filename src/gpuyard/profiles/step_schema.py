"""The rules of a step profile file."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from gpuyard.profiles.checking import Positive, Strict, check

_Batch = Annotated[int, Field(ge=1)]


def _fit_for_a_file_name(name: str) -> str:
    if not re.fullmatch(r"\w[\w.+-]*", name):
        raise ValueError("must begin with a letter or digit and have only letters, digits, '_', '.', '+' and '-'")
    return name


def _twelve_digits(name: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{12}", name):
        raise ValueError("must be the 12 digits that gpuyard.profiles.signature returns")
    return name


def _times_or_times_and_memory(row: list[float]) -> list[float]:
    if len(row) not in {2, 4}:
        raise ValueError("must be [forward_ms, backward_ms] or [forward_ms, backward_ms, peak_mib, persistent_mib]")
    if row[2:] and row[3] > row[2]:
        raise ValueError("has more memory after the step than at its peak")
    return row


_Name = Annotated[str, AfterValidator(_fit_for_a_file_name)]
_Row = Annotated[list[Positive], AfterValidator(_times_or_times_and_memory)]


class _Gpu(Strict):
    steps: Annotated[dict[_Batch, _Row], Field(min_length=1)]
    predicted: list[_Batch] = Field(default_factory=list)
    predicted_memory: list[_Batch] = Field(default_factory=list)

    @model_validator(mode="after")
    def _flags_belong_to_steps(self) -> Self:
        for name in ("predicted", "predicted_memory"):
            for batch in getattr(self, name):
                if batch not in self.steps:
                    raise ValueError(f"{name} names batch {batch}, which is not one of the steps")
        return self


class StepPart(Strict):
    """Step times in one precision, on one GPU or several."""

    precision: Literal["fp64", "fp32", "tf32", "fp16", "bf16", "int8"] = "fp32"
    input_shape: list[Annotated[int, Field(ge=1)]] = Field(default_factory=list)
    optimizer: str = ""
    signatures: list[Annotated[str, AfterValidator(_twelve_digits)]] = Field(default_factory=list)
    source: str = ""
    gpus: Annotated[dict[_Name, _Gpu], Field(min_length=1)]


class _File(StepPart):
    model: _Name


def checked_steps(content: Any, file: str) -> dict[str, Any]:
    """Return the content of a step profile file, or raise InputError."""
    return check(_File, content, file, "step profile file").model_dump()
