"""Answers processes that train in the containers of a node, as an agent does: for `gpuyard.client.steps`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import grpc

from gpuyard.client.control import NO_LIMIT, UNKNOWN, messages
from gpuyard.client.session import SHOWN
from gpuyard.kube.node.node_tasks import NodeTask, NodeTasks
from gpuyard.kube.node.task_notes import LastWord
from gpuyard.kube.resources.training_task import TaskWanted
from gpuyard.runtime.commands import LeaseTerms
from gpuyard.runtime.node_service import CallRefusedError, serve_node
from gpuyard.runtime.wire import lease_message
from gpuyard.sharing.task_daemon import FOR_ALL

BEAT_S = 0.5


class StepsService:
    """What processes of jobs are told, and what they tell."""

    def __init__(self, tasks: NodeTasks, clock: Callable[[], float]) -> None:
        self._tasks, self._clock = tasks, clock
        self._messages = messages()

    def serve(self, path: Path) -> grpc.Server:
        """Answer at a socket that every container with GPUs has; who shows no secret of one is refused."""
        path.parent.mkdir(parents=True, exist_ok=True)
        server = serve_node(str(path), self.answer)
        path.chmod(FOR_ALL)
        return server

    def answer(self, call: str, request: Any, metadata: Mapping[str, str]) -> Any:
        """Answer one call."""
        secret, now = metadata.get(SHOWN, ""), self._clock()
        rank = request.progress.rank if call == "Leave" else request.rank
        with self._tasks.lock:
            task = self._tasks.find(secret)
            if task is None:
                rule = "this is no process of a container that was given GPUs on this node"
                raise CallRefusedError(grpc.StatusCode.PERMISSION_DENIED, rule)
            _check(task, rank)
            task.spoken = True
            if call == "Leave":
                said = request.progress
                task.progress.leave(said, now, finished=request.finished)
                last = LastWord(said.step, said.saved_step, said.loaded_step, request.finished)
                self._tasks.note_left(secret, last)
                return self._messages["LeaveResponse"]()
            wanted = _known(task)
            lease = lease_message(lease_of(wanted))
            if call == "Join":
                task.progress.join(now)
                self._tasks.note_left(secret, None)
                total = UNKNOWN if wanted.total_steps is None else wanted.total_steps
                return self._messages["JoinResponse"](total_steps=total, beat_s=BEAT_S, lease=lease)
            times = task.progress.tell(request, now)
            if times is not None:
                self._tasks.count(secret, times)
            return self._messages["ReportResponse"](lease=lease)


def lease_of(wanted: TaskWanted) -> LeaseTerms:
    """The lease of a task: without end, until it is to stop."""
    stop_at = wanted.stop_at
    if stop_at is None:
        return LeaseTerms(stop=wanted.stop, limit=NO_LIMIT)
    return LeaseTerms(stop=True, limit=stop_at, save_at=stop_at)


def _known(task: NodeTask) -> TaskWanted:
    """What a task is to do; who asks before that is known asks again, and goes on as it was told before."""
    if task.note.wanted is None:
        raise CallRefusedError(grpc.StatusCode.UNAVAILABLE, "the cluster has not said yet what this task is to do")
    return task.note.wanted


def _check(task: NodeTask, rank: Any) -> None:
    """A container of a job has that process of it which it is, and no other one."""
    wanted = task.note.wanted
    if wanted is not None and wanted.job is not None and (rank.job, rank.rank) != (wanted.job, wanted.rank):
        rule = f"this container is rank {wanted.rank} of {wanted.job}, not rank {rank.rank} of {rank.job}"
        raise CallRefusedError(grpc.StatusCode.PERMISSION_DENIED, rule)
