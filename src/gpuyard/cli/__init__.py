"""The command line: thin commands that parse, call the library and print.

Commands are imported when they are called, and heavy libraries inside their bodies, so that `--help` is instant.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gpuyard._version import __version__
from gpuyard.cli.output import say
from gpuyard.core.errors import GpuyardError, InputError, nearest
from gpuyard.core.interrupts import ending_interrupts

COMMANDS = {
    "simulate": "Run one or many policies and loads on a simulated cluster.",
    "run": "Run a workload with real processes, on emulated GPUs or real ones, under the policies of the simulator.",
    "queue": "Show the jobs of a running scheduler.",
    "submit": "Hand a job to a running scheduler.",
    "cancel": "End a job of a running scheduler.",
    "logs": "Print what the processes of a job wrote.",
    "decide": "Print what a policy would do with the world that a snapshot shows.",
    "plan": "Cut GPUs into slices so that every service answers in time.",
    "serve": "Answer requests for inference by a plan of slices: for real, or in virtual time.",
    "share": "Let jobs share one GPU by gating their launches: experiments, and what to synchronise how often.",
    "load": "Send requests to an inference server, each when it is due.",
    "sweep": "Run every combination of a YAML file of axes; go on where it was interrupted.",
    "compare": "Put the figures of runs side by side.",
    "calibrate": "Turn what starts and checkpoints cost in real runs into options of the simulator.",
    "report": "Write one HTML file and PNGs about runs.",
    "why": "Say why a job of a run waited, and how long for which reason.",
    "trace": "Look at, convert and generate workloads.",
    "kube": "Let training tasks share GPUs on Kubernetes.",
    "emulate": "Run a CUDA program on emulated GPUs, in their time and memory.",
    "smi": "Show emulated GPUs and who uses them, once or live.",
    "gpus": "List the GPU kinds that can be emulated.",
    "native": "Compile, find and check the libraries in C.",
    "profile": "Measure a program, and write a profile.",
    "profiles": "List, show, import and fit performance profiles.",
    "demo": "See what tune buys over proportional, or what an emulated GPU shows.",
}

UsageError: Any = typer.BadParameter.__mro__[1]
"""Every wrong use of the command line; typer gives a public name to this one child of it only."""


class _LazyGroup(TyperGroup):
    """Knows its commands by name and help alone; imports the one that is called."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            ctx.fail(f"No such command {cmd_name!r}. {nearest(cmd_name, COMMANDS)}")
        return load_command(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: Any) -> None:
        with ending_interrupts() as came:
            try:
                super().invoke(ctx)  # what a command returns is no exit code
            except KeyboardInterrupt as stop:
                how = f"ended by {signal.Signals(came[0]).name}" if came else "interrupted"
                with suppress(OSError):  # the terminal may be gone
                    say(f"{how}: {stop if stop.args else 'nothing was left half-written'}")
                raise typer.Exit(128 + (came[0] if came else signal.SIGINT)) from None


app = typer.Typer(cls=_LazyGroup, rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)


def load_command(name: str) -> Any:
    """Import one command: the sub-app `app` of its module, or the function with the command's name."""
    module = import_module(f"gpuyard.cli.{name}")
    sub = getattr(module, "app", None)
    if sub is None:
        sub = typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)
        sub.command(name, help=getattr(module, name).__doc__)(getattr(module, name))
    return typer.main.get_command(sub)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"gpuyard {__version__}")
        raise typer.Exit


@app.callback(no_args_is_help=True)
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Decide who runs on which GPU, with how much of it and when; and find out what that is worth."""


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit; what the user can mend is one line on stderr, without a traceback."""
    try:
        try:
            sys.exit(app(args, prog_name="gpuyard", standalone_mode=False))
        finally:
            sys.stdout.flush()  # here a full disk or a closed pipe can still be told apart
    except UsageError as error:
        _show_usage_error(error)
        sys.exit(2)
    except BrokenPipeError:
        # Whoever read the output has gone: not worth a word, not even when Python closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (GpuyardError, OSError, MemoryError) as error:
        if os.environ.get("GPUYARD_DEBUG") == "1":
            raise
        _say_error(_explain(error))
        sys.exit(2 if isinstance(error, InputError) else 1)


def _say_error(text: str) -> None:
    say("error: " + " ".join(text.split()))


def _show_usage_error(error: Any) -> None:
    """Say in one line what is wrong, the nearest option if it was mistyped, and where the right ones are listed."""
    if error.message.startswith("Usage:"):  # called without a word, which asks for help
        error.show()
        return
    close = getattr(error, "possibilities", None)
    text = f"{error.message}. {nearest(error.option_name, close)}" if close else error.format_message()
    stop = "" if text.endswith((".", "?")) else "."
    _say_error(text + stop + (f" See '{error.ctx.command_path} --help'" if error.ctx else ""))


def _explain(error: BaseException) -> str:
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    if isinstance(error, MemoryError):
        return "out of memory: this is too much at once for this machine"
    return str(error)
