"""What the target of a request names, once it is taken apart."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import unquote

from gpuyard.core.served_names import WORDS


def path_of(target: bytes) -> str:
    """The path of a target, as it was sent; proxies are sent a scheme and a host before it."""
    path = target.partition(b"?")[0].decode("latin-1")
    scheme, mark, rest = path.partition("://")
    return "/" + rest.partition("/")[2] if mark and "/" not in scheme else path


def parts_of(path: str) -> list[str]:
    """Between slashes; one that is written %2F belongs to a part."""
    return [unquote(each) for each in path.strip("/").split("/")]


def split_model(parts: list[str], known: Collection[str]) -> tuple[str, list[str]]:
    """A model's name and what is behind it; names may have slashes, and clients send them as they are."""
    for end in range(len(parts), 0, -1):
        name = "/".join(parts[:end])
        if name in known:
            return name, parts[end:]
    return _before_a_word(parts)


def _before_a_word(parts: list[str]) -> tuple[str, list[str]]:
    end = next((place for place, part in enumerate(parts) if place and part in WORDS), len(parts))
    return "/".join(parts[:end]), parts[end:]
