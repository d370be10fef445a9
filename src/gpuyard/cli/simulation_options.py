"""The fields of `Options` as options of a command: declared there once, with what `--help` says."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import Field, fields
from inspect import Parameter
from typing import Annotated, Any

import typer

from gpuyard.simulation.options import Options, option_fields, spelled


def with_simulation_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command every option of a simulation; those on the command line reach it as keywords.

    Values stay text, which `make_options` reads the same way from a file.
    """
    own = inspect.signature(command, eval_str=True).parameters.values()
    named = [one for one in own if one.kind is not Parameter.VAR_KEYWORD]
    known = option_fields().values()
    added = [_parameter(one) for one in fields(Options) if one.name in known]
    vars(command)["__signature__"] = inspect.Signature([*added, *named])
    command.__annotations__ |= {one.name: one.annotation for one in added}
    return command


def given(values: dict[str, Any]) -> dict[str, Any]:
    """Return the options that stand on the command line."""
    return {name: value for name, value in values.items() if value not in (None, [])}


def _parameter(option: Field[Any]) -> Parameter:
    name, metavar, about = spelled(option.name), option.metadata["metavar"], option.metadata["help"]
    dashed = f"--{name.replace('_', '-')}"
    if metavar.startswith("--"):
        shape: Any = Annotated[bool | None, typer.Option(metavar, help=about)]
    elif option.metadata["many"]:
        shape = Annotated[list[str] | None, typer.Option(dashed, metavar=metavar, help=about)]
    else:
        shape = Annotated[str | None, typer.Option(dashed, metavar=metavar, help=about)]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=shape)
