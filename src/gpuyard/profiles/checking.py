"""Holds what a file says against a pydantic schema; imported late, because pydantic is slow to import."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpuyard.core.arguments import number_hint
from gpuyard.core.errors import InputError

NOT_READ_AS_NUMBER = ("int_parsing", "int_type", "float_parsing", "float_type")
"""What pydantic calls it where a number is wanted and something else is there."""

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Strict(BaseModel):
    """A part of a file in which every key is known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_Model = TypeVar("_Model", bound=BaseModel)


def check(model: type[_Model], content: Any, file: object, what: str) -> _Model:
    """Return the content as this model, or raise InputError with the schema's first complaint."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise _as_input_error(error, file, what) from None


def _as_input_error(error: ValidationError, file: object, what: str) -> InputError:
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or None
    if first["type"] == "extra_forbidden":
        return InputError(f"is not a key of a {what}", file=file, field=field, value=first["loc"][-1])
    if first["type"] == "missing":
        return InputError("is missing", file=file, field=field)
    rule = first["msg"].removeprefix("Value error, ")
    value = first["input"] if not isinstance(first["input"], dict) else None
    hint = number_hint(value) if first["type"] in NOT_READ_AS_NUMBER else None
    return InputError(rule[0].lower() + rule[1:], file=file, field=field, value=value, hint=hint)
