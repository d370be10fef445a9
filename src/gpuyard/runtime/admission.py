"""Who may talk to a gRPC server of ours, and what one is told who may not: one clear line, before anything else."""

from __future__ import annotations

import re
from hmac import compare_digest
from pathlib import Path
from typing import Any

import grpc

from gpuyard.client.control import VERSION
from gpuyard.runtime.access import CA, SERVER, read_secret
from gpuyard.runtime.addresses import SchedulerAddress

_SERVICE = re.compile(r"/gpuyard\.runtime\.v(\d+)\.")
_NOT_BELIEVED = ("CERTIFICATE_VERIFY_FAILED", "BAD_SIGNATURE")
_NOT_NOW = ("certificate has expired", "certificate is not yet valid")
_CLOSED = ("socket closed", "connection reset", "broken pipe", "handshake", "alert")


class Admission(grpc.ServerInterceptor):  # type: ignore[misc]
    """Lets in who speaks our version of the protocol and, if there is a token, knows it."""

    def __init__(self, token: bytes | None = None) -> None:
        self._wanted = None if token is None else b"Bearer " + token

    def intercept_service(self, continuation: Any, details: Any) -> Any:
        """Look at the name and the metadata of a call before anything else."""
        spoken = _SERVICE.match(details.method)
        if spoken is not None and int(spoken[1]) != VERSION:
            rule = f"gpuyard here speaks version {VERSION} of the protocol, and the caller version {spoken[1]}"
            return _refusal(grpc.StatusCode.FAILED_PRECONDITION, rule)
        if self._wanted is not None and not compare_digest(_token_of(details), self._wanted):
            return _refusal(grpc.StatusCode.UNAUTHENTICATED, "the token is not that of this run")
        return continuation(details)


def _token_of(details: Any) -> bytes:
    given = next((value for name, value in details.invocation_metadata if name == "authorization"), "")
    return given if isinstance(given, bytes) else str(given).encode()


def _refusal(code: grpc.StatusCode, rule: str) -> Any:
    def refuse(_requests: Any, context: grpc.ServicerContext) -> Any:
        context.abort(code, rule)

    return grpc.stream_stream_rpc_method_handler(refuse)  # which waits for no request


def server_credentials(folder: Path) -> grpc.ServerCredentials:
    """TLS with the scheduler's certificate, for callers who have one of the same run."""
    certificate = (folder / f"{SERVER}.crt").read_bytes()
    key = read_secret(folder / f"{SERVER}.key")
    return grpc.ssl_server_credentials([(key, certificate)], (folder / CA).read_bytes(), require_client_auth=True)


def why_not(error: grpc.RpcError, address: SchedulerAddress) -> str:
    """In a line, why a scheduler did not answer."""
    details = str(error.details() or error.code()).splitlines()[0]
    if error.code() is grpc.StatusCode.UNAVAILABLE and address.access:
        if any(sign in details for sign in _NOT_NOW):
            return "its certificate is not valid at this time: is the clock of this machine right?"
        if any(sign in details for sign in _NOT_BELIEVED):
            return f"its certificate is not of the run that {address.access} belongs to"
        if any(sign in details.lower() for sign in _CLOSED):
            return f"it closed the connection: the certificate in {address.access} may be of another run"
    return details
