"""Runs programs in forks of a process that has imported torch, and so spares each of them the import.

`python forks.py` reads one request a line from stdin and answers each with its exit code; the last thing that a fork
does is what `import torch` does last, ask the devices that are installed, in the environment of its own program.
"""

# mypy: allow-untyped-calls

import contextlib
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NO_DEVICES = "TORCH_DEVICE_BACKEND_AUTOLOAD"


class Forks:
    """The process that has imported torch, as its parent sees it."""

    def __init__(self) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GPUYARD_", "CUDA_"))}
        self._process = subprocess.Popen(
            [sys.executable, __file__], env=kept | {NO_DEVICES: "0"}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def run(self, program: str, environment: Mapping[str, str], folder: Path) -> "subprocess.CompletedProcess[str]":
        """Run a program as `python -W error -c` would."""
        out, err = folder / "stdout", folder / "stderr"
        request = {"program": program, "env": dict(environment), "cwd": str(folder), "out": str(out), "err": str(err)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        return subprocess.CompletedProcess(program, code, out.read_text(), err.read_text())

    def close(self) -> None:
        """End it; no fork is left by then."""
        self._process.communicate()


def main() -> None:
    """Answer requests; in a fork, become the program."""
    import torch
    import torch._dynamo  # optimizers do, in any case
    import torch.distributed

    import gpuyard.emulation.torch.activate  # noqa: F401, changes nothing yet

    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            break
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    else:
        return
    become(request)
    torch._import_device_backends()
    exec(compile(request["program"], "<string>", "exec"), {"__name__": "__main__"})


def become(request: dict[str, Any]) -> None:
    """Take over the folder, environment and files of a program."""
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    with contextlib.ExitStack() as files:
        for number, path in ((0, os.devnull), (1, request["out"]), (2, request["err"])):
            file = files.enter_context(Path(path).open("r" if number == 0 else "w"))
            os.dup2(file.fileno(), number)
    warnings.simplefilter("error")


if __name__ == "__main__":
    main()
