"""Who must go where, who must wait, and why: multiplex policies by scenario."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.core.cluster import NodeKind
from gpuyard.core.ledger import Ledger
from gpuyard.policies.multiplex import GpuFact, MultiplexPlan, SharedGpus, TaskFact
from gpuyard.policies.multiplex.interference import InterferenceModel, Observation, Usage
from gpuyard.policies.registry import MULTIPLEXERS

USAGES = {
    "heavy": Usage("heavy", 0.9, 0.6), "light": Usage("light", 0.1, 0.05), "middle": Usage("middle", 0.5, 0.3),
    "hog": Usage("hog", 0.95, 0.9),
}  # fmt: skip


def seen(*pairs: tuple[str, str, float]) -> InterferenceModel:
    """What was measured again and again: the first is slowed down so much by the second."""
    return InterferenceModel().learn(
        *(Observation((USAGES[one], USAGES[other]), (0,), slowdown) for one, other, slowdown in pairs * 20)
    )


KNOWN = seen(
    ("light", "light", 0.05), ("light", "middle", 0.1), ("middle", "light", 0.02), ("light", "heavy", 0.3),
    ("heavy", "light", 0.1), ("middle", "middle", 0.4), ("heavy", "heavy", 0.9), ("middle", "heavy", 0.7),
    ("heavy", "middle", 0.5), ("hog", "light", 2.5), ("light", "hog", 2.5),
)  # fmt: skip


def task(name: str, gb: float = 4.0, at: tuple[str, int] | None = None, **said: object) -> TaskFact:
    """A task whose name begins with its model's."""
    return TaskFact(name, USAGES[name.split("-", maxsplit=1)[0]], gb, at, **said)  # type: ignore[arg-type]


def gpus(*memory_gb: float, gpu_type: str = "V100", node: str = "a") -> tuple[GpuFact, ...]:
    return tuple(GpuFact(node, number, gpu_type, gb) for number, gb in enumerate(memory_gb))


@dataclass(frozen=True)
class Scene:
    """What a policy sees, and what must come of it: GPUs by node and number, or a reason to wait."""

    story: str
    policy: str
    tasks: Sequence[TaskFact]
    want: dict[str, str]
    gpus: tuple[GpuFact, ...] = gpus(16, 16)
    known: InterferenceModel = field(default_factory=InterferenceModel)
    quotas: dict[str, float] = field(default_factory=dict)


A, B = ("a", 0), ("a", 1)

SCENES = [
    Scene("an empty GPU is no harm at all", "interference", [task("heavy-1", at=A), task("light-1")],
          {"heavy-1": "a0", "light-1": "a1"}, known=KNOWN),
    Scene("a light task goes to the middling one, not to the heavy one", "interference",
          [task("heavy-1", at=A), task("middle-1", at=B), task("light-1")],
          {"heavy-1": "a0", "middle-1": "a1", "light-1": "a1"}, known=KNOWN),
    Scene("what it does to others counts as well: a heavy task joins the light one", "interference",
          [task("middle-1", at=A), task("light-1", at=B), task("heavy-1")],
          {"middle-1": "a0", "light-1": "a1", "heavy-1": "a1"}, known=KNOWN),
    Scene("memory is a hard limit: the better company has no room", "interference",
          [task("heavy-1", 4, A), task("middle-1", 14, B), task("light-1", 4)],
          {"heavy-1": "a0", "middle-1": "a1", "light-1": "a0"}, known=KNOWN),
    Scene("nobody joins where all together would get less done", "interference",
          [task("hog-1", at=A), task("light-1")], {"hog-1": "a0", "light-1": "gpus"}, gpus=gpus(16), known=KNOWN),
    Scene("nothing is known: still an empty GPU first", "interference", [task("heavy-1", at=A), task("heavy-2")],
          {"heavy-1": "a0", "heavy-2": "a1"}),
    Scene("nothing is known: rather beside who uses little of the GPU, whatever their order", "interference",
          [task("heavy-1", at=A), task("light-1", at=B), task("heavy-2")],
          {"heavy-1": "a0", "light-1": "a1", "heavy-2": "a1"}),
    Scene("nothing is known: two heavy tasks get more done together than one, three less than two", "interference",
          [task(f"heavy-{number}") for number in range(3)], {"heavy-0": "a0", "heavy-1": "a0", "heavy-2": "gpus"},
          gpus=gpus(80)),
    Scene("nothing is known: light tasks share as long as there is memory", "interference",
          [task(f"light-{number}") for number in range(5)], {f"light-{number}": "a0" for number in range(4)} |
          {"light-4": "gpus"}, gpus=gpus(16)),
    Scene("pairs that are not slowed down at all: yet no GPU has time for three that use most of it", "interference",
          [task(f"heavy-{number}") for number in range(3)], {"heavy-0": "a0", "heavy-1": "a0", "heavy-2": "gpus"},
          gpus=gpus(80), known=seen(("heavy", "heavy", 0.0))),
    Scene("two are believed what was measured of them, whatever they say that they use", "interference",
          [task("hog-1"), task("hog-2")], {"hog-1": "a0", "hog-2": "a0"}, gpus=gpus(80),
          known=seen(("hog", "hog", 0.2))),
    Scene("of two mixes that look alike, the measured one is surer", "interference:caution=3",
          [task("light-1", at=A), task("middle-1", at=B), task("light-2")],
          {"light-1": "a0", "middle-1": "a1", "light-2": "a1"}, known=seen(("light", "middle", 0.33),
          ("middle", "light", 0.33))),
    Scene("a slow GPU of its own may be worse than sharing a fast one", "interference",
          [task("middle-1", at=("b", 0)), task("light-1", speeds={"K80": 0.2, "V100": 1.0})],
          {"middle-1": "b0", "light-1": "b0"}, gpus=gpus(16, gpu_type="K80") + gpus(16, node="b"), known=KNOWN),
    Scene("an empty GPU of a type that is nearly as fast is better", "interference",
          [task("middle-1", at=("b", 0)), task("light-1", speeds={"K80": 0.9, "V100": 1.0})],
          {"middle-1": "b0", "light-1": "a0"}, gpus=gpus(16, gpu_type="K80") + gpus(16, node="b"), known=KNOWN),
    Scene("only types that a task may use", "interference", [task("light-1", gpu_types=("A100",))],
          {"light-1": "gpus"}),
    Scene("enough memory in all, and too little on each", "interference",
          [task("light-1", 10, A), task("light-2", 10, B), task("light-3", 8)],
          {"light-1": "a0", "light-2": "a1", "light-3": "fragments"}),
    Scene("too little memory in all", "first-fit", [task("light-1", 15, A), task("light-2", 15, B), task("light-3", 8)],
          {"light-1": "a0", "light-2": "a1", "light-3": "gpus"}),
    Scene("a node that is down is the reason", "first-fit", [task("light-1")], {"light-1": "nodes"},
          gpus=(GpuFact("a", 0, "V100", 16, up=False),)),
    Scene("who is ahead in the order takes the place of who is behind", "exclusive",
          [task("heavy-2"), task("heavy-1", at=A)], {"heavy-2": "a0", "heavy-1": "gpus"}, gpus=gpus(16)),
    Scene("nobody is stopped while there is room elsewhere", "exclusive", [task("heavy-2"), task("heavy-1", at=A)],
          {"heavy-2": "a1", "heavy-1": "a0"}),
    Scene("as few are stopped as will do, the last one first", "first-fit",
          [task("heavy-3", 8), task("light-1", 8, A), task("light-2", 8, A)],
          {"heavy-3": "a0", "light-1": "a0", "light-2": "gpus"}, gpus=gpus(16)),
    Scene("a tenant has used up its quota", "first-fit",
          [task("light-1", at=A, tenant="x"), task("light-2", tenant="x"), task("light-3", tenant="y")],
          {"light-1": "a0", "light-2": "quota", "light-3": "a0"}, quotas={"x": 1}),
    Scene("a quota is the first ones' in the order", "first-fit",
          [task("light-2", tenant="x"), task("light-1", at=B, tenant="x")],
          {"light-2": "a0", "light-1": "quota"}, quotas={"x": 1}),
    Scene("first-fit fills GPUs one by one", "first-fit", [task("heavy-1"), task("heavy-2"), task("heavy-3", 12)],
          {"heavy-1": "a0", "heavy-2": "a0", "heavy-3": "a1"}),
    Scene("best-fit leaves the least", "best-fit", [task("light-1", 2, A), task("light-2", 11, B), task("light-3", 5)],
          {"light-1": "a0", "light-2": "a1", "light-3": "a1"}),
    Scene("the busiest GPU below the limit", "utilisation",
          [task("heavy-1", at=A), task("middle-1", at=B), task("light-1"), task("middle-2")],
          {"heavy-1": "a0", "middle-1": "a1", "light-1": "a0", "middle-2": "a1"}),
    Scene("above the limit one waits", "utilisation:limit=0.8", [task("heavy-1", at=A), task("middle-1", at=B),
          task("middle-2")], {"heavy-1": "a0", "middle-1": "a1", "middle-2": "gpus"}),
    Scene("pairs are matched all at once: the first does not take the partner that the second needs", "pairwise",
          [task("heavy-1", at=A), task("light-1", at=B), task("middle-1"), task("heavy-2")],
          {"heavy-1": "a0", "light-1": "a1", "middle-1": "a0", "heavy-2": "a1"}),
    Scene("never three", "pairwise", [task("light-1", at=A), task("light-2", at=A), task("light-3")],
          {"light-1": "a0", "light-2": "a0", "light-3": "gpus"}, gpus=gpus(16)),
    Scene("tuning-only shares when nothing is empty", "tuning-only", [task("heavy-1", at=A), task("heavy-2"),
          task("heavy-3")], {"heavy-1": "a0", "heavy-2": "a1", "heavy-3": "a0"}),
    Scene("IADeep's program leaves out a GPU that is being tuned", "iadeep", [task("light-1", at=A), task("light-2")],
          {"light-1": "a0", "light-2": "gpus"}, gpus=(GpuFact("a", 0, "V100", 16, tuning=True),)),
    Scene("... takes the first row that has all models, whatever else it has", "iadeep",
          [task("heavy-1", at=A), task("middle-1", at=B), task("light-1")],
          {"heavy-1": "a0", "middle-1": "a1", "light-1": "a0"},
          known=InterferenceModel((Observation((USAGES["heavy"], USAGES["light"], USAGES["hog"]), (0, 1, 2), 0.1),
                                   Observation((USAGES["middle"], USAGES["light"]), (0, 1), 0.2)))),
    Scene("... and expects the same of all that it has not seen", "iadeep",
          [task("heavy-1", at=A), task("middle-1", at=B), task("light-1")],
          {"heavy-1": "a0", "middle-1": "a1", "light-1": "a0"}),
    Scene("its node score may send a task to the worse GPU of the more idle node", "kernelest",
          [task("middle-1", at=("b", 0)), task("light-2", at=("a", 1)), task("heavy-3", at=("a", 0)), task("light-1")],
          {"middle-1": "b0", "light-2": "a1", "heavy-3": "a0", "light-1": "a0"},
          gpus=gpus(16, 16) + gpus(16, node="b")),
    Scene("its AntMan packs, fuller nodes first", "antman", [task("light-1", at=("b", 0)), task("light-2")],
          {"light-1": "b0", "light-2": "b0"}, gpus=gpus(16) + gpus(16, node="b")),
]  # fmt: skip


def planned(scene: Scene) -> MultiplexPlan:
    policy = MULTIPLEXERS.find(scene.policy)
    plan: MultiplexPlan = policy.plan(SharedGpus(scene.gpus, tuple(scene.tasks), scene.known, scene.quotas))
    return plan


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: f"{scene.policy}: {scene.story}")
def test_who_goes_where_and_who_waits_why(scene: Scene) -> None:
    plan = planned(scene)
    found = {name: f"{place.node}{place.gpu}" for name, place in plan.places.items()}
    assert found | dict(plan.waits) == scene.want
    assert set(plan.lacks) == set(plan.waits)


def test_a_plan_says_in_words_what_is_missing() -> None:
    told = {scene.story: planned(scene).lacks for scene in SCENES}
    assert told["nobody joins where all together would get less done"] == {
        "light-1": "its memory would fit, but on each such GPU all together would get less done with it than without"
    }
    assert told["enough memory in all, and too little on each"] == {
        "light-3": "it needs 8 GB of GPU memory; 6 GB is the most that is free on a GPU"
    }
    assert told["a tenant has used up its quota"] == {"light-2": "its tenant x may use 1 GPUs at a time"}


def test_equal_seeds_draw_equal_lots_and_others_others() -> None:
    tasks = tuple(task(f"light-{n}", 1.0) for n in range(12))
    plans = [
        MULTIPLEXERS.find(f"random:seed={seed}").plan(SharedGpus(gpus(16, 16, 16, 16), tasks)).places
        for seed in (1, 1, 2)
    ]
    assert plans[0] == plans[1] != plans[2]


SHIPPED = sorted(MULTIPLEXERS.names)


@settings(max_examples=25, deadline=None)
@given(
    policy=st.sampled_from(SHIPPED),
    memory=st.lists(st.sampled_from([8.0, 16.0]), min_size=1, max_size=4),
    wanted=st.lists(st.tuples(st.sampled_from(sorted(USAGES)), st.sampled_from([1.0, 5.0, 8.0])), max_size=9),
    gone=st.integers(0, 3),
)
def test_no_memory_is_promised_twice_and_everybody_is_answered(
    policy: str, memory: list[float], wanted: list[tuple[str, float]], gone: int
) -> None:
    """Two decisions in a row, and before the second somebody leaves and the order is turned round."""
    there = gpus(*memory)
    ledger = Ledger()
    for gpu in there:
        ledger.add_node(f"n{gpu.number}", NodeKind(gpus=1, gpu_memory_gb=gpu.memory_gb))
    there = tuple(GpuFact(f"n{gpu.number}", 0, gpu.gpu_type, gpu.memory_gb) for gpu in there)
    tasks = [task(f"{model}-{n}", gb) for n, (model, gb) in enumerate(wanted)]
    rule = MULTIPLEXERS.find(policy)
    plan = rule.plan(SharedGpus(there, tuple(tasks), KNOWN))
    plan.take(ledger)
    assert {*plan.places, *plan.waits} == {each.name for each in tasks}
    at = {name: (place.node, place.gpu) for name, place in plan.places.items()}
    later = [TaskFact(each.name, each.usage, each.gpu_memory_gb, at.get(each.name)) for each in tasks[gone:]]
    for each in tasks[:gone]:
        if each.name in at:
            ledger.release(each.name)
    again = rule.plan(SharedGpus(there, tuple(later[::-1]), KNOWN))
    again.take(ledger)
    assert {*again.places, *again.waits} == {each.name for each in later}
    ledger.check()
