"""What Prometheus reads, of requests whose fates are known: all by hand."""

from __future__ import annotations

from tests.serving.test_dispatcher import SERVICE

from gpuyard.serving.fleet import Workers
from gpuyard.serving.front import Front
from gpuyard.serving.metrics import Metrics
from gpuyard.serving.protocol.contract import Contract
from gpuyard.serving.statistics import Refusal


def test_each_counter_has_what_its_name_says() -> None:
    front = Front([SERVICE], {"x": Contract("x", "test", (), (), 32, {})}, Workers())
    found = front.statistics["x"]
    for rows in (3, 4, 5, 6):
        found.arrive(rows)
    found.answer(3, queue_s=0.5, compute_s=0.25, total_s=1.0, wall_ms=7)
    found.answer(4, queue_s=1.0, compute_s=0.25, total_s=2.0, wall_ms=8)
    found.refuse(Refusal.LATE, 16.0)  # the request of five rows; that of six still waits
    found.batches[3].add(0.25)
    found.batches[2].add(0.25, count=2)
    lines = (line.partition("{") for line in Metrics(front).text().decode().splitlines())
    told = {name: float(rest.split()[-1]) for name, mark, rest in lines if mark and name.startswith("nv_")}
    assert told == {
        "nv_inference_request_success": 2,
        "nv_inference_request_failure": 1,
        "nv_inference_count": 7,
        "nv_inference_exec_count": 3,
        "nv_inference_request_duration_us": 3e6,
        "nv_inference_queue_duration_us": 1.5e6,
        "nv_inference_compute_infer_duration_us": 0.5e6,
        "nv_inference_pending_request_count": 1,
    }
