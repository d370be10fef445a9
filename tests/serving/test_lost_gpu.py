"""The front end when a GPU process is lost, with frames that go to nobody: who waits again, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import cast

import pytest
from tests.serving.test_dispatcher import SERVICE, deployment

from gpuyard.core.application import Application, Stage
from gpuyard.policies.dispatch.layout import layout_of
from gpuyard.policies.partition.interface import PartitionPlan, Turn
from gpuyard.serving import front as front_module
from gpuyard.serving.fleet import Workers
from gpuyard.serving.frames import Ended, FrameKind, Frames, StartBatch, ended_frame, number_frame, read_run
from gpuyard.serving.front import Front
from gpuyard.serving.protocol.contract import Contract
from gpuyard.serving.protocol.errors import ProtocolError
from gpuyard.serving.protocol.inference import InferAnswer, InferRequest

PATIENT = replace(SERVICE, slo_ms=3.6e6)
"""However slow this machine is."""


class NoProcesses:
    """A fleet whose processes say what the test lets them say."""

    def __init__(
        self, _workers: Workers, on_frame: Callable[[int, FrameKind, bytes], None], on_lost: Callable[[int], None]
    ) -> None:
        self.on_frame, self.on_lost = on_frame, on_lost
        self.started: list[StartBatch] = []
        self.killed: list[int] = []

    def send(self, _gpu: int, data: bytes) -> None:
        self.started += [read_run(body) for _, body in Frames().feed(data)]

    def kill(self, gpu: int) -> None:
        self.killed.append(gpu)

    def prepare(self, *_: object) -> None: ...

    def retire(self, *_: object) -> None: ...

    def end_unneeded(self, *_: object) -> None: ...

    def say(self, data: bytes) -> None:
        for kind, body in Frames().feed(data):
            self.on_frame(0, kind, body)


def test_a_process_is_stuck_only_when_its_batch_should_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a batch takes by the plan: one of 0.11 s, after which the process has 5 s more."""
    now = [100.0]
    monkeypatch.setattr(front_module, "Fleet", NoProcesses)
    monkeypatch.setattr(front_module, "monotonic", lambda: now[0])
    front = Front([PATIENT], {"x": Contract("x", "test", (), (), 32, {})}, Workers(stuck_s=5.0))
    fleet = front.fleet
    assert isinstance(fleet, NoProcesses)
    takes_s = 7.0
    slow = {"x": {percent: {1: takes_s * 1000, 32: takes_s * 1000} for percent in (20, 40, 50, 60, 80, 100)}}
    front.deploy(replace(deployment((0, 100, 1)), services=(PATIENT,), latencies=slow))
    fleet.say(number_frame(FrameKind.PREPARED, 0))
    front.infer(InferRequest("x", 1, ()), lambda _: None)
    planned_s = slow_turn_s(front)
    for after_s, killed in ((5.1, []), (planned_s + 4.9, []), (planned_s + 5.1, [0])):
        now[0] = 100.0 + after_s
        front.tick()
        assert fleet.killed == killed


def test_what_waiting_took_is_by_the_slice_s_own_timeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is due to this machine, as when news of a batch come late, is none of the plan's figures."""
    now = [100.0]
    monkeypatch.setattr(front_module, "Fleet", NoProcesses)
    monkeypatch.setattr(front_module, "monotonic", lambda: now[0])
    front = Front([PATIENT], {"x": Contract("x", "test", (), (), 32, {})}, Workers())
    fleet = front.fleet
    assert isinstance(fleet, NoProcesses)
    front.deploy(replace(deployment((0, 100, 1)), services=(PATIENT,)))
    fleet.say(number_frame(FrameKind.PREPARED, 0))
    answers: list[InferAnswer] = []
    for arrives_s in (100.0, 100.01):
        now[0] = arrives_s
        front.infer(InferRequest("x", 1, ()), lambda each: answers.append(cast("InferAnswer", each)))
    for number, begun_s, ended_s, heard_s in ((0, 100.0, 100.11, 100.2), (1, 100.11, 100.22, 100.3)):
        now[0] = heard_s
        fleet.say(ended_frame(Ended(fleet.started[number].number, begun_s, ended_s, [])))
    assert [each.timing.queue_s for each in answers] == pytest.approx([0.0, 0.1])
    assert [each.timing.compute_s for each in answers] == pytest.approx([0.11, 0.11])
    assert front.statistics["x"].queue.total_s == pytest.approx(0.1)
    assert front.statistics["x"].success.total_s == pytest.approx(0.2 + 0.29)


def test_no_further_row_runs_of_a_request_that_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_module, "Fleet", NoProcesses)
    front = Front([PATIENT], {"x": Contract("x", "test", (), (), 32, {})}, Workers())
    fleet = front.fleet
    assert isinstance(fleet, NoProcesses)
    front.deploy(replace(deployment((0, 100, 1)), services=(PATIENT,)))
    fleet.say(number_frame(FrameKind.PREPARED, 0))
    front.infer(InferRequest("x", 4, ()), lambda _: None)
    fleet.say(number_frame(FrameKind.FAILED, fleet.started[0].number, "why"))
    fleet.say(ended_frame(Ended(fleet.started[1].number, 0.0, 0.0, [])))  # which had begun by then
    assert len(fleet.started) == 2


def test_nothing_runs_of_an_application_s_request_when_one_of_its_stages_has_no_slice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(front_module, "Fleet", NoProcesses)
    application = Application("app", 1.0, 3.6e6, (Stage("here", "x"), Stage("nowhere", "x")))
    services = tuple(replace(PATIENT, service_id=application.service_id(name)) for name in ("here", "nowhere"))
    names = ("app", *(str(each.service_id) for each in services))
    contracts = {name: Contract(name, "test", (), (), 32, {}) for name in names}
    front = Front(services, contracts, Workers(), applications=[application])
    fleet, plain = front.fleet, deployment((0, 100, 1))
    assert isinstance(fleet, NoProcesses)
    parts = tuple(replace(part, turns=(Turn("app/here", 1, 0.11),)) for part in plain.plan.slices)
    front.deploy(replace(plain, services=services, applications=(application,), plan=PartitionPlan(parts)))
    fleet.say(number_frame(FrameKind.PREPARED, 0))
    answers: list[object] = []
    front.infer(InferRequest("app", 1, ()), answers.append)
    assert [type(each) for each in answers] == [ProtocolError]
    assert (fleet.started, front.pending) == ([], 0)
    front.infer(InferRequest("app/here", 1, ()), answers.append)
    assert [each.size for each in fleet.started] == [1]  # the slice is there


def test_a_gpu_that_is_lost_while_it_waits_for_others_has_to_get_ready_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_module, "Fleet", NoProcesses)
    front = Front([PATIENT], {"x": Contract("x", "test", (), (), 32, {})}, Workers())
    fleet = front.fleet
    assert isinstance(fleet, NoProcesses)
    ready = number_frame(FrameKind.PREPARED, 1)[5:]
    front.deploy(replace(deployment((0, 40, 2)), services=(PATIENT,)))
    fleet.say(number_frame(FrameKind.PREPARED, 0))
    front.deploy(replace(deployment((0, 100, 2), (1, 100, 2)), services=(PATIENT,)))
    for gpu, event, changing in ((0, "ready", True), (0, "lost", True), (1, "ready", True), (0, "ready", False)):
        if event == "ready":
            fleet.on_frame(gpu, FrameKind.PREPARED, ready)
        else:
            fleet.on_lost(gpu)
        assert front.changing is changing


def slow_turn_s(front: Front) -> float:
    assert front.deployment is not None
    return float(layout_of(front.deployment).planned_s[0][1])


def test_what_ran_on_a_lost_gpu_runs_in_its_order_before_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_module, "Fleet", NoProcesses)
    front = Front([PATIENT], {"x": Contract("x", "test", (), (), 32, {})}, Workers())
    fleet = front.fleet
    assert isinstance(fleet, NoProcesses)
    answered: list[str] = []
    front.deploy(replace(deployment((0, 40, 2), (0, 40, 1)), services=(PATIENT,)))
    fleet.say(number_frame(FrameKind.PREPARED, 0))
    for name in "abcdef":
        front.infer(InferRequest("x", 1, ()), partial(lambda name, _: answered.append(name), name))
    assert [each.size for each in fleet.started] == [1, 1]  # of a and b, which found the slices idle
    fleet.on_lost(0)
    fleet.say(number_frame(FrameKind.PREPARED, 0))
    for number in (2, 3, 4, 5):
        fleet.say(ended_frame(Ended(fleet.started[number].number, 0.0, 0.0, [])))
    assert answered == list("abcdef")
