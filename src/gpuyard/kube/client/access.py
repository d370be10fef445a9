"""How to reach an API server: from the files of a pod's service account, or from a kubeconfig."""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from gpuyard.core.errors import InputError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


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
    try:
        content = yaml.safe_load(path.read_text())
        context = _named(content, "contexts", content["current-context"])["context"]
        cluster = _named(content, "clusters", context["cluster"])["cluster"]
        user = _named(content, "users", context["user"])["user"] or {}
        server = urlsplit(cluster["server"])
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path) from None
    except (KeyError, TypeError, StopIteration, yaml.YAMLError):
        raise InputError("is not a kubeconfig with a current context, its cluster and its user", file=path) from None
    if "exec" in user or "auth-provider" in user:
        raise InputError("asks for a program that fetches a token, which gpuyard does not start", file=path)
    tls = _tls(cluster, user, path) if server.scheme == "https" else None
    port = server.port or (443 if tls else 80)
    token_file = Path(user["tokenFile"]) if user.get("tokenFile") else None
    return ApiAccess(server.hostname or "", port, tls, token_file, str(user.get("token", "")))


def _named(content: Any, kind: str, name: str) -> Any:
    return next(each for each in content[kind] if each["name"] == name)


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], path: Path) -> ssl.SSLContext:
    authority = _content(cluster, "certificate-authority", path)
    tls = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    certificate, key = _content(user, "client-certificate", path), _content(user, "client-key", path)
    if certificate and key:
        # The one way in which ssl takes a key is a file; nobody else can read it, and it is gone at once.
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate + b"\n" + key)
            file.flush()
            tls.load_cert_chain(file.name)
    return tls


def _content(holder: Mapping[str, Any], name: str, path: Path) -> bytes:
    """What a kubeconfig says as base64 text, or names as a file beside it."""
    if holder.get(f"{name}-data"):
        return base64.b64decode(holder[f"{name}-data"])
    return (path.parent / holder[name]).read_bytes() if holder.get(name) else b""
