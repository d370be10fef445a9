"""Says in one line what is not installed."""

from __future__ import annotations

import os
from importlib.util import find_spec

from gpuyard.core.errors import MissingExtraError

SERVER = ("uvloop", "httptools", "grpc", "google.protobuf", "orjson", "prometheus_client")


def check_needed(executor: str) -> None:
    """Raise unless all is there that a server with this executor imports."""
    if any(_is_missing(name) for name in SERVER):
        raise MissingExtraError("gpuyard serve", "serve")
    if executor != "emulated" and _is_missing("torch"):
        raise MissingExtraError(f"gpuyard serve --world {executor}", "torch")


def quiet_grpc() -> None:
    """Keep gRPC, which is imported later, from remarks about GPU processes that are started beside its threads."""
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


def _is_missing(name: str) -> bool:
    try:
        return find_spec(name) is None
    except ModuleNotFoundError:
        return True
