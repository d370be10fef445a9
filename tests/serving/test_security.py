"""Only this machine is answered, unless the way there is encrypted and whoever asks shows a token."""

import os
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request

import grpc
import pytest
from tests.serving.running import Running, answer, certificate, children, serving

from gpuyard.cli import main
from gpuyard.core.errors import InputError
from gpuyard.serving.settings import TOKEN_VARIABLE, ServeSettings, read_token

TOKEN = "a-very-secret-token"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "gpu-server", "127.example.org", ""])
def test_to_be_reached_from_elsewhere_takes_tls_and_a_token(host: str, tmp_path: Path) -> None:
    pair: dict[str, Any] = {"tls_cert": tmp_path / "cert.pem", "tls_key": tmp_path / "key.pem"}
    with pytest.raises(InputError, match="needs --tls-cert, --tls-key and a token"):
        ServeSettings(host=host)
    with pytest.raises(InputError, match="needs --tls-cert"):
        ServeSettings(host=host, token=TOKEN)
    with pytest.raises(InputError, match="and a token"):
        ServeSettings(host=host, **pair)
    assert ServeSettings(host=host, token=TOKEN, **pair).token == TOKEN


def test_a_token_comes_from_a_file_or_the_environment_and_is_never_shown(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    assert read_token(path, {}) == read_token(None, {TOKEN_VARIABLE: TOKEN}) == TOKEN
    assert read_token(None, {}) == ""
    assert TOKEN not in repr(ServeSettings(token=TOKEN))
    path.write_text("\n")
    with pytest.raises(InputError, match="is empty"):
        read_token(path, {})
    with pytest.raises(InputError, match="without spaces"):
        read_token(None, {TOKEN_VARIABLE: "two words"})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--host", "0.0.0.0"], "needs --tls-cert, --tls-key and a token"),
        (["--http-port", "70000"], "is above 65535"),
        (["--tls-cert", "cert.pem"], "go together"),
        (["--token-file", "no-such-file"], "cannot be read"),
        (["--world", "torch-cpu"], "real models are in a folder"),
        (["--body-limit", "0"], "body_limit"),
        (["--load", "poisson"], "field load: is for --world simulated alone"),
        (["--trace", "x.csv"], "field trace: is for --world simulated alone"),
        (["--seconds", "60"], "field seconds: is for --world simulated alone"),
        (["--out", "runs"], "field out: is for --world simulated alone"),
        (["--format", "json"], "field format: is for --world simulated alone"),
        (["--body-limit", "99999999999"], "field body_limit: 99999999999 is beyond 1024"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_before_anything_starts(
    services: Path, capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    assert refusal(capsys, services, *options, says=says) == (2, "", 1, True)


def refusal(capsys: pytest.CaptureFixture[str], *words: object, says: str) -> tuple[int, str, int, bool]:
    """The exit code, the output, how many lines say what is wrong, and whether they say this."""
    with pytest.raises(SystemExit) as end:
        main(["serve", *map(str, words)])
    told = capsys.readouterr()
    return int(end.value.code or 0), told.out, told.err.count("\n"), says in told.err


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_ports_that_are_taken_are_said_in_one_line(services: Path, server: Running, protocol: str) -> None:
    ports = {"http": 0, "grpc": 0} | {protocol: getattr(server, protocol)}
    options = [word for name, port in ports.items() for word in (f"--{name}-port", str(port))]
    command = [sys.executable, "-m", "gpuyard", "serve", str(services), *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    [line] = ended.stderr.splitlines()
    assert "cannot be listened on" in line


def test_over_tls_with_a_token(services: Path, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    options = ("--host", "0.0.0.0", "--tls-cert", str(cert), "--tls-key", str(key))
    with serving(services, *options, env={TOKEN_VARIABLE: TOKEN}) as server:
        trusted = ssl.create_default_context(cafile=str(cert))
        url = f"https://127.0.0.1:{server.http}/v2/health/live"
        shown = {"Authorization": f"Bearer {TOKEN}"}
        assert answer(Request(url, headers=shown), context=trusted)[0] == 200
        assert answer(Request(url, headers={"Authorization": f"bearer {TOKEN}"}), context=trusted)[0] == 200
        for wrong in ({}, {"Authorization": "Bearer guess"}, {"Authorization": TOKEN}):
            assert answer(Request(url, headers=wrong), context=trusted)[0] == 401
        credentials = grpc.ssl_channel_credentials(cert.read_bytes())
        with grpc.secure_channel(f"localhost:{server.grpc}", credentials) as channel:
            live = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
            assert live(b"", metadata=[("authorization", f"Bearer {TOKEN}")], timeout=60) == b"\x08\x01"
            assert live(b"", metadata=[("authorization", f"bearer {TOKEN}")], timeout=60) == b"\x08\x01"
            with pytest.raises(grpc.RpcError) as refused:
                live(b"", timeout=60)
            assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
        started = children(server.process.pid)
        assert set(server.gpu_processes()) < set(started)  # and the one that revises plans
        assert not any(TOKEN.encode() in Path(f"/proc/{each}/environ").read_bytes() for each in started)
        server.process.terminate()
        told = server.process.communicate(timeout=60)
        assert TOKEN not in "".join(told)
    assert TOKEN not in os.environ.values()
