"""Whose stop word is set: by table, and after any sequence of operations as a plain model says."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpuyard.sharing.calls import UNGATED, Drain, GateError
from gpuyard.sharing.group import ClientState, GateClient, Group, Terms


@pytest.mark.parametrize(
    ("levels", "active", "stopped"),
    [
        ([0, 1], [], []),
        ([0, 1], [0], []),  # nobody waits for a lower level
        ([0, 1], [1], [0]),  # also who is idle has its word set: its next job waits
        ([0, 1], [0, 1], [0]),
        ([1, 1, 0], [0], [2]),
        ([1, 1, 0], [0, 1], [2]),  # two urgent jobs
        ([0, 1, 2], [1, 2], [0, 1]),  # nested: the middle waits for the highest
        ([0, 1, 2], [0, 1], [0]),
        ([0, 63], [1], [0]),
        ([UNGATED, 0, 1], [0, 2], [1]),  # who is ungated does not wait,
        ([UNGATED, 0], [0], []),  # and makes nobody wait
    ],
)
def test_who_must_stop(group: Group, levels: list[int], active: list[int], stopped: list[int]) -> None:
    clients = [group.connect("gpu", Terms(level)) for level in levels]
    for place in active:
        clients[place].arrive()
    assert [place for place, client in enumerate(clients) if client.stop[0]] == stopped


def test_two_urgent_jobs_hold_the_gate_until_both_are_done(group: Group) -> None:
    low, first, second = (group.connect("gpu", Terms(level)) for level in (0, 1, 1))
    first.arrive()
    second.arrive()
    first.drained(0)
    assert low.stop[0]
    second.drained(0)
    assert not low.stop[0]


def test_gpus_do_not_know_each_other(group: Group) -> None:
    low, high = group.connect("one", Terms(0)), group.connect("other", Terms(1))
    high.arrive()
    assert not low.stop[0]


def test_a_level_that_does_not_exist_is_refused(group: Group) -> None:
    for level in (-2, 64):
        with pytest.raises(GateError, match="0 to 63"):
            group.connect("gpu", Terms(level))
    assert group.gpus() == []


@dataclass
class ModelClient:
    """What must be true of a client, by the simplest means."""

    real: GateClient
    own: Terms
    decided: Terms | None = None
    active: bool = False
    marks: int = 0
    queued: int = 0
    launches: int = 0
    begun: int = 0
    done: int = 0
    syncs: int = 0
    number: int = field(default_factory=count().__next__)

    def terms(self, controlled: bool) -> Terms:
        return self.decided if controlled and self.decided else self.own

    def arrive(self) -> None:
        self.begun += not self.active
        self.active = True

    def finish(self) -> None:
        if self.active and not self.marks and not self.queued:
            self.active, self.done = False, self.done + 1


LEVELS = st.integers(UNGATED, 3)
TERMS = st.builds(Terms, LEVELS, st.sampled_from([0, 1, 2, 5]), st.sampled_from([0, 4]))


class GateMachine(RuleBasedStateMachine):
    """One GPU, several clients and a controller that comes and goes."""

    def __init__(self) -> None:
        super().__init__()
        self.clients: list[ModelClient] = []
        self.controller: Group | None = None

    @initialize()
    def open(self) -> None:
        self.group = Group("machine")

    def teardown(self) -> None:
        self.group.close()
        if self.controller:
            self.controller.close()

    def pick(self, data: st.DataObject) -> ModelClient:
        return data.draw(st.sampled_from(self.clients))

    def seen(self) -> list[ClientState]:
        return sorted(self.group.look(0).clients, key=lambda client: client.ticket) if self.clients else []

    @precondition(lambda self: len(self.clients) < 5)
    @rule(terms=TERMS)
    def connect(self, terms: Terms) -> None:
        self.clients.append(ModelClient(self.group.connect("gpu", terms), terms))

    @precondition(lambda self: len(self.clients) > 1)
    @rule(data=st.data())
    def disconnect(self, data: st.DataObject) -> None:
        client = self.pick(data)
        client.real.disconnect()
        self.clients.remove(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def launch(self, data: st.DataObject) -> None:
        client = self.pick(data)
        client.real.arrive()
        client.arrive()
        if client.real.stop[0]:
            return  # would wait
        client.launches += 1
        client.queued += 1
        most = client.terms(self.controller is not None).sync_every
        assert client.real.launched() == bool(most and client.queued >= most)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), why=st.sampled_from(Drain))
    def drain(self, data: st.DataObject, why: Drain) -> None:
        client = self.pick(data)
        launches = data.draw(st.integers(0, client.queued))
        client.real.drained(launches, why)
        client.queued -= launches
        client.syncs += why == Drain.CAP
        if why == Drain.PROGRAM:
            client.finish()

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def begin_job(self, data: st.DataObject) -> None:
        client = self.pick(data)
        client.real.begin_job()
        client.marks += 1
        client.arrive()

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def end_job(self, data: st.DataObject) -> None:
        client = self.pick(data)
        if not client.marks:
            with pytest.raises(GateError, match="never began"):
                client.real.end_job()
            return
        client.real.end_job()
        client.marks -= 1
        client.finish()

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def decide(self, data: st.DataObject) -> None:
        if self.controller is None:
            self.controller = Group("machine")
            self.controller.control()
            for client in self.clients:
                client.decided = None  # what an earlier controller said is forgotten
        pairs = [pair for pair in zip(self.seen(), self.clients, strict=True) if data.draw(st.booleans())]
        terms = [data.draw(TERMS) for _ in pairs]
        self.controller.decide(0, [state for state, _ in pairs], terms)
        for (_, client), each in zip(pairs, terms, strict=True):
            client.decided = each

    @precondition(lambda self: self.controller)
    @rule()
    def controller_goes(self) -> None:
        assert self.controller is not None
        self.controller.close()
        self.controller = None
        self.seen()  # whoever looks next sees that it has gone

    @invariant()
    def the_segment_says_what_the_model_says(self) -> None:
        controlled = self.controller is not None
        highest = max((c.terms(controlled).level for c in self.clients if c.active), default=UNGATED)
        for state, client in zip(self.seen(), self.clients, strict=True):
            terms = client.terms(controlled)
            assert state.terms == terms
            assert state.own == client.own
            assert state.stopped == (UNGATED < terms.level < highest) == bool(client.real.stop[0])
            assert state.active == client.active
            assert (state.queued, state.launches) == (client.queued, client.launches)
            assert (state.jobs_begun, state.jobs_done, state.syncs) == (client.begun, client.done, client.syncs)
            assert state.done_launches == client.launches - client.queued


TestGateMachine = GateMachine.TestCase
TestGateMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
