"""Deployments that follow their rates: when they change, and by how little."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import examples

from gpuyard.core.errors import InputError
from gpuyard.core.service import Service
from gpuyard.policies.partition import PartitionPlan, Slice, Turn
from gpuyard.policies.partition.deployment import Deployment, known_models, serving_cluster
from gpuyard.policies.partition.elastic import Elastic
from gpuyard.policies.partition.moves import Move, moves, with_fewest_moves
from gpuyard.policies.partition.replanning import Replanner
from gpuyard.policies.partition.revising import replan
from gpuyard.policies.partition.tail import mean_for
from gpuyard.policies.partition.tracking import Tracker, Tracking

SERVICES = (
    Service("faces", "resnet50", 200.0, 108.0), Service("scenes", "vgg16", 100.0, 142.0),
    Service("words", "bert", 60.0, 22.0),
)  # fmt: skip
POLICY = Elastic()
PERIOD = 40
"""Counts from one decision to the next."""


def deployed(services: tuple[Service, ...] = SERVICES, gpus: str = "4x2080ti") -> Deployment:
    cluster = serving_cluster(gpus)
    return Deployment(services, cluster, POLICY.plan(services, cluster, known_models(cluster)))


def at(rates: Mapping[str, float], services: tuple[Service, ...] = SERVICES) -> tuple[Service, ...]:
    return tuple(replace(each, rate_per_s=rates.get(str(each.service_id), each.rate_per_s)) for each in services)


def half(services: tuple[tuple[str, int], ...], gpu: int = 0, thousandths: int = 500) -> Slice:
    return Slice("node0", gpu, thousandths, 2.0, tuple(Turn(name, batch, 0.01) for name, batch in services), 0.02)


def with_slices(*slices: Slice) -> Deployment:
    return Deployment(SERVICES, serving_cluster("2x2080ti"), PartitionPlan(slices))


def test_of_equally_good_gpus_a_slice_stays_on_its_own() -> None:
    nothing, there = with_slices(), with_slices(half((("faces", 4),), gpu=1))
    assert with_fewest_moves(nothing, there, [("node0", 0), ("node0", 1)]).plan == there.plan


def test_gpus_are_exchanged_so_that_everybody_finds_what_is_loaded_for_it() -> None:
    before = with_slices(half((("scenes", 4),)), half((("faces", 4),), gpu=1))
    crossed = with_slices(half((("faces", 9),)), half((("scenes", 1), ("words", 1)), gpu=1))
    assert len(moves(before, crossed)) == 3
    found = with_fewest_moves(before, crossed, [("node0", 0), ("node0", 1)])
    assert moves(before, found) == (Move("node0", 0, 500, "bert"),)
    assert found.plan.capacity() == crossed.plan.capacity()


def test_a_move_is_a_slice_cut_anew_or_a_model_loaded() -> None:
    before = with_slices(half((("faces", 4),)), half((("scenes", 4),)))
    assert moves(before, before) == ()
    other_batch = with_slices(half((("scenes", 9),)), half((("faces", 1),)))
    assert moves(before, other_batch) == ()  # halves of one GPU are as good as each other
    joined = with_slices(half((("faces", 4), ("words", 1))), half((("scenes", 4),)))
    assert moves(before, joined) == (Move("node0", 0, 500, "bert"),)
    elsewhere = with_slices(half((("faces", 4),)), half((("scenes", 4),), gpu=1, thousandths=1000))
    assert moves(before, elsewhere) == (Move("node0", 1, 1000), Move("node0", 1, 1000, "vgg16"))
    assert moves(before, with_slices(half((("faces", 4),)))) == ()  # what ends takes no time
    larger = with_slices(half((("faces", 4),), thousandths=600))
    assert moves(before, larger) == (Move("node0", 0, 600), Move("node0", 0, 600, "resnet50"))


@pytest.mark.parametrize(("most", "mean"), [(9, 4), (34, 22), (124, 100), (234, 200), (1075, 1000)])
def test_the_mean_of_which_a_second_brings_so_many_at_most(most: float, mean: float) -> None:
    """The 99th percentiles of Poisson counts with these means."""
    assert mean_for(most, 0.99) == pytest.approx(mean, abs=1.0)


def test_the_same_rates_change_nothing() -> None:
    before = deployed()
    assert replan(before, SERVICES, POLICY).plan.slices == before.plan.slices


def test_a_service_that_goes_moves_nobody() -> None:
    before = deployed()
    after = replan(before, SERVICES[:2], POLICY)
    assert moves(before, after) == ()
    assert "words" not in after.plan.capacity()


def test_what_cannot_be_served_is_said() -> None:
    after = replan(deployed(gpus="2x2080ti"), at({"faces": 5000.0}), POLICY)
    assert after.violations() == []
    assert after.plan.unserved["faces"] > 1000.0


def test_fewer_gpus_only_when_it_pays() -> None:
    before = deployed(at({"faces": 500.0, "scenes": 300.0}))
    rates = at({"faces": 50.0, "scenes": 30.0, "words": 30.0})
    same, smaller = (replan(before, rates, POLICY, shrink=shrink) for shrink in (False, True))
    assert moves(before, same) == ()
    assert smaller.plan.gpus < same.plan.gpus == before.plan.gpus
    assert smaller.violations() == []
    assert replan(before, rates, POLICY, shrink=True, worth=0).plan.gpus >= smaller.plan.gpus


@settings(max_examples=examples(12), deadline=None)
@given(
    first=st.tuples(*[st.floats(5.0, 300.0)] * 3), second=st.tuples(*[st.floats(5.0, 300.0)] * 3), shrink=st.booleans()
)
def test_a_revised_deployment_keeps_every_promise_with_no_more_moves_than_one_planned_anew(
    first: tuple[float, ...], second: tuple[float, ...], shrink: bool
) -> None:
    names = [str(each.service_id) for each in SERVICES]
    before = deployed(at(dict(zip(names, first, strict=True))))
    wanted = at(dict(zip(names, second, strict=True)))
    after, anew = replan(before, wanted, POLICY, shrink=shrink), deployed(wanted)
    assert after.violations() == []
    assert after.services == wanted
    assert not after.plan.unserved or anew.plan.unserved
    if not (shrink or anew.plan.unserved):
        assert len(moves(before, after)) <= len(moves(before, anew))
    assert after.plan.gpus <= before.cluster.total_gpus


def test_an_average_follows_counts_with_the_weight_of_one_period() -> None:
    tracker = Tracker({"a": 100.0}, Tracking())
    tracker.count({"a": 100})  # in half a second: 200 a second
    assert tracker.average["a"] == pytest.approx(100.0 + 2 / 41 * 100.0)
    tracker.count({})
    assert tracker.average["a"] == pytest.approx((100.0 + 2 / 41 * 100.0) * 39 / 41)
    with pytest.raises(InputError, match="'b' is not a service that is tracked"):
        tracker.count({"b": 1})


def test_small_rates_get_more_headroom() -> None:
    options = Tracking()
    assert [options.target(rate) for rate in (100.0, 125.0, 0.9)] == pytest.approx([150.0, 150.0, 0.0])
    assert options.has_grown(160.0, 150.0, 106.7) is False  # within what chance does
    assert options.has_grown(1240.0, 1200.0, 1033.0)  # more than 10 a second
    assert not options.has_shrunk(136.0, 150.0)
    assert options.has_shrunk(134.0, 150.0)


def follow(replanner: Replanner, rates: Mapping[str, float], periods: int) -> list[Deployment]:
    """Let requests come at even rates; all deployments that come of it."""
    found, carried = [], dict.fromkeys(rates, 0.0)
    for _ in range(periods):
        for _ in range(PERIOD):
            due = {name: carried[name] + rate / 2 for name, rate in rates.items()}
            carried = {name: count - int(count) for name, count in due.items()}
            replanner.count({name: int(count) for name, count in due.items()})
        revised = replanner.revise()
        found += [revised] if revised is not None else []
    return found


RATES = {str(each.service_id): each.rate_per_s for each in SERVICES}


def test_rates_that_stay_change_nothing() -> None:
    replanner = Replanner(deployed(), POLICY)
    before = replanner.deployment
    assert follow(replanner, RATES, 10) == []
    assert replanner.deployment is before


def test_nor_do_random_arrivals_at_these_rates() -> None:
    replanner, random = Replanner(deployed(), POLICY), np.random.default_rng(1)
    for _ in range(100):
        for _ in range(PERIOD):
            replanner.count({name: int(random.poisson(rate / 2)) for name, rate in RATES.items()})
        assert replanner.revise() is None


def test_it_grows_at_once_and_shrinks_when_the_lull_lasts() -> None:
    replanner = Replanner(deployed(), POLICY)
    used = replanner.deployment.plan.gpus
    [*_, grown] = follow(replanner, RATES | {"faces": 600.0}, 1)
    assert grown.plan.capacity()["faces"] > 600.0
    assert grown.violations() == []
    follow(replanner, RATES | {"faces": 600.0}, 3)
    most = replanner.deployment.plan.gpus
    assert most > used
    assert follow(replanner, RATES, 1) == []
    follow(replanner, RATES, 8)
    assert replanner.deployment.plan.gpus < most
    assert replanner.deployment.violations() == []


def test_a_rate_that_calls_for_no_other_slices_is_planned_for_from_then_on() -> None:
    replanner = Replanner(deployed(), POLICY, shrink=False)
    slices = replanner.deployment.plan.slices
    assert follow(replanner, RATES | {"words": 40.0}, 8) == []
    assert replanner.deployment.plan.slices == slices
    assert 40.0 <= replanner.deployment.service["words"].rate_per_s < 50.0
    assert replanner.deployment.service["faces"].rate_per_s == 200.0


def test_an_idle_service_leaves_and_comes_back() -> None:
    replanner = Replanner(deployed(), POLICY)
    follow(replanner, RATES | {"words": 0.0}, 8)
    assert "words" not in replanner.deployment.service
    follow(replanner, RATES, 2)
    assert replanner.deployment.plan.capacity()["words"] > 60.0


def test_a_service_that_is_asked_rarely_stays() -> None:
    """One request in five seconds is far less than one a second, but each of them wants an answer."""
    replanner = Replanner(deployed(), POLICY)
    for interval in range(8 * 40):
        replanner.count({"faces": 100, "words": int(interval % 10 == 0)})
        if interval % 40 == 39:
            replanner.revise()
            assert replanner.deployment.plan.capacity()["words"] > 0


def test_one_request_brings_an_idle_service_back() -> None:
    replanner = Replanner(deployed(), POLICY)
    follow(replanner, RATES | {"words": 0.0}, 8)
    replanner.count({"words": 1})
    assert replanner.revise() is not None
    assert replanner.deployment.plan.capacity()["words"] > 0


def test_a_service_that_is_planned_for_less_than_a_request_a_second_is_never_idle() -> None:
    tracker = Tracker({"words": 0.01, "faces": 50.0}, Tracking())
    for _ in range(10):
        tracker.revise()
        for _ in range(40):
            tracker.count({})
    assert tracker.target == {"words": 1.5, "faces": 0.0}


def test_a_service_that_was_not_there_at_first_can_come() -> None:
    later = Service("pets", "googlenet", 50.0, 66.0)
    replanner = Replanner(deployed(), POLICY, also=[later])
    assert follow(replanner, RATES, 2) == []
    follow(replanner, RATES | {"pets": 80.0}, 3)
    assert replanner.deployment.plan.capacity()["pets"] > 80.0
    assert replanner.deployment.service["pets"].slo_ms == 66.0


def test_too_much_for_all_gpus_is_served_as_far_as_possible() -> None:
    replanner = Replanner(deployed(gpus="2x2080ti"), POLICY)
    follow(replanner, RATES | {"faces": 4000.0}, 5)
    assert replanner.deployment.violations() == []
    assert replanner.deployment.plan.unserved["faces"] > 0
    assert min(replanner.deployment.plan.capacity().values()) > 0
