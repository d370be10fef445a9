"""One process of a job, as the agent of its node knows it: what it may do, and how far it is.

A thread of its own tells the agent every beat; the training thread only looks at a number.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gpuyard.client.control import NO_LIMIT, NODE, NODE_CALLS, messages
from gpuyard.client.shared_batch import TASK

SOCKET, JOB, ATTEMPT, RANK = "GPUYARD_AGENT", "GPUYARD_JOB", "GPUYARD_ATTEMPT", "GPUYARD_RANK"
CHECKPOINTS, SAVE_EVERY = "GPUYARD_CHECKPOINTS", "GPUYARD_SAVE_EVERY_S"
SPEED = "GPUYARD_RUN_SPEED"
SYNTHETIC = "GPUYARD_SYNTHETIC"
SHOWN = "gpuyard-task"
"""Metadata of calls: the secret that the container of this process was given, on Kubernetes."""
ANSWER_S = 120.0
"""How long an answer of the agent may take: longer than a scheduler bears with one, and with it this process ends."""
ASK_AGAIN_S = 0.05
LAST_WORD_S = 2.0
OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)
"""A session does not take over what another one of this process had with an agent there, which may be gone."""


@dataclass(frozen=True)
class RankName:
    """Which process of which job this is, and in which of its attempts."""

    job: str
    attempt: int
    rank: int

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> RankName:
        """As the agent that started it says."""
        return cls(environment[JOB], int(environment[ATTEMPT]), int(environment[RANK]))


class AgentSilentError(SystemExit):
    """The agent does not answer any more: this process ends, and the job goes on elsewhere."""


class AgentSession:
    """Joined to an agent: the lease, and what the agent is told."""

    def __init__(self, socket: str, name: RankName, secret: str = "") -> None:
        import grpc

        self._messages = messages()
        self._metadata = ((SHOWN, secret),) if secret else ()
        self._channel = grpc.insecure_channel(f"unix:{socket}", options=OWN_CONNECTION)
        self._calls = {
            call: self._channel.unary_unary(
                f"/{NODE}/{call}",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=self._messages[answer].FromString,
            )
            for call, answer in NODE_CALLS.items()
        }
        self.name = name
        self.progress = self._messages["Progress"](
            rank=self._messages["Rank"](job=name.job, attempt=name.attempt, rank=name.rank)
        )
        self.step = 0
        self.measured = 0, 0, 0.0
        """Terms of a lease, steps that were done under them, and the seconds of this machine that these took."""
        self.changed = threading.Condition()
        self._over = threading.Event()
        request = self._messages["JoinRequest"](rank=self.progress.rank, pid=os.getpid())
        joined = self._ask("Join", request)
        self.progress.joined = True
        self.total_steps, self._beat_s = int(joined.total_steps), float(joined.beat_s)
        self.lease = joined.lease
        self._thread = threading.Thread(target=self._beat, name="gpuyard", daemon=True)

    def begin(self, step: int) -> None:
        """Say that the first step is about to begin, and go on telling."""
        self.step = self.progress.loaded_step = self.progress.saved_step = step
        self.progress.working = True
        self.report()
        self._thread.start()
        atexit.register(self._last_word, os.getpid())

    def report(self) -> None:
        """Tell how far it is, and hear what holds now."""
        self.progress.step = self.step
        self.progress.terms, self.progress.measured_steps, self.progress.measured_s = self.measured
        answer = self._ask("Report", self.progress)
        with self.changed:
            self.lease = answer.lease
            self.changed.notify_all()

    def go_until(self) -> int:
        """The number of steps up to which nothing has to be asked."""
        lease = self.lease
        most = self.total_steps if self.total_steps >= 0 else 1 << 62
        if lease.limit != NO_LIMIT:
            return min(int(lease.limit), most)
        return self.step if lease.stop else most

    @property
    def finished(self) -> bool:
        """Whether all steps of the job are done."""
        return 0 <= self.total_steps <= self.step

    def must_leave(self) -> bool:
        """Whether the lease ends at this very step."""
        lease = self.lease
        return bool(lease.stop) and (lease.limit == NO_LIMIT or self.step >= lease.limit)

    def wait_for_more(self) -> None:
        """Wait until the lease reaches further, or ends here."""
        self.report()
        with self.changed:
            while self.step >= self.go_until() and not self.must_leave():
                self.changed.wait(self._beat_s)

    def note_save(self, seconds: float, *, kept: bool, error: str = "") -> None:
        """A checkpoint has been written, or could not be; the job can go on from it once it is kept everywhere."""
        self.progress.saves += 1
        self.progress.save_s += seconds
        self.progress.error = error
        if kept:
            self.progress.saved_step = self.step

    def leave(self) -> None:
        """Say that this process is about to end: all steps are done, or the lease is over."""
        self._over.set()
        self.progress.step = self.step
        try:
            self._ask("Leave", self._messages["LeaveRequest"](progress=self.progress, finished=self.finished))
        except AgentSilentError:
            if not self.finished:  # or it would look as if it was
                raise

    def _beat(self) -> None:
        while not self._over.wait(self._beat_s):
            try:
                self.report()
            except AgentSilentError:
                time.sleep(self._beat_s)  # without an agent this process is about to be ended

    def _last_word(self, process: int) -> None:
        """A script that ends before its steps are done tells how far it came."""
        import grpc

        if not self._over.is_set() and process == os.getpid():
            self._over.set()
            self.progress.step = self.step
            with suppress(grpc.RpcError):
                self._calls["Report"](self.progress, timeout=LAST_WORD_S, metadata=self._metadata)

    def _ask(self, call: str, request: Any) -> Any:
        """Ask the agent, and ask again if the connection breaks: no call does more when it is made twice."""
        import grpc

        end = time.monotonic() + ANSWER_S
        while True:
            try:
                left_s = max(end - time.monotonic(), 0.0)
                return self._calls[call](request, timeout=left_s, wait_for_ready=True, metadata=self._metadata)
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    told = f"{error.code().name}, {error.details()}"
                    raise AgentSilentError(f"gpuyard: the agent of this node does not answer: {told}") from None
                time.sleep(ASK_AGAIN_S)


def has_agent(environment: Mapping[str, str]) -> bool:
    """Whether this process is one of a job; a container that is none has an agent on its node, too."""
    return bool(environment.get(SOCKET) and environment.get(JOB))


def join_agent(environment: Mapping[str, str] = os.environ) -> AgentSession | None:
    """Join the agent of this process; None where it is none of a job."""
    if not has_agent(environment):
        return None
    return AgentSession(environment[SOCKET], RankName.of(environment), environment.get(TASK, ""))
