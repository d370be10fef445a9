"""What a process holds of a node, for as long as anything here refers to it: nothing is ever freed too early."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any
from weakref import finalize

from gpuyard.core.errors import InputError
from gpuyard.emulation.node.ground import Fault, ground, unexpected

Explain = Callable[[int], Exception]


class NodeHandle:
    """A node that this process has opened or watches."""

    def __init__(self, name: str, address: int) -> None:
        self.name, self.pid = name, os.getpid()
        self.ground, self.address = ground(), address
        # At exit the system takes everything back, and other handlers may still use what is here.
        finalize(self, self.ground.destroy, address).atexit = False

    def call(self, function: str, *arguments: Any) -> int:
        """Call a function that is about the node; raises what its error means."""
        code: int = getattr(self.ground, function)(self.address, *arguments)
        if code < 0:
            raise self.error(code)
        return code

    def error(self, code: int) -> Exception:
        """Return the error for a code that any call about the node or its clients may come back with."""
        if code == Fault.CLOSED:
            return InputError("is closed", field="node", value=self.name, hint="Open the node again")
        if code == Fault.FORKED:
            return InputError(
                f"belongs to process {self.pid}, and a forked process cannot use it",
                field="node",
                value=self.name,
                hint="Start processes that use an emulated GPU with the start method 'spawn'",
            )
        if code == Fault.DISCONNECTED:
            return InputError("this process has disconnected from the GPU", hint="Connect again")
        return unexpected(code)


def opened(name: str, code: int, address: ctypes.c_void_p, explain: Explain) -> NodeHandle:
    """Return what a call has opened; raises what its error means."""
    if code < 0:
        raise explain(code)
    assert address.value is not None
    return NodeHandle(name, address.value)
