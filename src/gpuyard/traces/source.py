"""A trace file in memory: its bytes, unpacked, and the beginning by which its format is told."""

from __future__ import annotations

import gzip
import os
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gpuyard.core.arguments import check_path, check_regular
from gpuyard.core.errors import InputError

_HEAD_BYTES = 65536
_HEAD_LINES = 20


@dataclass(frozen=True)
class Source:
    """A file's name and its content, unpacked when it was gzipped."""

    name: str
    data: bytes

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Source:
        """Read a file; raises InputError when it is absent, unreadable or a damaged archive."""
        check_path(path, "path")
        check_regular(path)
        name = os.fspath(path)
        try:
            data = Path(name).read_bytes()
            if data[:2] == b"\x1f\x8b":
                data = gzip.decompress(data)
        except FileNotFoundError:
            raise InputError("does not exist", file=name) from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"is a damaged gzip file: {error}", file=name) from None
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", file=name) from None
        return cls(name, data)

    @cached_property
    def head(self) -> Head:
        """The beginning of the file, for telling its format."""
        raw = self.data[:_HEAD_BYTES]
        lines = (line.strip() for line in raw.decode("utf-8", "replace").splitlines())
        content = [line for line in lines if line and not line.startswith("#")]
        return Head(raw, tuple(content[:_HEAD_LINES]))

    def text(self) -> str:
        """Return the content as text; raises InputError with the row when it is not UTF-8."""
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            row = self.data.count(b"\n", 0, error.start) + 1
            raise InputError("is not UTF-8 text", file=self.name, row=row) from None


@dataclass(frozen=True)
class Head:
    """The beginning of a file: raw, and its first lines that are neither blank nor a comment."""

    raw: bytes
    lines: tuple[str, ...]

    @cached_property
    def columns(self) -> frozenset[str]:
        """The comma-separated names on the first line."""
        return frozenset(self.fields(0))

    def fields(self, line: int, separator: str = ",") -> list[str]:
        """Return the fields of one line; none when the file is shorter."""
        return [part.strip() for part in self.lines[line].split(separator)] if line < len(self.lines) else []
