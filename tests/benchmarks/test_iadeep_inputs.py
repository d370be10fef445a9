"""IADeep's tables in gpuyard's own formats say what the tables say."""

from pathlib import Path

import pytest

from benchmarks.iadeep import Published, mix_of, named, table
from benchmarks.paper.cases import SHARED
from gpuyard.policies.multiplex.from_profiles import batches_of, usage_of
from gpuyard.policies.multiplex.observation_files import read_observations
from gpuyard.profiles import load_zoo

pytestmark = pytest.mark.skipif(not (SHARED / "iadeep").is_dir(), reason="the published tables are not here")
PUBLISHED = Published(SHARED)


def test_the_slowdowns_of_each_pair_add_up_to_what_was_measured() -> None:
    slowdowns, pairs = PUBLISHED.slowdowns(), 0
    for row in table(SHARED, "interference_by_mix_offline.csv"):
        mix = mix_of(row["mix_from_counts"])
        if row["flags_consistent"] == "1" and len(mix) == 2:
            pairs += 1
            both = slowdowns[mix[0], mix[1]] + slowdowns[mix[1], mix[0]]
            assert both == pytest.approx(float(row["sum_slowdown"]), abs=1e-5), mix
    assert pairs == 30


def test_profiles_have_the_published_steps_memory_and_mixes(tmp_path: Path) -> None:
    zoo = load_zoo([PUBLISHED.profile_file(tmp_path / "iadeep.yaml")])
    vgg, squeezenet = zoo.profile(named("vgg16")), zoo.profile(named("squeezenet"))
    assert (vgg.batch, round(vgg.iteration_s, 4)) == (512, 0.0813)
    assert batches_of(vgg, 24.0).memory_gb(512) == pytest.approx(7 * 2**30 / 1e9)
    assert usage_of(vgg).compute == pytest.approx(0.534, abs=1e-3)
    # The lighter of the two suffers more.
    assert (vgg.slowdown_beside(squeezenet), squeezenet.slowdown_beside(vgg)) == pytest.approx((1.259714, 1.463814))


def test_what_the_scheduler_knows_are_sums_of_mixes_of_the_experiment(tmp_path: Path) -> None:
    seen = read_observations(PUBLISHED.observation_file(tmp_path / "mixes.json")).observations
    assert len(seen) > 10
    assert all(len(each.measured) == len(each.mix) for each in seen)
    assert {usage.model for each in seen for usage in each.mix} <= {named(model) for model in PUBLISHED.weights}


def test_tasks_are_drawn_anew_for_each_seed_and_arrive_as_in_the_trace() -> None:
    first, again, other = (PUBLISHED.workload(2.0, seed) for seed in (1, 1, 2))
    assert len(first) == 300
    assert first.digest() == again.digest() != other.digest()
    assert first.arrival_s[-1] == pytest.approx(2001, abs=1)
    assert sorted(first.models) == sorted(named(model) for model in PUBLISHED.weights)
