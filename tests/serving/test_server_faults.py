"""What happens to the server itself: no request hangs or is counted wrongly, whatever is killed, stopped or flooded."""

import json
import os
import signal
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from tests.serving.running import LENET, Running, crowd, eventually, serving

TIGHT = """\
gpuyard: services/1
services:
  - {model: vgg16, rate_per_s: 20, slo_ms: 100}
"""
VGG = {
    "inputs": [
        {"name": "input", "datatype": "FP32", "shape": [1, 3, 224, 224], "parameters": {"binary_data_size": 602112}}
    ]
}


def check_counts(server: Running, statuses: Counter[int], name: str) -> None:
    """What clients counted is what the server counted, in every place where it says so."""
    outcomes = server.outcomes(name)
    assert outcomes["answered"] == statuses[200]
    assert outcomes["refused"] + outcomes["late"] == statuses[503]
    assert outcomes["failed"] == statuses[500] == 0
    told = server.statistics(name)["inference_stats"]
    assert (told["success"]["count"], told["fail"]["count"]) == (statuses[200], statuses[503])
    assert server.metric('gpuyard_http_responses_total{code="503"}') == statuses[503]
    assert server.metric("nv_inference_pending_request_count") == 0


def is_gone(server: Running, gpu: int) -> bool:
    return gpu not in server.gpu_processes()


def test_a_killed_gpu_process_is_replaced_and_nobody_waits_forever(services: Path) -> None:
    with serving(services, "--no-replan") as server, ThreadPoolExecutor(1) as pool:
        [gpu] = server.gpu_processes()
        statuses: Counter[int] = Counter()
        for _ in range(3):
            sent = pool.submit(crowd, server.http, 480)
            eventually(lambda: server.metric("nv_inference_pending_request_count") > 0, "requests are on their way")
            os.kill(gpu, signal.SIGKILL)
            eventually(partial(is_gone, server, gpu), "the process is gone")
            statuses.update(sent.result().statuses)
            eventually(lambda: server.get("/v2/health/ready")[0] == 200, "it is replaced")
            [gpu] = server.gpu_processes()
        assert set(statuses) <= {200, 503}
        assert sum(statuses.values()) == 1440
        check_counts(server, statuses, "lenet1")
        assert server.metric("gpuyard_gpu_processes_replaced_total") == 3
        assert server.infer() == 200


def test_a_gpu_process_that_is_stuck_is_replaced(services: Path) -> None:
    with serving(services, "--no-replan") as server:
        [gpu] = server.gpu_processes()
        os.kill(gpu, signal.SIGSTOP)
        assert server.infer() in (200, 503)
        assert gpu not in server.gpu_processes()


def test_sigterm_lets_everybody_have_an_answer(services: Path) -> None:
    body = json.dumps(LENET).encode()
    request = b"POST /v2/models/lenet1/infer HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    with serving(services, "--no-replan") as server:
        clients = [server.connect() for _ in range(64)]
        for client in clients:
            client.sendall(request)
        server.process.send_signal(signal.SIGTERM)
        statuses = Counter(read_status(client) for client in clients)
        assert set(statuses) <= {200, 503}
        assert server.process.wait(timeout=60) == 0
        with pytest.raises(ConnectionRefusedError):
            server.connect()


def test_a_second_signal_waits_for_nobody(services: Path) -> None:
    """A client that sends half a request holds an end in good order up for half a minute."""
    with serving(services, "--no-replan") as server, server.connect() as client:
        client.sendall(b"POST /v2/models/lenet1/infer HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n")
        server.process.send_signal(signal.SIGINT)
        eventually(lambda: refuses_connections(server), "the server is about to end")
        assert server.process.poll() is None
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(timeout=15) == 0


def refuses_connections(server: Running) -> bool:
    try:
        server.connect().close()
    except ConnectionRefusedError:
        return True
    return False


def read_status(client: socket.socket) -> int:
    with client:
        return int(client.recv(65536).split(b" ", 2)[1])


def test_a_flood_is_refused_early_and_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "services.yaml"
    path.write_text(TIGHT)
    head = json.dumps(VGG).encode()
    data = head + bytes(602112)

    def flood() -> Counter[int]:
        found: Counter[int] = Counter()
        for _ in range(8):
            headers = {"Inference-Header-Content-Length": str(len(head))}
            found[server.post("/v2/models/vgg16/infer", data, headers)[0]] += 1
        return found

    with serving(path, "--no-replan") as server, ThreadPoolExecutor(48) as pool:
        before = memory_mb(server)
        statuses: Counter[int] = Counter()
        for each in pool.map(lambda _: flood(), range(48)):
            statuses.update(each)
        assert set(statuses) == {200, 503}
        assert sum(statuses.values()) == 384
        check_counts(server, statuses, "vgg16")
        assert memory_mb(server) - before < 48 * 2 + 100


def memory_mb(server: Running) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) // 1024


def test_a_refusal_says_when_to_come_again(tmp_path: Path) -> None:
    path = tmp_path / "services.yaml"
    path.write_text(TIGHT.replace("vgg16", "lenet1").replace("100}", "8}"))
    with serving(path, "--no-replan") as server:
        found = crowd(server.http, 960, clients=48)
        statuses = Counter(found.statuses)
        assert set(statuses) <= {200, 503}
        check_counts(server, statuses, "lenet1")
        assert not statuses[503] or found.refusal["retry-after"] == "1"
