"""From values to messages of the control protocol and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from google.protobuf.message import DecodeError

from gpuyard.client.control import messages
from gpuyard.client.session import RankName
from gpuyard.client.shared_batch import BatchWish
from gpuyard.runtime.commands import AcknowledgeExit, AgentCommand, ChangeLease, KillRanks, LeaseTerms, StartRanks
from gpuyard.runtime.reports import RankExit, RankProgress


def reader_of(kind: Any) -> Callable[[bytes], Any]:
    """How a server reads messages of a kind: bytes that are none are refused by gRPC, without a traceback."""

    def read(raw: bytes) -> Any:
        try:
            return kind.FromString(raw)
        except DecodeError:
            return None

    return read


def command_message(command: AgentCommand) -> Any:
    """What an agent is sent."""
    kinds = messages()
    if isinstance(command, StartRanks):
        start = kinds["Start"](
            job=command.job, attempt=command.attempt, ranks=command.ranks, gpus=command.gpus, command=command.command,
            environment=command.environment, directory=command.directory, log=command.log,
            total_steps=command.total_steps, lease=lease_message(command.lease),
        )  # fmt: skip
        return kinds["ToAgent"](start=start)
    if isinstance(command, ChangeLease):
        lease = lease_message(command.lease)
        return kinds["ToAgent"](change=kinds["Change"](job=command.job, attempt=command.attempt, lease=lease))
    if isinstance(command, AcknowledgeExit):
        return kinds["ToAgent"](acknowledge=kinds["Acknowledge"](number=command.number))
    assert isinstance(command, KillRanks)
    return kinds["ToAgent"](kill=kinds["Kill"](job=command.job, attempt=command.attempt))


def lease_message(lease: LeaseTerms) -> Any:
    """The terms of a lease as a message."""
    kinds = messages()
    wish = None if lease.wish is None else kinds["Wish"](**asdict(lease.wish))
    return kinds["Lease"](
        stop=lease.stop, limit=lease.limit, cpus=lease.cpus, memory_gb=lease.memory_gb, step_s=lease.step_s,
        save_at=lease.save_at, terms=lease.terms, wish=wish,
    )  # fmt: skip


def wish_of(lease: Any) -> BatchWish | None:
    """What a lease wishes of a program's batch size."""
    wish = lease.wish
    if not lease.HasField("wish"):
        return None
    return BatchWish(wish.round, wish.generation, wish.batch, wish.learning_rate_factor)


def rank_name(rank: Any) -> RankName:
    """Which process a message speaks of."""
    return RankName(rank.job, rank.attempt, rank.rank)


def progress_of(message: Any) -> RankProgress:
    """How far a process is."""
    return RankProgress(
        rank_name(message.rank), message.step, message.saved_step, message.working, message.load_s, message.saves,
        message.save_s, message.error, message.loaded_step, message.terms, message.measured_steps, message.measured_s,
        message.said,
    )  # fmt: skip


def exit_of(message: Any) -> RankExit:
    """How a process ended."""
    return RankExit(
        progress_of(message.last), message.code, message.left, message.finished, message.tail, message.number,
        message.leave_s,
    )  # fmt: skip
