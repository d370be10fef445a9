"""Real servers in processes of their own, and plain ways to talk to them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

PATIENCE_S = 60.0
"""For whatever must happen at last, however busy the machine is."""

SERVICES = """\
gpuyard: services/1
services:
  - {model: lenet1, rate_per_s: 100, slo_ms: 20000}
  - {model: bert, rate_per_s: 50, slo_ms: 20000}
"""
"""With so much time to answer that no machine is too slow."""

LENET = {"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 1, 28, 28], "data": [0.5] * 784}]}
BERT = {"inputs": [{"name": "input", "datatype": "INT64", "shape": [1, 14], "data": list(range(14))}]}


class Running(NamedTuple):
    """A server that is ready."""

    process: subprocess.Popen[str]
    http: int
    grpc: int

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.http}{path}"

    def get(self, path: str) -> tuple[int, bytes]:
        return answer(Request(self.url(path)))

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return answer(Request(self.url(path), data=data, headers=headers or {}, method="POST"))

    def infer(self, name: str = "lenet1", body: Any = None) -> int:
        return self.post(f"/v2/models/{name}/infer", body if body is not None else LENET)[0]

    def statistics(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.get(f"/v2/models/{name}/stats")[1])["model_stats"][0]
        return found

    def metric(self, line: str) -> float:
        """The value of a line of /metrics that begins so."""
        text = self.get("/metrics")[1].decode()
        return sum(float(each.rsplit(" ", 1)[1]) for each in text.splitlines() if each.startswith(line))

    def outcomes(self, name: str) -> dict[str, int]:
        whys = ("answered", "refused", "late", "failed")
        return {
            why: int(self.metric(f'gpuyard_requests_total{{outcome="{why}",service="{name}"}}')) for why in whys
        }  # fmt: skip

    def gpu_processes(self) -> list[int]:
        """The process ids of its GPU processes."""
        return [pid for pid in children(self.process.pid) if b"serving.gpu.process" in command(pid)]

    def planners(self) -> list[int]:
        """The process ids of those that revise plans."""
        return [pid for pid in children(self.process.pid) if b"spawn_main" in command(pid)]

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.http), timeout=PATIENCE_S)


def children(process: int) -> list[int]:
    """The process ids of all that a process has started and that have not ended."""
    lists = Path(f"/proc/{process}/task").glob("*/children")
    return sorted({int(pid) for each in lists for pid in each.read_text().split()})


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def answer(request: Request, **options: Any) -> tuple[int, bytes]:
    """The status and the body, whatever the status is."""
    try:
        with urlopen(request, timeout=PATIENCE_S, **options) as found:
            return found.status, found.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()


@contextmanager
def serving(plan: Path, *options: str, env: dict[str, str] | None = None) -> Iterator[Running]:
    """A server for a plan or services; ended at the end, if it has not been before."""
    words = [sys.executable, "-m", "gpuyard", "serve", str(plan), "--http-port", "0", "--grpc-port", "0"]
    process = subprocess.Popen(
        [*words, "--preparation", "0.05", *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | (env or {}),
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("ready: "), process.stderr.read()
        http, grpc = (int(each.rsplit(":", 1)[1]) for each in line.split()[1:])
        yield Running(process, http, grpc)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise


def eventually(condition: Callable[[], object], what: str) -> None:
    """Wait until something is so; fail if it never is."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.02)


class Outcome(NamedTuple):
    """What a crowd of clients got: how often each status, and the headers of one refusal."""

    statuses: dict[int, int]
    refusal: dict[str, str]


def crowd(port: int, requests: int, clients: int = 16, name: str = "lenet1", body: Any = None) -> Outcome:
    """Send requests from several clients at once, each on one connection, and count what comes back."""
    data = json.dumps(body if body is not None else LENET).encode()
    found: Counter[int] = Counter()
    refusal: dict[str, str] = {}

    def client(count: int) -> Counter[int]:
        connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        mine: Counter[int] = Counter()
        for _ in range(count):
            connection.request("POST", f"/v2/models/{name}/infer", data)
            with connection.getresponse() as response:
                response.read()
                mine[response.status] += 1
                if response.status == 503:
                    refusal.update({key.lower(): value for key, value in response.getheaders()})
        connection.close()
        return mine

    with ThreadPoolExecutor(clients) as pool:
        for each in pool.map(client, [requests // clients] * clients):
            found.update(each)
    return Outcome(dict(found), refusal)


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine and its key; skips the test where none can be made."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)],
        capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip("no openssl to make a certificate with")
    return cert, key
