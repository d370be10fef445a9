"""The one definition of what scheduler, agents, jobs and users say to each other, over gRPC. Version 1.

A process of a job talks to the agent of its node only (`Node`), over a unix socket; agents and users talk to the
scheduler (`Scheduler`). The version is part of the services' names: who speaks another one is refused before anything
is read. Nothing is ever unpickled. Times are seconds; `_s` of a run's own clock unless a field says
otherwise.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from gpuyard.core.message_tables import build_messages

VERSION = 1
PACKAGE = f"gpuyard.runtime.v{VERSION}"
NODE = f"{PACKAGE}.Node"
SCHEDULER = f"{PACKAGE}.Scheduler"

NO_LIMIT = -1
UNKNOWN = -1
"""Steps of a job whose length nobody stated."""

_TABLE = """
Rank: job=1 string, attempt=2 int32, rank=3 int32
Lease: stop=1 bool, limit=2 int64, cpus=3 double, memory_gb=4 double, step_s=5 double, save_at=6 int64, \
terms=7 int64, wish=8 Wish
Wish: round=1 string, generation=2 int64, batch=3 int64, learning_rate_factor=4 double
JoinRequest: rank=1 Rank, pid=3 int64
JoinResponse: total_steps=1 int64, beat_s=2 double, lease=3 Lease
Progress: rank=1 Rank, step=2 int64, saved_step=3 int64, loaded_step=4 int64, load_s=5 double, save_s=6 double, \
saves=7 int32, error=8 string, joined=9 bool, working=10 bool, \
terms=11 int64, measured_steps=12 int64, measured_s=13 double, said=14 string
ReportResponse: lease=1 Lease
LeaveRequest: progress=1 Progress, finished=2 bool
LeaveResponse:
Hello: node=1 string, number=2 int32, ranks=3 *Progress, exits=4 *Exited, host=5 string
Exited: rank=1 Rank, number=2 int64, code=3 int32, left=4 bool, finished=5 bool, last=6 Progress, tail=7 string, \
leave_s=8 double
FromAgent: hello=1 |Hello, progress=2 |ProgressList, exited=3 |Exited
ProgressList: all=1 *Progress
Start: job=1 string, attempt=2 int32, ranks=3 *int32, gpus=4 *int32, command=5 *string, environment=6 string{}, \
directory=7 string, log=8 string, total_steps=9 int64, lease=10 Lease
Change: job=1 string, attempt=2 int32, lease=3 Lease
Kill: job=1 string, attempt=2 int32
Acknowledge: number=1 int64
Shutdown:
ToAgent: start=1 |Start, change=2 |Change, kill=3 |Kill, acknowledge=4 |Acknowledge, shutdown=5 |Shutdown
SubmitRequest: jobs=1 string
SubmitResponse: ids=1 *string
CancelRequest: job=1 string
CancelResponse: state=1 string
QueueRequest:
QueueResponse: now_s=1 double, policy=2 string, world=3 string, jobs=4 *QueuedJob
QueuedJob: job=1 string, state=2 string, model=3 string, gpus=4 double, arrival_s=5 double, done_steps=6 int64, \
total_steps=7 int64, places=8 string, reason=9 string, attempt=10 int32, log=11 string, ended_s=12 double
EndRequest:
EndResponse:
"""

NODE_CALLS = {"Join": "JoinResponse", "Report": "ReportResponse", "Leave": "LeaveResponse"}
NODE_TAKES = {"Join": "JoinRequest", "Report": "Progress", "Leave": "LeaveRequest"}
SCHEDULER_CALLS = ("Submit", "Cancel", "Queue", "End")
"""Each takes a message with `Request` behind its name and answers with one with `Response`."""
ATTACH = "Attach"
"""An agent says what happens on its node and is told what to do, one message after another either way."""


@lru_cache(maxsize=1)
def messages() -> dict[str, Any]:
    """The classes of all messages by name."""
    return build_messages(PACKAGE, _TABLE)
