"""What is releasing can be reserved for the next: promised once, and had only when it has been left."""

from collections import defaultdict

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.builders import examples

from gpuyard.core.cluster import NodeKind
from gpuyard.core.errors import LedgerError
from gpuyard.core.grants import Grant, GrantState, Part
from gpuyard.core.handover import HandoverLedger

HELD, RESERVED, RELEASING = GrantState.HELD, GrantState.RESERVED, GrantState.RELEASING
KIND = NodeKind(gpus=2, cpus=8.0, memory_gb=64.0, gpu_memory_gb=16.0)


def ledger() -> HandoverLedger:
    """One node of two GPUs, on whose first one somebody is leaving."""
    found = HandoverLedger()
    found.add_node("a", KIND)
    found.grant("old", [Part("a", 0, amounts={"cpus": 6.0})])
    found.move_on("old", RELEASING)
    return found


def test_the_next_is_promised_what_somebody_leaves_and_has_it_when_it_is_left() -> None:
    book = ledger()
    parts = (Part("a", 0, amounts={"cpus": 8.0}),)
    book.grant("next", parts, state=RESERVED, tasks=("train",))
    assert book.grant_of("next") == Grant("next", parts, RESERVED, ("train",))
    with pytest.raises(LedgerError, match="'next' cannot take 1000 thousandths of GPU 0, cpus 8 on node 'a': 0 thous"):
        book.move_on("next", HELD)
    assert {grant.holder: grant.state for grant in book.grants()} == {"old": RELEASING, "next": RESERVED}
    book.release("old")
    book.move_on("next", HELD)
    assert book.grants() == (Grant("next", parts, HELD, ("train",)),)
    book.check()


@pytest.mark.parametrize("state", [RESERVED, HELD])
@pytest.mark.parametrize(
    "part", [Part("a", 0, 1), Part("a", 1, amounts={"cpus": 2.5})], ids=["the GPU", "CPUs beside another"]
)
def test_what_is_promised_is_promised_to_nobody_else(part: Part, state: GrantState) -> None:
    book = ledger()
    book.grant("next", [Part("a", 0, amounts={"cpus": 6.0})], state=RESERVED)
    with pytest.raises(LedgerError, match="'third' cannot take"):
        book.grant("third", [part], state=state)
    assert book.grant_of("third") is None
    book.check()


def test_a_promise_may_be_taken_back_and_given_to_another() -> None:
    book = ledger()
    book.grant("next", [Part("a", 0)], state=RESERVED)
    book.carry_out([Grant("third", (Part("a", 0),), RESERVED)], released=["next"])
    assert [grant.holder for grant in book.grants()] == ["old", "third"]
    with pytest.raises(LedgerError):  # old is there still: nothing changes
        book.carry_out([Grant("fourth", (Part("a", 0),))], released=["third"])
    assert [grant.holder for grant in book.grants()] == ["old", "third"]


def test_who_leaves_cannot_stay_after_all_once_another_is_promised_its_place() -> None:
    book = ledger()
    book.move_on("old", HELD)
    book.move_on("old", RELEASING)
    book.grant("next", [Part("a", 0)], state=RESERVED)
    with pytest.raises(LedgerError, match="'old' cannot take"):
        book.move_on("old", HELD)
    assert [grant.state for grant in book.grants()] == [RELEASING, RESERVED]


def test_nobody_has_two_grants() -> None:
    book = ledger()
    for holder, state in (("old", RESERVED), ("old", HELD)):
        with pytest.raises(LedgerError, match="'old' holds something already"):
            book.grant(holder, [Part("a", 1)], state=state)
    with pytest.raises(LedgerError, match="'nobody' holds nothing"):
        book.release("nobody")


def test_a_node_of_which_something_is_promised_does_not_leave() -> None:
    book = ledger()
    book.release("old")
    book.grant("next", [Part("a", 1)], state=RESERVED)
    with pytest.raises(LedgerError, match="node 'a' cannot leave service"):
        book.remove_node("a")
    book.release("next")
    book.remove_node("a")
    assert book.nodes == ()


def plain(grant: Grant) -> tuple[GrantState, list[tuple[int | None, int, float, float]]]:
    """What a grant says; CPUs of which it has none may be named or not."""
    parts = grant.parts
    return grant.state, [(one.gpu, one.thousandths, one.gpu_memory_gb, one.amounts.get("cpus", 0.0)) for one in parts]


class Handovers(RuleBasedStateMachine):
    """Random business; beside it plain sums over two GPUs of those who are there and those who will be."""

    @initialize()
    def start(self) -> None:
        self.book = HandoverLedger()
        self.book.add_node("a", KIND)
        self.held: dict[int, Grant] = {}
        self.next = 0

    def fits(self, grant: Grant, leaving_out: GrantState) -> bool:
        taken: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
        cpus = 0.0
        for one in [*self.held.values(), grant]:
            for part in one.parts if one.state != leaving_out else ():
                assert part.gpu is not None
                taken[part.gpu][0] += part.thousandths
                taken[part.gpu][1] += part.gpu_memory_gb
                cpus += part.amounts["cpus"]
        return cpus <= 8 and all(thousandths <= 1000 and memory <= 16 for thousandths, memory in taken.values())

    def allowed(self, grant: Grant) -> bool:
        return self.fits(grant, RESERVED) and self.fits(grant, RELEASING)

    @rule(
        gpus=st.sets(st.integers(0, 1), min_size=1),
        thousandths=st.sampled_from([1, 500, 1000]),
        memory=st.sampled_from([0.0, 4.0, 9.0]),
        cpus=st.integers(0, 5),
        state=st.sampled_from(GrantState),
    )
    def grant(self, gpus: set[int], thousandths: int, memory: float, cpus: int, state: GrantState) -> None:
        parts = tuple(Part("a", gpu, thousandths, memory, {"cpus": float(cpus)}) for gpu in sorted(gpus))
        self.next += 1
        wanted = Grant(self.next, parts, state)
        if self.allowed(wanted):
            self.book.grant(self.next, parts, state=state)
            self.held[self.next] = wanted
        else:
            with pytest.raises(LedgerError):
                self.book.grant(self.next, parts, state=state)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), state=st.sampled_from(GrantState))
    def move_on(self, data: st.DataObject, state: GrantState) -> None:
        before = self.held.pop(data.draw(st.sampled_from(sorted(self.held))))
        after = Grant(before.holder, before.parts, state)
        assert isinstance(before.holder, int)
        allowed = self.allowed(after)
        self.held[before.holder] = after if allowed else before
        if allowed:
            self.book.move_on(before.holder, state)
        else:
            with pytest.raises(LedgerError):
                self.book.move_on(before.holder, state)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        holder = data.draw(st.sampled_from(sorted(self.held)))
        self.book.release(holder)
        del self.held[holder]

    @precondition(lambda self: self.held)
    @rule()
    def all_who_leave_have_left(self) -> None:
        """Then everybody who was promised something has it at once."""
        for holder, grant in list(self.held.items()):
            if grant.state == RELEASING:
                self.book.release(holder)
                del self.held[holder]
        for holder, grant in self.held.items():
            self.book.move_on(holder, HELD)
            self.held[holder] = Grant(holder, grant.parts, HELD)

    @invariant()
    def agree(self) -> None:
        if hasattr(self, "book"):
            assert {grant.holder: plain(grant) for grant in self.book.grants()} == {
                holder: plain(grant) for holder, grant in self.held.items()
            }
            self.book.check()


TestHandovers = Handovers.TestCase
TestHandovers.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
