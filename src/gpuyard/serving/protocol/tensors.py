"""Tensors on the wire: little-endian and row by row as bytes, or numbers in JSON."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from gpuyard.serving.protocol.errors import invalid

LENGTH_BYTES = 4
"""Before each element of the datatype BYTES stands its length."""


class Datatype(NamedTuple):
    """One kind of element."""

    size: int
    """Bytes of an element; 0 where they differ."""
    numpy: str
    """Its name in numpy; empty where numpy has none."""
    contents: str
    """The field of a gRPC message in which such elements may stand one by one."""
    number: int
    """In a model configuration."""


DATATYPES = {
    "BOOL": Datatype(1, "?", "bool_contents", 1),
    "UINT8": Datatype(1, "u1", "uint_contents", 2),
    "UINT16": Datatype(2, "<u2", "uint_contents", 3),
    "UINT32": Datatype(4, "<u4", "uint_contents", 4),
    "UINT64": Datatype(8, "<u8", "uint64_contents", 5),
    "INT8": Datatype(1, "i1", "int_contents", 6),
    "INT16": Datatype(2, "<i2", "int_contents", 7),
    "INT32": Datatype(4, "<i4", "int_contents", 8),
    "INT64": Datatype(8, "<i8", "int64_contents", 9),
    "FP16": Datatype(2, "<f2", "", 10),
    "FP32": Datatype(4, "<f4", "fp32_contents", 11),
    "FP64": Datatype(8, "<f8", "fp64_contents", 12),
    "BYTES": Datatype(0, "", "bytes_contents", 13),
    "BF16": Datatype(2, "", "", 14),
}


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What one input or output of a model looks like; the shape is that of one row, without the batch."""

    name: str
    datatype: str
    shape: tuple[int, ...]

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return prod(self.shape) * DATATYPES[self.datatype].size


@dataclass(frozen=True, slots=True)
class Tensor:
    """One input or output, with its rows as bytes."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    content: bytes


def check_bytes(name: str, datatype: str, count: int, content: bytes | memoryview) -> None:
    """Raise unless so many bytes are so many elements."""
    size = DATATYPES[datatype].size
    if size and len(content) != count * size:
        raise invalid(f"input '{name}' has {len(content)} bytes; {count} elements of {datatype} are {count * size}")
    if not size and _count_elements(content) != count:
        raise invalid(f"input '{name}' is not {count} elements of BYTES, each after its length in 4 bytes")


def _count_elements(content: bytes | memoryview) -> int:
    """How many elements of BYTES there are; -1 if the lengths do not add up."""
    count = position = 0
    while position < len(content):
        length = int.from_bytes(content[position : position + LENGTH_BYTES], "little")
        position += LENGTH_BYTES + length
        count += 1
    return count if position == len(content) else -1


def bytes_of(name: str, datatype: str, count: int, data: Any) -> bytes:
    """Numbers or texts, nested or flat, as bytes."""
    if datatype == "BYTES":
        return _texts(name, count, data)
    if not DATATYPES[datatype].numpy or datatype == "FP16":
        raise invalid(f"input '{name}': {datatype} has no form in JSON; send it as binary data")
    import numpy as np

    try:
        found = np.array(data)
        right = found.size == count and (count == 0 or found.dtype.kind in _KINDS[datatype[0]])
        with np.errstate(over="ignore"):
            elements = found.astype(DATATYPES[datatype].numpy if right else found.dtype, casting="unsafe")
        right = right and _holds(elements, found)
    except (ValueError, TypeError, OverflowError):
        right = False
    if not right:
        raise invalid(f"input '{name}': data is not {count} elements of {datatype}")
    return elements.tobytes()


def _holds(elements: Any, given: Any) -> bool:
    """Whether a datatype has room for what was given; a fraction may be rounded, but not become infinite."""
    import numpy as np

    exact = elements.dtype.kind != "f"
    return bool((elements == given).all() if exact else (np.isfinite(elements) == np.isfinite(given)).all())


_KINDS = {"B": "b", "U": "ui", "I": "ui", "F": "uif"}
"""Which kinds of numbers in JSON, as numpy calls them, may stand for a datatype that begins so."""


def _texts(name: str, count: int, data: Any) -> bytes:
    flat = list(_flat(data))
    if len(flat) != count or not all(isinstance(each, str | bytes) for each in flat):
        raise invalid(f"input '{name}': data is not {count} elements of BYTES")
    raw = [each.encode() if isinstance(each, str) else each for each in flat]
    return b"".join(len(each).to_bytes(LENGTH_BYTES, "little") + each for each in raw)


def _flat(data: Any) -> Any:
    if isinstance(data, list):
        for each in data:
            yield from _flat(each)
    else:
        yield data


def numbers_of(tensor: Tensor) -> list[Any]:
    """A tensor's elements one by one, as JSON has them."""
    kind = DATATYPES[tensor.datatype]
    if tensor.datatype == "BYTES":
        return [each.decode(errors="replace") for each in _elements(tensor.content)]
    if not kind.numpy:
        raise invalid(f"output '{tensor.name}': {tensor.datatype} has no form in JSON; ask for binary data")
    import numpy as np

    found: list[Any] = np.frombuffer(tensor.content, kind.numpy).tolist()
    return found


def _elements(content: bytes) -> list[bytes]:
    found, position = [], 0
    while position < len(content):
        length = int.from_bytes(content[position : position + LENGTH_BYTES], "little")
        position += LENGTH_BYTES
        found.append(content[position : position + length])
        position += length
    return found
