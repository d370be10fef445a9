"""How a server is to run, checked before anything is started."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from gpuyard.core.arguments import check_number
from gpuyard.core.errors import InputError
from gpuyard.policies.partition.tracking import Tracking
from gpuyard.serving.http.values import HttpLimits

TOKEN_VARIABLE = "GPUYARD_SERVE_TOKEN"  # noqa: S105
"""Where the token is, unless a file has it. An argument would show it to everybody on the machine."""
LONGEST_PORT = 65535


@dataclass(frozen=True)
class ServeSettings:
    """Where to listen, what to run batches on, and what clients may cost."""

    host: str = "127.0.0.1"
    http_port: int = 8000
    grpc_port: int = 8001
    tls_cert: Path | None = None
    tls_key: Path | None = None
    token: str = field(default="", repr=False)
    executor: str = "emulated"
    models: Path | None = None
    state: Path | None = None
    replan: bool = True
    tracking: Tracking = field(default_factory=Tracking)
    """When requests are counted and the plan is revised, if `replan`."""
    prepare_s: float = 12.0
    """What a new slice takes until it is ready when plans change, where that is emulated."""
    drain_s: float = 30.0
    limits: HttpLimits = field(default_factory=HttpLimits)

    def __post_init__(self) -> None:
        for name in ("http_port", "grpc_port"):
            check_number(getattr(self, name), name, least=0, whole=True)
            if getattr(self, name) > LONGEST_PORT:
                raise InputError(f"is above {LONGEST_PORT}", field=name, value=getattr(self, name))
        for name in ("prepare_s", "drain_s"):
            check_number(getattr(self, name), name, least=0)
        if (self.tls_cert is None) != (self.tls_key is None):
            raise InputError("go together", field="tls_cert, tls_key")
        if not self.is_local and not (self.tls_cert and self.token):
            raise InputError(
                "is reached from elsewhere, and so needs --tls-cert, --tls-key and a token",
                field="host", value=self.host, hint=f"Put the token into {TOKEN_VARIABLE} or a --token-file",
            )  # fmt: skip

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:  # another name, wherever it leads
            return False

    def tls(self) -> tuple[bytes, bytes] | None:
        """The key and the certificates, if there are."""
        if self.tls_key is None or self.tls_cert is None:
            return None
        return _read(self.tls_key, "tls_key"), _read(self.tls_cert, "tls_cert")


def _read(path: Path, field: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", field=field, value=str(path)) from None


def read_token(file: Path | None, environment: Any = os.environ) -> str:
    """The token from a file, or from the environment; empty if there is none."""
    text = (
        _read(file, "token_file").decode(errors="replace") if file is not None else environment.get(TOKEN_VARIABLE, "")
    )
    token = text.strip()
    if file is not None and not token:
        raise InputError("is empty", field="token_file", value=str(file))
    if not token.isascii() or any(letter.isspace() for letter in token):
        raise InputError("must be printable ASCII without spaces", field="token")
    return token
