"""Files that processes of one user map into their memory, with locks on their bytes; and where such files are."""

from __future__ import annotations

import ctypes
from pathlib import Path
from weakref import finalize

from gpuyard.core.errors import InputError
from gpuyard.emulation.node.ground import PATH_BYTES, Fault, ground, reason, unexpected

WORD = 8


def folder() -> Path:
    """Return where segments live."""
    path = ctypes.create_string_buffer(PATH_BYTES)
    ground().folder(path)
    return Path(path.value.decode())


def path_of(node: str) -> Path:
    """Return where a node's segment lives."""
    path = ctypes.create_string_buffer(PATH_BYTES)
    code = ground().path(node.encode(), path)
    if code < 0:
        raise unexpected(code)
    return Path(path.value.decode())


def file_error(path: Path, code: int) -> Exception:
    """Return the error for a file that cannot be used."""
    if code == Fault.ABSENT:
        return FileNotFoundError(str(path))
    if code == Fault.OWNER:
        return InputError("belongs to another user", file=path, hint="Use another node name")
    if code == Fault.OPEN:
        return InputError(f"cannot be opened: {reason()}", file=path, hint="Use another node name")
    if code == Fault.ROOM:
        return InputError(
            f"has no room for what emulated processes share: {reason()}",
            value=str(path.parent),
            hint="Free some space there, or emulate fewer GPUs",
        )
    return unexpected(code)


class Segment:
    """A shared file. `words` and `reals` are its numbers, by offset / 8, once it is mapped."""

    words: memoryview[int]
    reals: memoryview[float]

    def __init__(self, path: Path, *, create: bool = False) -> None:
        """Open a file of this user; it can be locked at once, and read after `map`."""
        self.path, self._ground = path, ground()
        address = ctypes.c_void_p()
        self._check(self._ground.segment_open(str(path).encode(), create, ctypes.byref(address)))
        self._address = address.value
        self._end = finalize(self, self._ground.segment_destroy, self._address)
        self._end.atexit = False

    def allocate(self, length: int) -> None:
        """Give an empty file its length, in memory that is really there: a full folder fails here, not later."""
        self._check(self._ground.segment_allocate(self._address, length))
        self._show()

    def map(self) -> None:
        """Make what is in the file readable."""
        self._check(self._ground.segment_map(self._address))
        self._show()

    def _show(self) -> None:
        """Let Python see the memory, which must stay for as long as any view of it does."""
        if self._end.detach() is None:
            return  # it is shown already
        length = self._ground.segment_length(self._address)
        memory = (ctypes.c_ubyte * length).from_address(self._ground.segment_memory(self._address))
        finalize(memory, self._ground.segment_destroy, self._address).atexit = False
        seen = memoryview(memory).cast("B")
        self.words, self.reals = seen[: length - length % WORD].cast("Q"), seen[: length - length % WORD].cast("d")

    def hold(self, byte: int) -> bool:
        """Lock a byte until `close` or this process's death; False if another process has it."""
        return self._check(self._ground.segment_hold(self._address, byte, False)) == 0

    def held_elsewhere(self, byte: int) -> bool:
        """Say whether anybody but this opening of the file holds a byte."""
        return self._check(self._ground.segment_held_elsewhere(self._address, byte)) == 1

    def close(self) -> None:
        """Drop all locks. The memory stays until nobody here refers to it, but is nobody else's any more."""
        self._ground.segment_close(self._address)

    def _check(self, code: int) -> int:
        if code < 0:
            raise file_error(self.path, code)
        return code
