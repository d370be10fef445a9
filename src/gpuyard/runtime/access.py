"""What lets agents and users reach a scheduler over a network: made once for a run, in files that are closed to others.

A run has a certificate authority of its own, which signs two certificates, the scheduler's and that of all who call it,
and is forgotten at once: nobody can make another one. So it does not matter at which address a scheduler listens.
"""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex, token_urlsafe
from typing import TYPE_CHECKING, Any

from gpuyard.core.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from cryptography.x509 import CertificateBuilder

SCHEDULER_NAME = "scheduler.gpuyard"
"""What the scheduler's certificate says, wherever it listens."""
VALID = timedelta(days=3650)
CLOCKS_DIFFER = timedelta(days=1)
TOKEN, CA = "token", "ca.crt"
CLIENT, SERVER = "client", "scheduler"
_OTHERS = 0o077


def access_folder(state: Path) -> Path:
    """What a caller of this run's scheduler needs, and nothing else: it may be copied to where it is needed."""
    return state / "access"


def server_folder(state: Path) -> Path:
    """What only the scheduler itself needs."""
    return state / "access-scheduler"


def make_access(state: Path) -> None:
    """Make the secrets of a run, unless an earlier scheduler did."""
    client, server = access_folder(state), server_folder(state)
    if (client / TOKEN).exists():
        return
    authority = _Authority()
    for folder in (server, client):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True)
        _write(folder / CA, authority.certificate)
    for folder, name in ((server, SERVER), (client, CLIENT)):
        certificate, key = authority.sign(name)
        _write(folder / f"{name}.crt", certificate)
        _write(folder / f"{name}.key", key)
    _write(client / TOKEN, token_urlsafe(32).encode())  # the last one: with it the folder is complete


def read_secret(path: Path) -> bytes:
    """The content of a file; InputError if it is empty, or others could read it."""
    try:
        content = path.read_bytes().strip()
        mode = path.stat().st_mode
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path) from None
    if mode & _OTHERS:
        raise InputError("is open to others", file=path, hint=f"chmod 600 {path}")
    if not content:
        raise InputError("is empty", file=path)
    return content


def _write(path: Path, content: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


class _Authority:
    """Signs the certificates of one run; its key is nowhere but here."""

    def __init__(self) -> None:
        try:
            from cryptography import x509
            from cryptography.hazmat.primitives import hashes, serialization
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError:
            raise MissingExtraError("a scheduler for several machines", "run") from None
        self._x509, self._hashes, self._serialization, self._ec = x509, hashes, serialization, ec
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = self._named(f"gpuyard run {token_hex(8)}")
        built = self._builder(self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.certificate = self._signed(built)

    def sign(self, role: str) -> tuple[bytes, bytes]:
        """A certificate and its key: a caller's cannot pass for the scheduler's, nor the other way round."""
        x509, usage = self._x509, self._x509.oid.ExtendedKeyUsageOID
        name = SCHEDULER_NAME if role == SERVER else f"{role}.gpuyard"
        key = self._ec.generate_private_key(self._ec.SECP256R1())
        use = usage.SERVER_AUTH if role == SERVER else usage.CLIENT_AUTH
        built = (
            self._builder(self._named(name), key.public_key())
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=True)
        )
        kind = self._serialization
        text = key.private_bytes(kind.Encoding.PEM, kind.PrivateFormat.PKCS8, kind.NoEncryption())
        return self._signed(built), text

    def _named(self, name: str) -> Any:
        return self._x509.Name([self._x509.NameAttribute(self._x509.oid.NameOID.COMMON_NAME, name)])

    def _builder(self, subject: Any, public_key: Any) -> CertificateBuilder:
        now = datetime.now(UTC)
        return (
            self._x509.CertificateBuilder()
            .subject_name(subject).issuer_name(self._name).public_key(public_key)
            .serial_number(self._x509.random_serial_number())
            .not_valid_before(now - CLOCKS_DIFFER).not_valid_after(now + VALID)
        )  # fmt: skip

    def _signed(self, built: CertificateBuilder) -> bytes:
        return built.sign(self._key, self._hashes.SHA256()).public_bytes(self._serialization.Encoding.PEM)
