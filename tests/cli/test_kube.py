"""`gpuyard kube` on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.kube.api_server import ApiStandIn, api_server
from tests.kube.builders import node, pod

from gpuyard.cli import main


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["kube", *map(str, args)])
    shown = capsys.readouterr()
    code = ended.value.code
    return code if isinstance(code, int) else 0, shown.out, shown.err


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ApiStandIn]:
    """A cluster that KUBECONFIG names."""
    with api_server() as server:
        content = {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{server.port}"}}],
            "users": [{"name": "me", "user": {}}],
        }
        (tmp_path / "config").write_text(yaml.safe_dump(content))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        server.objects["/version"] = {"metadata": {}, "minor": "31"}
        yield server


def test_all_manifests_are_printed_as_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "render", "--image", "mine:1", "--emulated", "2xA100")
    found = list(yaml.safe_load_all(out))
    assert code == 0
    assert {each["kind"] for each in found} >= {"Secret", "DaemonSet", "Deployment", "ConfigMap"}
    assert "mine:1" in out
    assert "2xA100" in out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("render", "--kubernetes", "2.0"), "is not a version of Kubernetes"),
        (("render", "--emulated", "4xNothing"), "Nothing"),
        (("render", "--values", "nowhere.yaml"), "nowhere.yaml: cannot be read"),
        (("status", "--kubeconfig", "nowhere"), "nowhere: cannot be read"),
        (("extender", "--listen", "here"), "is not HOST:PORT"),
        (("extender", "--listen", "127.0.0.1:0", "--tls-cert", "a"), "go together"),
        (("extender", "--listen", "127.0.0.1:0", "--client-ca", "a"), "go together"),
        (("extender", "--multiplex", "pairwise"), "a scheduler asks about one pod at a time"),
        (("extender", "--multiplex", "interferense"), "Did you mean"),
        (("extender", "--listen", "127.0.0.1:0", "--tls-cert", "a", "--tls-key", "b"), "cannot be used for TLS"),
        (("device-plugin", "--emulated", "4xNothing", "--node", "n1"), "Nothing"),
        (("device-plugin", "--emulated", "V100", "--node", "n1", "--speed", "-1"), "is not a positive number"),
        (("node", "--node", "n1", "--emulated", "4xNothing"), "Nothing"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], args: tuple[str, ...], said: str
) -> None:
    code, out, err = run(capsys, *args)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_machine_that_knows_no_cluster_is_told_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    code, _, err = run(capsys, "status")
    assert code == 2
    assert "no cluster is known here. Name a file by --kubeconfig" in err


def test_the_gpus_of_a_cluster_are_listed(capsys: pytest.CaptureFixture[str], cluster: ApiStandIn) -> None:
    _, out, err = run(capsys, "status")
    assert (out, "No node has GPUs" in err) == ("", True)
    cluster.add_node(node("n1", 16))
    cluster.add_pod(pod("a", memory=6, node="n1", devices="0", phase="Running"))
    _, out, _ = run(capsys, "status")
    assert "lab/a (6 GiB, +0%)" in out
    _, out, _ = run(capsys, "status", "--format", "json")
    assert json.loads(out)[0]["tasks"][0]["pod"] == "lab/a"
    _, out, _ = run(capsys, "why", "a", "-n", "lab")
    assert out.startswith("lab/a has GPU 0 of node n1")


def test_a_snapshot_is_written(capsys: pytest.CaptureFixture[str], cluster: ApiStandIn, tmp_path: Path) -> None:
    cluster.add_node(node("n1", 16))
    cluster.add_pod(pod("a", memory=6))
    _, _, err = run(capsys, "snapshot", "--out", tmp_path / "now.json")
    assert "1 nodes and 1 jobs" in err
    assert "lab/a" in (tmp_path / "now.json").read_text()


def test_certificates_are_kept_when_it_is_installed_again(
    capsys: pytest.CaptureFixture[str], cluster: ApiStandIn
) -> None:
    secret = "/api/v1/namespaces/gpuyard-system/secrets/gpuyard-extender-tls"
    code, _, err = run(capsys, "install", "--wait", "0")
    assert (code, "is not ready after 0 s" in err) == (1, True)
    first = cluster.objects[secret]["data"]
    run(capsys, "install", "--wait", "0")
    assert cluster.objects[secret]["data"] == first
    code, _, err = run(capsys, "uninstall")
    assert (code, "removed" in err) == (0, True)
    assert [path for path in cluster.objects if "gpuyard" in path] == []
