"""`python -m benchmarks.serving_http`: requests a second through HTTP, and what the server adds to an answer.

The server and whoever asks share this machine. What is added is the time from sending a request to having its answer,
less what the rules make it wait and what its emulated batch takes: the answer's Server-Timing says both. A request that
is refused counts as one that takes for ever; and there are as many connections as requests in a second, so that those
which are due while the server stands still are sent, unless that takes longer.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from time import perf_counter
from typing import cast

import uvloop

from benchmarks.limits import Figure
from benchmarks.measure import OtherLoad
from benchmarks.running import report, run_named

SERVICES = """\
gpuyard: services/1
services:
  - {model: lenet1, rate_per_s: 3000, slo_ms: 50}
"""
HEAD = (
    '{"inputs":[{"name":"input","shape":[1,1,28,28],"datatype":"FP32","parameters":{"binary_data_size":3136}}],'
    '"parameters":{"binary_data_output":true}}'
)
PATH = "/v2/models/lenet1/infer"
REQUEST = (
    f"POST {PATH} HTTP/1.1\r\nhost: x\r\ninference-header-content-length: {len(HEAD)}\r\n"
    f"content-length: {len(HEAD) + 3136}\r\n\r\n{HEAD}"
).encode() + bytes(3136)
LUA = f"""\
local head = '{HEAD}'
wrk.method = "POST"
wrk.body = head .. string.rep("\\0", 3136)
wrk.headers["Inference-Header-Content-Length"] = tostring(#head)
"""
ANSWER = re.compile(rb"^HTTP/1.1 (\d+).*?content-length: (\d+)", re.DOTALL)
TIMING = re.compile(rb"queue;dur=([\d.]+), compute;dur=([\d.]+)")
CONNECTIONS = 64
SECONDS = 8.0
LEAST_PER_S = 2000


class Client(asyncio.Protocol):
    """One connection, with one request under way at a time."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd, self._data, self._sent_s = crowd, b"", 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._crowd.free.append(self)

    def send(self) -> None:
        self._sent_s = perf_counter()
        self._transport.write(REQUEST)

    def data_received(self, data: bytes) -> None:
        self._data += data
        end = self._data.find(b"\r\n\r\n")
        found = ANSWER.search(self._data[:end]) if end >= 0 else None
        if found is None or len(self._data) < end + 4 + int(found[2]):
            return
        timing = TIMING.search(self._data[:end])
        took_ms = (perf_counter() - self._sent_s) * 1e3
        self._data = b""
        self._crowd.answered(self, int(found[1]), took_ms - sum(map(float, timing.groups())) if timing else 0.0)


class Crowd:
    """Connections, and what came back over them."""

    def __init__(self) -> None:
        self.free: deque[Client] = deque()
        self.added_ms: list[float] = []
        self.refused = 0
        self._again = False

    def answered(self, client: Client, status: int, added_ms: float) -> None:
        if status == 200:
            self.added_ms.append(added_ms)
        else:
            self.refused += 1
        if self._again:
            client.send()
        else:
            self.free.append(client)

    async def connect(self, port: int, connections: int = CONNECTIONS) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(connections):
            await loop.create_connection(lambda: Client(self), "127.0.0.1", port)

    async def at_once(self) -> float:
        """Ask again as soon as there is an answer; returns answers a second."""
        self._again = True
        began = perf_counter()
        while self.free:
            self.free.popleft().send()
        await asyncio.sleep(SECONDS)
        self._again = False
        return len(self.added_ms) / (perf_counter() - began)

    async def evenly(self, rate: float) -> None:
        """Ask so many times a second, to the millisecond."""
        began, sent = perf_counter(), 0
        while sent < rate * SECONDS:
            await asyncio.sleep(0.001)
            while sent < min((perf_counter() - began) * rate, rate * SECONDS) and self.free:
                self.free.popleft().send()
                sent += 1
        await asyncio.sleep(1.0)


@contextmanager
def server() -> Iterator[int]:
    """A server for one small model; gives its port."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "services.yaml"
        path.write_text(SERVICES, encoding="utf-8")
        command = [sys.executable, "-m", "gpuyard", "serve", str(path), "--http-port", "0", "--grpc-port", "0"]
        with subprocess.Popen([*command, "--no-replan"], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            ready = process.stdout.readline()
            yield int(ready.split()[1].rsplit(":", 1)[1])
            process.terminate()


def throughput() -> list[Figure]:
    """As many requests as can be, by our own generator and by wrk."""

    async def run(port: int) -> tuple[float, int]:
        crowd = Crowd()
        await crowd.connect(port)
        return await crowd.at_once(), crowd.refused

    with server() as port:
        rate, refused = uvloop.run(run(port))
        figures = [
            Figure("serving: requests/s through HTTP", rate, "/s", least=LEAST_PER_S, portable=False),
            Figure("serving: of these refused", refused, portable=False),
        ]
        return figures + by_wrk(port)


def by_wrk(port: int) -> list[Figure]:
    """The same by a generator in C, where it is installed."""
    if shutil.which("wrk") is None:
        print("wrk is not installed: apt-get install wrk; measured by our own generator alone", file=sys.stderr)
        return []
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(LUA)
        script.flush()
        command = [
            "wrk",
            "-t1",
            f"-c{CONNECTIONS}",
            f"-d{SECONDS:.0f}",
            "-s",
            script.name,
            f"http://127.0.0.1:{port}{PATH}",
        ]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rate = float(told.split("Requests/sec:")[1].split()[0])
    return [Figure("serving: requests/s through HTTP, by wrk", rate, "/s", least=LEAST_PER_S, portable=False)]


def added(rate: float = LEAST_PER_S / 2) -> list[Figure]:
    """What is added to an answer at half that load."""

    async def run(port: int) -> Crowd:
        crowd = Crowd()
        await crowd.connect(port, round(rate))
        await crowd.evenly(rate)
        return crowd

    others = OtherLoad()
    with server() as port:
        crowd = uvloop.run(run(port))
    times = sorted(crowd.added_ms) + [inf] * crowd.refused
    name = f"serving: added to an answer at {rate:.0f} requests/s"
    return [
        Figure(f"{name}, p50", times[len(times) // 2], "ms", portable=False),
        Figure(f"{name}, p99", times[int(len(times) * 0.99)], "ms", most=5.0, portable=False),
        Figure("serving: of these refused", crowd.refused, portable=False),
        Figure("serving: CPUs that other programs kept busy meanwhile", others.cpus(), portable=False),
    ]


if __name__ == "__main__":
    measured = run_named({"throughput": throughput, "added": added}, sys.argv[1:])
    sys.exit(2 if measured is None else report(measured))
