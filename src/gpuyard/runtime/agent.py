"""The agent of one node: starts the processes of jobs, tells them their leases, and tells the scheduler of them.

It knows nothing of policies and keeps nothing on disk. If it dies, its processes die with it; if the scheduler dies, it
goes on until one is back, or until its leases are over.
"""

from __future__ import annotations

import itertools
import os
import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from gpuyard.client.control import ATTACH, SCHEDULER, messages
from gpuyard.client.session import ATTEMPT, JOB, RANK, SOCKET, RankName
from gpuyard.client.shared_batch import BatchWish
from gpuyard.core.errors import GpuyardError, InputError
from gpuyard.runtime.addresses import AgentSettings, SchedulerAddress, open_channel
from gpuyard.runtime.admission import why_not
from gpuyard.runtime.control_groups import ControlGroups
from gpuyard.runtime.cpu_sets import CpuSets, move_session, starting_on, usable_cpus
from gpuyard.runtime.emulated_gpus import EmulatedMachine
from gpuyard.runtime.node_service import CallRefusedError, is_behind, serve_node
from gpuyard.runtime.process_ids import end_all_with
from gpuyard.runtime.rank_process import RankProcess
from gpuyard.runtime.task_relay import TaskRelay
from gpuyard.runtime.wire import rank_name, wish_of

RECONNECT_S = 0.2
SIGN_OF_LIFE_S = 1.0


@dataclass
class RunningRank:
    """One process, and what was last said about it, either way."""

    process: RankProcess
    lease: Any
    total_steps: int
    progress: Any
    left: bool = False
    finished: bool = False
    left_at: float = 0.0
    """When it said so, by the monotonic clock."""
    asked_to_end: bool = False
    said: str = ""
    """What its program last said of its batch size."""

    def is_behind(self, told: Any) -> bool:
        """Whether this is an older word than the last one: threads of the agent may hear them in another order."""
        return self.left or is_behind(told, self.progress)


@dataclass
class NodeAgent:
    """What runs on this node."""

    settings: AgentSettings
    ranks: dict[RankName, RunningRank] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._messages = messages()
        self._lock = threading.RLock()
        self._spawn: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._up: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._exits: dict[int, Any] = {}
        """That the scheduler has not acknowledged."""
        self._numbers = itertools.count(1)
        self._machine = EmulatedMachine()
        self._cpus = CpuSets(self.settings.cpus)
        self._groups = ControlGroups(self.settings.control_groups)
        self._told: set[RankName] = set()
        self._over = threading.Event()
        self._heard = time.monotonic()
        self._complaint = ""
        self._relay = (
            TaskRelay(f"{self.settings.socket}-batch", self._said, self._wish) if self.settings.tunes else None
        )

    # What processes of jobs ask

    def answer(self, call: str, request: Any) -> Any:
        """Answer a process of a job."""
        rank = request.rank if call != "Leave" else request.progress.rank
        with self._lock:
            running = self.ranks.get(rank_name(rank))
            if running is None:
                rule = f"{rank.job}, attempt {rank.attempt}, rank {rank.rank} is none of this node's"
                raise CallRefusedError(grpc.StatusCode.NOT_FOUND, rule)
            if call == "Join":
                running.progress.joined = True
                return self._messages["JoinResponse"](
                    total_steps=running.total_steps, beat_s=self.settings.beat_s, lease=running.lease
                )
            first = not running.progress.working
            told = request if call == "Report" else request.progress
            if call == "Leave" or not running.is_behind(told):
                running.progress = told
            self._told.add(rank_name(rank))
            if call == "Report":
                if first or running.lease.limit == request.step:
                    self._tell_progress()
                return self._messages["ReportResponse"](lease=running.lease)
            running.left, running.finished, running.left_at = True, request.finished, time.monotonic()
            return self._messages["LeaveResponse"]()

    def _said(self, name: RankName, told: str) -> None:
        """A program tells of its batch size."""
        with self._lock:
            if name in self.ranks:
                self.ranks[name].said = told
                self._told.add(name)

    def _wish(self, name: RankName) -> BatchWish | None:
        with self._lock:
            return wish_of(self.ranks[name].lease) if name in self.ranks else None

    # What the scheduler says

    def run(self) -> None:
        """Serve until the scheduler says that it is over, or nothing was heard of it for longer than a lease."""
        server = serve_node(self.settings.socket, lambda call, request, _: self.answer(call, request))
        listener = threading.Thread(target=self._listen, name="scheduler", daemon=True)
        listener.start()
        try:
            while not self._over.is_set():
                try:
                    self._carry_out(self._spawn.get(timeout=self.settings.beat_s))
                except queue.Empty:
                    with self._lock:
                        self._tell_progress()
                    self._end_leases_if_alone()
        finally:
            for running in list(self.ranks.values()):
                running.process.kill()
            end_all_with({SOCKET: self.settings.socket})
            server.stop(0)
            self._groups.close()
            self._machine.close()
            if self._relay is not None:
                self._relay.close()

    def _listen(self) -> None:
        while not self._over.is_set():
            try:
                address = SchedulerAddress.read(Path(self.settings.state))
                with open_channel(address) as channel:
                    self._attend(channel, address)
            except grpc.RpcError as error:
                self._complain(why_not(error, address))
            except InputError as error:
                self._complain(str(error))
            time.sleep(RECONNECT_S)

    def _complain(self, rule: str) -> None:
        """Say once why the scheduler cannot be reached; it may be back, with other words."""
        if rule != self._complaint and not self._over.is_set():
            print(f"gpuyard: the agent of {self.settings.node} is without a scheduler: {rule}", flush=True)
        self._complaint = rule

    def _attend(self, channel: grpc.Channel, address: SchedulerAddress) -> None:
        attach = channel.stream_stream(
            f"/{SCHEDULER}/{ATTACH}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=self._messages["ToAgent"].FromString,
        )
        with self._lock:
            self._up = queue.SimpleQueue()
            self._up.put(self._messages["FromAgent"](hello=self._hello()))
        mine = self._up
        try:
            for told in attach(self._all_of(mine), metadata=address.metadata()):
                self._obey(told)
        finally:
            mine.put(None)

    def _all_of(self, waiting: queue.SimpleQueue[Any]) -> Iterator[Any]:
        """Messages as they come, until None does; an empty one now and then, as a sign of life."""
        while True:
            try:
                message = waiting.get(timeout=SIGN_OF_LIFE_S)
            except queue.Empty:
                message = self._messages["FromAgent"]()
            if message is None:
                return
            yield message

    def _hello(self) -> Any:
        return self._messages["Hello"](
            node=self.settings.node, number=self.settings.number, host=self.settings.host,
            ranks=[running.progress for running in self.ranks.values()], exits=list(self._exits.values()),
        )  # fmt: skip

    def _obey(self, told: Any) -> None:
        self._heard, self._complaint = time.monotonic(), ""
        what = told.WhichOneof("parameter_choice")
        if what in ("start", "change", "kill"):
            if what == "start" or not self._has(getattr(told, what)):
                self._spawn.put(told)  # it may be about a process that is about to start
            else:
                self._carry_out(told)
        elif what == "acknowledge":
            with self._lock:
                self._exits.pop(told.acknowledge.number, None)
        elif what == "shutdown":
            self._over.set()

    def _has(self, told: Any) -> bool:
        with self._lock:
            return any((each.job, each.attempt) == (told.job, told.attempt) for each in self.ranks)

    def _carry_out(self, told: Any) -> None:
        """Start processes, which only the thread may do that does not end before them; change or end them."""
        what = told.WhichOneof("parameter_choice")
        {"start": self._start, "change": self._change, "kill": self._kill}[what](getattr(told, what))

    def _start(self, start: Any) -> None:
        with self._lock:
            cpus = self._cpus.give((start.job, start.attempt), start.lease.cpus)
        for rank, gpu in zip(start.ranks, start.gpus, strict=True):
            name = RankName(start.job, start.attempt, rank)
            with self._lock:
                if name in self.ranks:
                    continue
                progress = self._messages["Progress"](
                    rank=self._messages["Rank"](job=name.job, attempt=name.attempt, rank=rank)
                )
                try:
                    with starting_on(cpus):
                        process = self._launch(start, name, gpu)
                except (OSError, ValueError, GpuyardError) as error:  # such as a word with a zero byte
                    self._note_exit(progress, code=127, tail=f"cannot be started: {error}")
                    continue
                self.ranks[name] = RunningRank(process, start.lease, start.total_steps, progress)
                self._hold(start, process.pid)
                process.watch()
        with self._lock:
            self._free_cpus(start.job, start.attempt)  # of one whose program is not there

    def _free_cpus(self, job: str, attempt: int) -> None:
        """Once no process of an attempt is there, others may have its CPUs."""
        if not any((each.job, each.attempt) == (job, attempt) for each in self.ranks):
            self._cpus.take_back((job, attempt))
            self._groups.drop((job, attempt))

    def _hold(self, terms: Any, *fresh: int) -> None:
        """Hold the processes of an attempt, these too, to the memory and the parts of CPUs of its lease."""
        attempt = (terms.job, terms.attempt)
        try:
            self._groups.hold(attempt, terms.lease.cpus, terms.lease.memory_gb)
            for pid in fresh:
                self._groups.add(attempt, pid)
        except OSError as error:
            print(f"gpuyard: {terms.job} is not held to its new limits: {error}", flush=True)  # to the agent's log

    def _launch(self, start: Any, name: RankName, gpu: int) -> RankProcess:
        own = {
            "SYNERGY_CPUS_ALLOCATED": ",".join(map(str, usable_cpus())),  # of this thread, as of what it starts
            SOCKET: self.settings.socket, JOB: name.job, ATTEMPT: str(name.attempt), RANK: str(name.rank),
            "LOCAL_RANK": str(list(start.gpus).index(gpu)),
        }  # fmt: skip
        if self._relay is not None:
            own |= self._relay.environment(name)
        log = Path(start.log if name.rank == 0 else f"{start.log}.{name.rank}")
        given = dict(start.environment)
        environment = os.environ | given | self._machine.environment(given) | own | {"RANK": str(name.rank)}
        return RankProcess(start.command, environment, start.directory, log, lambda code: self._ended(name, code))

    def _change(self, change: Any) -> None:
        with self._lock:
            if any((each.job, each.attempt) == (change.job, change.attempt) for each in self.ranks):
                self._hold(change)
            for name, running in self.ranks.items():
                if (name.job, name.attempt) == (change.job, change.attempt):
                    if running.lease.cpus != change.lease.cpus:
                        self._move(name, running.process, change.lease.cpus)
                    running.lease = change.lease
                    if change.lease.stop and not running.progress.joined:
                        running.asked_to_end = True
                        running.process.end()  # it has nothing to save, or does not ask for its lease

    def _move(self, name: RankName, process: RankProcess, cpus: float) -> None:
        """Let a process go on on as many CPUs as its job has now."""
        given = self._cpus.give((name.job, name.attempt), cpus)
        if given:
            move_session(process.pid, given)

    def _kill(self, kill: Any) -> None:
        with self._lock:
            for name, running in self.ranks.items():
                if (name.job, name.attempt) == (kill.job, kill.attempt):
                    running.process.kill()

    def _ended(self, name: RankName, code: int) -> None:
        with self._lock:
            running = self.ranks.pop(name)
            self._told.discard(name)
            if self._relay is not None:
                self._relay.forget(name)
            tail = "" if running.left or not code else self._last_words(name, running)
            by_itself = not code and not running.left and not running.asked_to_end
            finished = running.finished or by_itself  # whatever the scheduler may want by now
            self._free_cpus(name.job, name.attempt)
            took = time.monotonic() - running.left_at if running.left else 0.0
            self._note_exit(running.progress, code=code, left=running.left, finished=finished, tail=tail, leave_s=took)

    def _last_words(self, name: RankName, running: RunningRank) -> str:
        """Why a process ended before its time, as far as can be told."""
        tail = running.process.tail()
        if not self._groups.lacked_memory((name.job, name.attempt)):
            return tail
        return f"the kernel ended it: it needed more than its {running.lease.memory_gb:g} GB of memory\n{tail}".strip()

    def _note_exit(self, progress: Any, **how: Any) -> None:
        gone = self._messages["Exited"](rank=progress.rank, number=next(self._numbers), last=progress, **how)
        self._exits[gone.number] = gone
        self._up.put(self._messages["FromAgent"](exited=gone))

    def _tell_progress(self) -> None:
        """Tell of all processes that have said anything since the last time."""
        if self._told:
            every = [self._progress_of(self.ranks[name]) for name in self._told if name in self.ranks]
            self._told.clear()
            self._up.put(self._messages["FromAgent"](progress=self._messages["ProgressList"](all=every)))

    def _progress_of(self, running: RunningRank) -> Any:
        """All that a process has told, with the last word of its program on batch sizes."""
        progress = running.progress
        progress.said, running.said = running.said, ""
        return progress

    def _end_leases_if_alone(self) -> None:
        """Let processes save and leave when nobody may count on them any more."""
        if time.monotonic() - self._heard < self.settings.lease_s:
            return
        with self._lock:
            for running in self.ranks.values():
                running.lease.stop = True
            if not self.ranks:
                self._over.set()


def main(path: str) -> None:
    """Be the agent that a file of settings describes."""
    NodeAgent(AgentSettings.read(Path(path))).run()


if __name__ == "__main__":
    import sys

    main(sys.argv[1])
