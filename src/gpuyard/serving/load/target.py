"""Where requests go."""

from __future__ import annotations

from dataclasses import dataclass, field
from ssl import SSLContext, create_default_context
from urllib.parse import quote, urlsplit

from gpuyard.core.errors import InputError

_PORTS = {"http": 8000, "https": 443, "grpc": 8001, "grpcs": 443}
"""What a URL without a port means."""


@dataclass(frozen=True)
class Target:
    """An inference server, and how to speak with it."""

    host: str
    port: int
    grpc: bool = False
    secure: bool = False
    prefix: str = ""
    """Of all paths."""
    token: str = field(default="", repr=False)
    authorities: str | None = None
    """A file of certificates to trust besides the system's."""

    @classmethod
    def parse(cls, url: str, *, grpc: bool = False, token: str = "", authorities: str | None = None) -> Target:
        """Read a URL such as http://127.0.0.1:8000; without a scheme it is http or, if asked for, grpc."""
        try:
            split = urlsplit(url if "://" in url else f"{'grpc' if grpc else 'http'}://{url}")
        except ValueError:  # a bracket of an IPv6 address that is not closed, or the like
            raise _no_url(url) from None
        if split.scheme not in _PORTS or not split.hostname:
            raise _no_url(url)
        try:
            port = split.port or _PORTS[split.scheme]
        except ValueError:
            raise InputError("has a port that is none", field="url", value=url) from None
        return cls(
            split.hostname, port, grpc or split.scheme.startswith("grpc"), split.scheme.endswith("s"),
            split.path.rstrip("/"), token, authorities,
        )  # fmt: skip

    @property
    def address(self) -> str:
        """Host and port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{'grpc' if self.grpc else 'http'}{'s' if self.secure else ''}://{self.address}{self.prefix}"

    def path(self, model: str, what: str = "") -> str:
        """The path of a model, or of something about it."""
        return f"{self.prefix}/v2/models/{quote(model, safe='')}" + (f"/{what}" if what else "")

    def tls(self) -> SSLContext | None:
        """How to check the server's certificate; None where nothing is encrypted."""
        if not self.secure:
            return None
        try:
            return create_default_context(cafile=self.authorities)
        except OSError as error:
            rule = f"cannot be read as certificates: {error.strerror or error}"
            raise InputError(rule, file=self.authorities) from None


def _no_url(text: str) -> InputError:
    return InputError("is not the URL of a server, as in http://127.0.0.1:8000", field="url", value=text)
