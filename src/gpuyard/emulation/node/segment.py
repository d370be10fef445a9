"""The file that the processes of a node map into their memory, and the locks on its bytes."""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from weakref import WeakSet

from gpuyard.core.errors import InputError
from gpuyard.emulation.node import layout
from gpuyard.emulation.node.layout import ATTACHED, HEADER, WORD, RecordLayout

MAKING = 0
"""Byte of the header that is locked while a node is made or removed."""

_FLOCK = struct.Struct("hhqqi4x")  # struct flock on 64-bit Linux: type, whence, start, length, pid


def folder() -> Path:
    """Return where segments live."""
    shared = Path(layout.FOLDER)
    return shared if os.access(shared, os.W_OK) else Path(tempfile.gettempdir())


def path_of(node: str) -> Path:
    """Return where a node's segment lives."""
    return folder() / layout.file_name(os.getuid(), node)


def _open_own(path: Path, *, create: bool) -> int:
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
    try:
        file = os.open(path, flags, 0o600)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"cannot be opened: {error.strerror}", file=path, hint="Use another node name") from error
    if os.fstat(file).st_uid != os.getuid():
        os.close(file)
        raise InputError("belongs to another user", file=path, hint="Use another node name")
    return file


class Segment:
    """A node's file. `words`, `signed` and `reals` are its numbers, by offset / 8."""

    words: memoryview[int]
    signed: memoryview[int]
    reals: memoryview[float]

    def __init__(self, path: Path, *, create: bool = False) -> None:
        """Open a file of this user; it can be locked at once, and read after `map`."""
        self.path = path
        self.pid = os.getpid()
        self.on_close: list[Callable[[], None]] = []
        """Called when it is closed, also by a fork in the new process."""
        self.mutex = threading.Lock()
        self._bytes = memoryview(b"")
        self.file = _open_own(path, create=create)
        _open_segments.add(self)

    def allocate(self, length: int) -> None:
        """Give an empty file its length, in memory that is really there: a full /dev/shm fails here, not later."""
        try:
            os.posix_fallocate(self.file, 0, length)
        except OSError as error:
            self.path.unlink(missing_ok=True)
            raise InputError(
                f"has no room for the {length:,} bytes of an emulated node: {error.strerror}",
                value=str(self.path.parent),
                hint="Free some space there, or emulate fewer GPUs",
            ) from error
        self.map()

    def map(self) -> None:
        """Make what is in the file readable.

        A mapping keeps a copy of its file descriptor for itself. Locks live as long as any copy of the descriptor that
        took them, so the mapping gets one of another opening, and closing ours drops our locks.
        """
        length = os.fstat(self.file).st_size
        if length >= HEADER.length:
            unlocked = os.open(f"/proc/self/fd/{self.file}", os.O_RDWR | os.O_CLOEXEC)
            self._bytes = memoryview(mmap.mmap(unlocked, length - length % WORD))
            os.close(unlocked)
            self.words, self.signed = self._bytes.cast("Q"), self._bytes.cast("q")
            self.reals = self._bytes.cast("d")

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever written to it."""
        return os.fstat(self.file).st_size == 0

    @property
    def is_sound(self) -> bool:
        """Whether it is a complete segment of this version."""
        if not self._bytes:
            return False
        magic, version, length, gpus = self.words[:4].tolist()
        return (magic, version, length) == (layout.MAGIC, layout.VERSION, len(self._bytes)) and (
            length == layout.segment_length(gpus)
        )

    @property
    def is_current(self) -> bool:
        """Whether the path still leads to this file: a stale one may have been removed since it was opened."""
        try:
            return os.path.samestat(os.fstat(self.file), self.path.stat())
        except FileNotFoundError:
            return False

    def text(self, record: RecordLayout, offset: int, name: str) -> str:
        """Read a text."""
        start = offset + record.offsets[name]
        raw = self._bytes[start : start + record.size(name)].tobytes()
        return raw.partition(b"\0")[0].decode(errors="replace")

    def set_text(self, record: RecordLayout, offset: int, name: str, text: str) -> None:
        """Write a text, cut to its field's size."""
        start, size = offset + record.offsets[name], record.size(name)
        self._bytes[start : start + size] = text.encode()[: size - 1].ljust(size, b"\0")

    def locked(self, byte: int) -> ByteLock:
        """Keep all other processes, and threads of this one, from what a byte stands for, in a `with` block."""
        return ByteLock(self, byte)

    def hold(self, byte: int, *, shared: bool = False) -> bool:
        """Lock a byte until `drop`, `close` or this process's death; False if another process has it."""
        try:
            self._lock(fcntl.F_OFD_SETLK, fcntl.F_RDLCK if shared else fcntl.F_WRLCK, byte)
        except BlockingIOError:
            return False
        return True

    def drop(self, byte: int) -> None:
        """Release what `hold` took."""
        self._lock(fcntl.F_OFD_SETLK, fcntl.F_UNLCK, byte)

    def held_elsewhere(self, byte: int) -> bool:
        """Say whether anybody but this opening of the file holds a byte."""
        kind: int = _FLOCK.unpack(self._lock(fcntl.F_OFD_GETLK, fcntl.F_WRLCK, byte))[0]
        return kind != fcntl.F_UNLCK

    def _lock(self, command: int, kind: int, byte: int) -> bytes:
        return fcntl.fcntl(self.file, command, _flock(kind, byte))

    @property
    def is_attached(self) -> bool:
        """Whether another process uses the node."""
        return self.held_elsewhere(ATTACHED)

    @property
    def is_open(self) -> bool:
        """Whether it can be used: neither closed nor inherited through a fork."""
        return self.file >= 0

    def check_owner(self) -> None:
        """Refuse a process that inherited this object through a fork: two processes cannot be one client."""
        if self.is_open:
            return
        if self.pid == os.getpid():
            raise InputError("is closed", value=self.path.name, hint="Open the node again")
        raise InputError(
            f"belongs to process {self.pid}, and a forked process cannot use it",
            value=self.path.name,
            hint="Start processes that use an emulated GPU with the start method 'spawn'",
        )

    def close(self) -> None:
        """Drop all locks. The memory stays mapped until nobody here refers to it."""
        if self.is_open:
            os.close(self.file)
            self.file = -1
            for tell in self.on_close:
                tell()

    def remove_if_unused(self) -> bool:
        """Delete the file unless a process is attached to it."""
        with self.locked(MAKING):
            unused = self.is_current and not self.is_attached
            if unused:
                self.path.unlink()
        return unused


class ByteLock:
    """A lock to be used in `with` blocks, again and again; it excludes other processes and other threads."""

    __slots__ = ("_give", "_segment", "_take")

    def __init__(self, segment: Segment, byte: int) -> None:
        self._segment = segment
        self._take, self._give = _flock(fcntl.F_WRLCK, byte), _flock(fcntl.F_UNLCK, byte)

    def __enter__(self) -> None:
        segment = self._segment
        segment.check_owner()
        segment.mutex.acquire()
        try:
            fcntl.fcntl(segment.file, fcntl.F_OFD_SETLKW, self._take)
        except BaseException:
            segment.mutex.release()
            raise

    def __exit__(self, *_: object) -> None:
        fcntl.fcntl(self._segment.file, fcntl.F_OFD_SETLK, self._give)
        self._segment.mutex.release()


def _flock(kind: int, byte: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, byte, 1, 0)


_open_segments: WeakSet[Segment] = WeakSet()


def _close_all() -> None:
    """Close what a fork has inherited: its locks would otherwise outlive the process that they stand for."""
    for segment in list(_open_segments):
        segment.close()


os.register_at_fork(after_in_child=_close_all)
