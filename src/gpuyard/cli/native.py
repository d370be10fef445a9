"""gpuyard native: the libraries in C."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from gpuyard.cli.output import Format, emit

app = typer.Typer(
    help="Compile, find and check the libraries in C.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@app.command()
def build() -> None:
    """Compile all libraries again, and print where they are. Needs a C compiler: cc, or the one that CC names."""
    from gpuyard.native import build_all

    for path in build_all():
        print(path)


@app.command()
def path() -> None:
    """Print the folder of the libraries, for LD_LIBRARY_PATH; compiles them if need be."""
    from gpuyard.native import folder

    print(folder())


@app.command()
def check(format: Annotated[Format, typer.Option(help="How to print it.")] = Format.table) -> None:
    """Say of every library where it is, and that it loads; otherwise why not, and the exit code is 1."""
    from gpuyard.native import check_all

    found = check_all()
    emit([{**asdict(each), "loads": not each.problem} for each in found], format, columns=_COLUMNS)
    if any(each.problem for each in found):
        raise typer.Exit(1)


_COLUMNS = ("library", "loads", "path", "problem", "without_it")
