"""Certificates between a scheduler and its extender, signed by an authority of their own.

The authority's key is forgotten at once: nobody can sign another one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from gpuyard.core.errors import MissingExtraError

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
except ImportError:
    raise MissingExtraError("gpuyard kube install", "kube") from None

VALID = timedelta(days=3650)
CLOCKS_DIFFER = timedelta(days=1)


def make_certificates(server: str, also: Sequence[str] = ()) -> dict[str, bytes]:
    """The files of a server of this name, and others that it is reached by, and of its client."""
    authority = ec.generate_private_key(ec.SECP256R1())
    root = (
        _builder("gpuyard", "gpuyard", authority)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority, hashes.SHA256())
    )
    use = x509.oid.ExtendedKeyUsageOID
    names = [_general_name(each) for each in (server, *also)]
    made = {"ca.crt": _pem(root)}
    for file, name, usage in (("tls", server, use.SERVER_AUTH), ("client", f"{server}-client", use.CLIENT_AUTH)):
        key = ec.generate_private_key(ec.SECP256R1())
        built = _builder(name, "gpuyard", key).add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
        if usage == use.SERVER_AUTH:
            built = built.add_extension(x509.SubjectAlternativeName(names), critical=False)
        made[f"{file}.crt"] = _pem(built.sign(authority, hashes.SHA256()))
        made[f"{file}.key"] = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    return made


def _builder(subject: str, issuer: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_named(subject)).issuer_name(_named(issuer)).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER).not_valid_after(now + VALID)
    )  # fmt: skip


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, name)])


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
