"""Whatever callers send, scheduler and agent answer in a line, go on, and print no traceback."""

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.runtime.virtual_yard import VirtualAgents, VirtualClock

from gpuyard.client.control import ATTACH, NODE, NODE_CALLS, SCHEDULER, SCHEDULER_CALLS, messages
from gpuyard.core.cluster import Cluster
from gpuyard.profiles import load_zoo
from gpuyard.runtime.addresses import AgentSettings, open_channel
from gpuyard.runtime.agent import NodeAgent
from gpuyard.runtime.launching import JobStarts
from gpuyard.runtime.node_service import serve_node
from gpuyard.runtime.real_cluster import RealCluster, RunRules
from gpuyard.runtime.service import AttachedAgents, SchedulerService, serve
from gpuyard.runtime.settling import Patience
from gpuyard.runtime.store import RunStore

GUARD_S = 60.0
CALLS = [*(f"/{SCHEDULER}/{call}" for call in (*SCHEDULER_CALLS, ATTACH)), f"/{SCHEDULER}/Other", "/other.Service/Call"]
ODD = [b"", b"\xff" * 40, b"\x0a\xff\xff\xff\xff\x0f", b"\x08\x01", bytes(range(256)), b"\x00" * 5_000_000]


class Answering(RealCluster):
    """A world that answers at once, as nobody drives it."""

    def ask(self, question: Any) -> Any:
        answer = super().ask(question)
        self.hear()
        return answer


@pytest.fixture(params=["unix", "tls"])
def scheduler(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Answering, Any, Any]]:
    if request.param == "tls":
        pytest.importorskip("cryptography", reason="certificates need the extra 'run'")
    clock = VirtualClock()
    world = Answering(
        Cluster.parse("1x1"), RunStore(tmp_path / "run.db"), load_zoo(), clock, VirtualAgents(clock),
        JobStarts(tmp_path, 1.0, 1800.0), RunRules(serves=True), Patience(),
    )  # fmt: skip
    listen = f"unix:{tmp_path / 's'}" if request.param == "unix" else "127.0.0.1:0"
    server, address = serve(SchedulerService(world, AttachedAgents(), {}), listen, 1, tmp_path)
    with open_channel(address) as channel:
        yield world, channel, address.metadata()
    server.stop(0).wait()


def answer(channel: Any, call: str, content: bytes, metadata: Any = ()) -> grpc.StatusCode:
    """What becomes of a call with this content, whatever it is."""
    asked = channel.stream_stream(call)(iter([content]), timeout=GUARD_S, metadata=metadata)
    with suppress(grpc.RpcError):
        for _ in asked:
            pass
    assert "\n" not in str(asked.details())
    return asked.code()


def test_what_is_no_message_is_refused_and_the_scheduler_goes_on(
    scheduler: tuple[Answering, Any, Any], caplog: pytest.LogCaptureFixture
) -> None:
    _, channel, metadata = scheduler
    seeded = random.Random(1)
    for call in CALLS:
        for content in [*ODD, *(seeded.randbytes(seeded.randrange(1, 60)) for _ in range(20))]:
            assert answer(channel, call, content, metadata) not in (
                grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNAVAILABLE,
            )  # fmt: skip
            if metadata:
                assert answer(channel, call, content) is grpc.StatusCode.UNAUTHENTICATED
    assert (
        answer(channel, f"/{SCHEDULER}/Queue".replace("v1", "v9"), b"", metadata) is grpc.StatusCode.FAILED_PRECONDITION
    )
    assert answer(channel, f"/{SCHEDULER}/Queue", b"", metadata) is grpc.StatusCode.OK
    assert not caplog.records


ENTRY = {"job_id": "a", "model": "resnet50", "iterations": 5}
VALUES: list[Any] = [[], {}, "\x00'", float("nan"), -1, 1e300]
REQUESTS: list[Any] = [
    *(7, [], {}, {"jobs": 7, "directory": ""}, {"jobs": [7], "directory": ""}, {"jobs": [{}], "directory": ""}),
    "[" * 9999,
    *(
        {"jobs": [ENTRY | {name: value}], "directory": ""}
        for name in ("arrival_s", "gpus", "job_id")
        for value in VALUES
    ),
    *(
        {"jobs": [ENTRY | {name: value}], "directory": ""}
        for name in ("cpus", "model", "priority")
        for value in VALUES[:3]
    ),
]


def test_jobs_that_are_none_are_refused_in_a_line(scheduler: tuple[Answering, Any, Any]) -> None:
    world, channel, metadata = scheduler
    for asked in REQUESTS:
        text = asked if isinstance(asked, str) else json.dumps(asked)
        content = messages()["SubmitRequest"](jobs=text).SerializeToString()
        assert answer(channel, f"/{SCHEDULER}/Submit", content, metadata) is grpc.StatusCode.INVALID_ARGUMENT, asked
    assert not world.records
    number = json.dumps({"jobs": [ENTRY | {"gpus": "1"}], "directory": ""})
    content = messages()["SubmitRequest"](jobs=number).SerializeToString()
    assert answer(channel, f"/{SCHEDULER}/Submit", content, metadata) is grpc.StatusCode.OK
    assert world.records["a"].job.gpus == 1.0


def test_an_agent_refuses_what_is_no_message_of_its_jobs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    agent = NodeAgent(AgentSettings("here", 1, str(tmp_path), 0.1, 60.0))
    server = serve_node(agent.settings.socket, lambda call, request, _: agent.answer(call, request))
    seeded = random.Random(2)
    with grpc.insecure_channel(f"unix:{agent.settings.socket}") as channel:
        for call in [*(f"/{NODE}/{call}" for call in NODE_CALLS), f"/{NODE}/Other"]:
            for content in [*ODD, *(seeded.randbytes(seeded.randrange(1, 60)) for _ in range(20))]:
                assert answer(channel, call, content) in (
                    grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNIMPLEMENTED,
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                ), (call, content[:40])  # fmt: skip
    server.stop(0).wait()
    agent._machine.close()
    assert not caplog.records
    assert not agent.ranks
