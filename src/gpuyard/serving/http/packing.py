"""Bodies that are packed, unpacked no further than they may be."""

from __future__ import annotations

import zlib

ENCODINGS = {b"gzip": 31, b"deflate": 15}
"""By what zlib calls their window bits."""
MEMBERS = 16
"""So many files of gzip may follow one another: each costs a copy of all that is behind it."""


def unpack(packed: bytes, encoding: bytes, most: int) -> bytes:
    """Unpack up to so many bytes; raises zlib.error for anything but whole streams, of which gzip may have several."""
    found = b""
    for _ in range(MEMBERS if encoding == b"gzip" else 1):
        stream = zlib.decompressobj(wbits=ENCODINGS[encoding])
        found += stream.decompress(packed, most - len(found))
        if len(found) >= most:
            return found
        if not stream.eof:
            raise zlib.error("it ends too early")
        packed = stream.unused_data
        if not packed:
            return found
    raise zlib.error("there is more behind its end")
