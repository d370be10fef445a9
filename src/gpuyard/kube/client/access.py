"""How to reach an API server: from the files of a pod's service account, or from a kubeconfig."""

from __future__ import annotations

import base64
import os
import re
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gpuyard.core.errors import InputError
from gpuyard.profiles.reading import read_yaml

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN = re.compile(r"[!-~]*")
_HOST = re.compile(r"[-A-Za-z0-9_.:%]+")


@dataclass(frozen=True)
class ApiAccess:
    """Where an API server is, and how to show it who asks."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    token_file: Path | None = None
    """Read again for each connection, as tokens of pods are renewed."""
    token: str = ""

    def headers(self) -> dict[str, str]:
        """What each request says of who asks."""
        token = self.token_file.read_text().strip() if self.token_file else self.token
        return {"Authorization": f"Bearer {token}"} if token else {}


def find_access(kubeconfig: Path | None = None, environment: Mapping[str, str] = os.environ) -> ApiAccess:
    """Access by this file, or by KUBECONFIG, the pod's service account or ~/.kube/config, whichever is there first."""
    if kubeconfig is not None:
        return from_kubeconfig(kubeconfig)
    if environment.get("KUBECONFIG"):
        return from_kubeconfig(Path(environment["KUBECONFIG"].split(os.pathsep)[0]))
    if environment.get("KUBERNETES_SERVICE_HOST") and (SERVICE_ACCOUNT / "token").exists():
        return from_service_account(environment)
    usual = Path.home() / ".kube" / "config"
    if usual.exists():
        return from_kubeconfig(usual)
    raise InputError(
        "no cluster is known here", field="kubeconfig", hint="Name a file by --kubeconfig, or by KUBECONFIG"
    )


def from_service_account(environment: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> ApiAccess:
    """Access as every pod has it."""
    tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    port = int(environment.get("KUBERNETES_SERVICE_PORT", "443"))
    return ApiAccess(environment["KUBERNETES_SERVICE_HOST"], port, tls, token_file=folder / "token")


def from_kubeconfig(path: Path) -> ApiAccess:
    """Access by the current context of a kubeconfig: a token or a client certificate; no programs that fetch one."""
    content = read_yaml(path, "kubeconfig")
    try:
        context = _named(content, "contexts", content["current-context"])["context"]
        cluster = _named(content, "clusters", context["cluster"])["cluster"]
        user = _named(content, "users", context["user"])["user"] or {}
        server = cluster["server"]
    except (KeyError, TypeError, StopIteration):
        raise InputError("is not a kubeconfig with a current context, its cluster and its user", file=path) from None
    if not isinstance(user, dict):
        raise InputError("must be a mapping", file=path, field="users.user", value=type(user).__name__)
    if "exec" in user or "auth-provider" in user:
        raise InputError("asks for a program that fetches a token, which gpuyard does not start", file=path)
    scheme, host, port = _address(server, path)
    tls = _tls(cluster, user, path) if scheme == "https" else None
    token_file = _text(user, "tokenFile", path)
    token = _text(user, "token", path)
    if not _TOKEN.fullmatch(token):
        raise InputError("must be one word of plain letters, digits and signs", file=path, field="token")
    return ApiAccess(host, port, tls, path.parent / token_file if token_file else None, token)


def _address(server: Any, path: Path) -> tuple[str, str, int]:
    """Scheme, host and port of a server."""
    usual = {"https": 443, "http": 80}
    try:
        found = urlsplit(str(server))
        scheme, host, port = found.scheme, found.hostname, found.port
    except ValueError:  # of a port or an address in brackets
        scheme, host, port = "", None, None
    if scheme not in usual or not host or not _HOST.fullmatch(host):
        raise InputError("must be http://HOST:PORT or https://HOST:PORT", file=path, field="server", value=server)
    return scheme, host, port or usual[scheme]


def _named(content: Any, kind: str, name: str) -> Any:
    return next(each for each in content[kind] if each["name"] == name)


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], path: Path) -> ssl.SSLContext:
    authority = _content(cluster, "certificate-authority", path)
    with _certificates(path, "certificate-authority"):
        tls = ssl.create_default_context(cadata=authority.decode() if authority else None)
    unverified = cluster.get("insecure-skip-tls-verify") or False
    if not isinstance(unverified, bool):
        rule = "must be true or false, without quotes"
        raise InputError(rule, file=path, field="insecure-skip-tls-verify", value=unverified)
    if unverified:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    certificate, key = _content(user, "client-certificate", path), _content(user, "client-key", path)
    if certificate and key:
        # The one way in which ssl takes a key is a file; nobody else can read it, and it is gone at once.
        with tempfile.NamedTemporaryFile() as file, _certificates(path, "client-certificate, client-key"):
            file.write(certificate + b"\n" + key)
            file.flush()
            tls.load_cert_chain(file.name)
    return tls


@contextmanager
def _certificates(path: Path, field: str) -> Iterator[None]:
    """Let what ssl cannot read name the file and the field; keys are not told."""
    try:
        yield
    except (ssl.SSLError, ValueError):
        raise InputError("is no certificate with its key in PEM that can be read", file=path, field=field) from None


def _content(holder: Mapping[str, Any], name: str, path: Path) -> bytes:
    """What a kubeconfig says as base64 text, or names as a file beside it."""
    encoded, named = _text(holder, f"{name}-data", path), _text(holder, name, path)
    if encoded:
        try:
            return base64.b64decode(encoded, validate=True)
        except ValueError:
            raise InputError("is not base64", file=path, field=f"{name}-data") from None
    try:
        return (path.parent / named).read_bytes() if named else b""
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot be read: {why}", file=path, field=name, value=named) from None


def _text(holder: Mapping[str, Any], name: str, path: Path) -> str:
    """A field that is text; empty where there is none. Its value may be secret, and is not told."""
    found = holder.get(name)
    if found is not None and not isinstance(found, str):
        raise InputError(f"must be text, and is a {type(found).__name__}", file=path, field=name)
    return found or ""
