"""How an API server is found, and what is said to it."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuyard.core.errors import InputError
from gpuyard.kube.client.access import find_access, from_kubeconfig, from_service_account
from gpuyard.kube.install.certificates import make_certificates


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return make_certificates("kubernetes")


def kubeconfig(folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    path = folder / "config"
    content = {
        "current-context": "b",
        "contexts": [{"name": "a", "context": {}}, {"name": "b", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(content))
    return path


def test_a_token_and_an_authority_of_a_file_beside_it(tmp_path: Path, files: dict[str, bytes]) -> None:
    (tmp_path / "ca.crt").write_bytes(files["ca.crt"])
    cluster = {"server": "https://10.0.0.1:6443", "certificate-authority": "ca.crt"}
    access = from_kubeconfig(kubeconfig(tmp_path, cluster, {"token": "secret"}))
    assert (access.host, access.port) == ("10.0.0.1", 6443)
    assert access.headers() == {"Authorization": "Bearer secret"}
    assert access.tls is not None
    assert access.tls.verify_mode == ssl.CERT_REQUIRED


def test_a_client_certificate_within_the_file(tmp_path: Path, files: dict[str, bytes]) -> None:
    written = {name: base64.b64encode(content).decode() for name, content in files.items()}
    cluster = {"server": "https://here", "certificate-authority-data": written["ca.crt"]}
    user = {"client-certificate-data": written["client.crt"], "client-key-data": written["client.key"]}
    access = from_kubeconfig(kubeconfig(tmp_path, cluster, user))
    assert (access.port, access.headers()) == (443, {})


def test_a_server_is_believed_without_proof_only_if_the_file_says_so(tmp_path: Path) -> None:
    cluster = {"server": "https://here", "insecure-skip-tls-verify": True}
    access = from_kubeconfig(kubeconfig(tmp_path, cluster, {}))
    assert access.tls is not None
    assert access.tls.verify_mode == ssl.CERT_NONE


def test_a_token_of_a_pod_is_read_again_each_time(tmp_path: Path, files: dict[str, bytes]) -> None:
    (tmp_path / "ca.crt").write_bytes(files["ca.crt"])
    (tmp_path / "token").write_text("first\n")
    access = from_service_account({"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, tmp_path)
    assert access.headers() == {"Authorization": "Bearer first"}
    (tmp_path / "token").write_text("second")
    assert access.headers() == {"Authorization": "Bearer second"}


def test_programs_that_fetch_tokens_are_not_started(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {"server": "https://here"}, {"exec": {"command": "rm"}})
    with pytest.raises(InputError, match="which gpuyard does not start"):
        from_kubeconfig(path)


@pytest.mark.parametrize("text", ["", "[]", "current-context: x", "a: 1", "{contexts: 5, current-context: x}"])
def test_what_is_no_kubeconfig_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(InputError, match="is not a kubeconfig"):
        from_kubeconfig(tmp_path / "config")


def test_the_variable_goes_before_the_home_folder(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {"server": "http://127.0.0.1:80"}, {})
    assert find_access(None, {"KUBECONFIG": str(path)}).host == "127.0.0.1"


@pytest.mark.parametrize("text", [b"{", b"\xff\xfe", b"[" * 3000, b"a: 1\na: 2", b"a: 2026-99-99"])
def test_what_cannot_be_read_names_the_file(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "config").write_bytes(text)
    with pytest.raises(InputError, match="config"):
        from_kubeconfig(tmp_path / "config")


@pytest.mark.parametrize(
    ("cluster", "user", "field"),
    [
        ({"server": "ftp://a"}, {}, "server"),
        ({"server": "http://a:99999"}, {}, "server"),
        ({"server": "https://[bad"}, {}, "server"),
        ({"server": 5}, {}, "server"),
        ({"server": "https://a", "certificate-authority-data": "!!!"}, {}, "certificate-authority-data"),
        ({"server": "https://a", "certificate-authority-data": "eA=="}, {}, "certificate-authority"),
        ({"server": "https://a", "certificate-authority": "nowhere"}, {}, "certificate-authority"),
        ({"server": "https://a", "insecure-skip-tls-verify": "false"}, {}, "insecure-skip-tls-verify"),
        ({"server": "https://a"}, {"client-certificate-data": 5}, "client-certificate-data"),
        ({"server": "https://a"}, {"client-certificate-data": "eA==", "client-key-data": "eA=="}, "client-certificate"),
        ({"server": "http://a"}, {"token": "secret\nHost: b"}, "token"),
        ({"server": "http://a"}, {"token": b"secret"}, "token"),
        ({"server": "http://a"}, ["secret"], "users.user"),
    ],
)
def test_a_kubeconfig_with_a_wrong_field_names_it_and_tells_no_secret(
    tmp_path: Path, cluster: dict[str, Any], user: Any, field: str
) -> None:
    with pytest.raises(InputError) as refused:
        from_kubeconfig(kubeconfig(tmp_path, cluster, user))
    assert field in str(refused.value.field)
    assert str(tmp_path) in str(refused.value)
    assert "secret" not in str(refused.value)
