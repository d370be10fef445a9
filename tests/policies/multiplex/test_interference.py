"""What tasks on one GPU do to each other: by hand, on published mixes that were left out, and as a file."""

import csv
from pathlib import Path

import numpy as np
import pytest

from gpuyard.core.errors import InputError
from gpuyard.policies.multiplex.effects import usual_effect
from gpuyard.policies.multiplex.interference import SPREAD, InterferenceModel, Observation, Usage
from gpuyard.policies.multiplex.mix_means import MixMeans
from gpuyard.policies.multiplex.observation_files import read_observations, write_observations

HEAVY, LIGHT, OTHER = Usage("heavy", 0.6, 0.4), Usage("light", 0.05, 0.01), Usage("other", 0.3, 0.2)


def taught(mix: tuple[Usage, ...], *slowdowns: float, times: int = 20) -> InterferenceModel:
    """A model that has seen each task of a mix, often."""
    each = [Observation(mix, (position,), value) for position, value in enumerate(slowdowns)]
    return InterferenceModel(tuple(each) * times)


def test_without_observations_a_neighbour_disturbs_by_how_much_it_uses_and_little_is_sure() -> None:
    model = InterferenceModel()
    heavy, light = model.slowdowns((HEAVY, LIGHT))
    assert [heavy.mean, light.mean] == pytest.approx([0.49 * 0.06, 0.49 * 1.0])
    assert heavy.deviation == light.deviation > 2 * SPREAD
    assert model.total((HEAVY, LIGHT, OTHER)).mean == pytest.approx(2 * 0.49 * (0.06 + 1.0 + 0.5))


def test_nobody_is_slowed_down_alone() -> None:
    assert taught((HEAVY, LIGHT), 0.2, 0.9).slowdowns((HEAVY,)) == [(0.0, 0.0)]


def test_what_was_seen_often_is_believed_for_each_task() -> None:
    one, other = taught((HEAVY, LIGHT), 0.1, 0.9).slowdowns((HEAVY, LIGHT))
    assert [one.mean, other.mean] == pytest.approx([0.1, 0.9], abs=0.03)
    assert one.deviation == pytest.approx(SPREAD, rel=0.05)  # what is left is chance


def test_the_order_of_a_mix_does_not_matter() -> None:
    model = taught((HEAVY, LIGHT), 0.1, 0.9)
    assert model.slowdowns((LIGHT, HEAVY)) == model.slowdowns((HEAVY, LIGHT))[::-1]


def test_a_sum_of_several_is_divided_among_them() -> None:
    model = InterferenceModel((Observation((HEAVY, LIGHT), (0, 1), 1.4),) * 20)
    assert model.total((HEAVY, LIGHT)).mean == pytest.approx(1.4, abs=0.03)
    assert sum(each.mean for each in model.slowdowns((HEAVY, LIGHT))) == pytest.approx(1.4, abs=0.03)


def test_effects_of_pairs_add_up_in_a_mix_that_nobody_has_seen() -> None:
    model = taught((HEAVY, LIGHT), 0.2, 0.6).learn(*taught((HEAVY, OTHER), 0.5, 0.5).observations)
    heavy, _, _ = model.slowdowns((HEAVY, LIGHT, OTHER))
    assert heavy.mean == pytest.approx(0.7, abs=0.05)


def test_a_model_nobody_has_seen_is_like_those_that_use_the_gpu_alike() -> None:
    model = taught((HEAVY, HEAVY), 1.5, 1.5)
    like, unlike = Usage("new", 0.62, 0.41), Usage("new", 0.02, 0.0)
    near, far = model.slowdowns((like, like))[0], model.slowdowns((unlike, unlike))[0]
    above = [each.mean - usual_effect(who[:3]) for each, who in ((near, like), (far, unlike))]
    assert above[0] > above[1] > 0
    assert near.deviation < far.deviation < InterferenceModel().slowdowns((like, like))[0].deviation


def test_a_larger_batch_disturbs_more_and_suffers_alike() -> None:
    model = taught((HEAVY, LIGHT), 0.4, 0.4)
    heavy, light = model.slowdowns((HEAVY._replace(batch=4.0), LIGHT))
    assert heavy.mean == pytest.approx(0.4, abs=0.02)
    assert light.mean == pytest.approx(0.8, abs=0.04)  # by the square root


def test_what_was_seen_on_one_type_says_a_little_of_another() -> None:
    seen = (Observation((HEAVY, LIGHT), (0,), 1.5, gpu="v100"),) * 20
    model = InterferenceModel(seen)
    here, there = (model.slowdowns((HEAVY, LIGHT), gpu)[0] for gpu in ("v100", "a100"))
    assert here.mean > there.mean > usual_effect(LIGHT[:3]) + 0.3
    assert there.deviation > 1.5 * here.deviation


def test_an_error_that_was_stated_makes_an_observation_count_less() -> None:
    sure, unsure = (InterferenceModel((Observation((HEAVY, LIGHT), (0,), 1.5, error),)) for error in (0.0, 2.0))
    assert sure.slowdowns((HEAVY, LIGHT))[0].mean > unsure.slowdowns((HEAVY, LIGHT))[0].mean


def test_nobody_is_promised_to_get_faster() -> None:
    assert taught((HEAVY, LIGHT), -0.4, 0.1).slowdowns((HEAVY, LIGHT))[0].mean == 0.0


def published_mixes(shared_data: Path) -> list[Observation]:
    """IADeep's pairs and triples of models whose use of the GPU is published, too."""

    def rows(name: str) -> list[dict[str, str]]:
        lines = (shared_data / "iadeep" / name).read_text().splitlines()
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))

    use = {
        row["model"]: Usage(row["model"], float(row["sm_util_pct"]) / 100, float(row["mem_util_pct"]) / 100)
        for row in rows("model_utilisation.csv")
    }
    found = []
    for row in rows("interference_by_mix_offline.csv"):
        counts = [part.split("*") for part in row["mix_from_counts"].split("+")]
        names = [name for name, count in counts for _ in range(int(count))]
        if row["flags_consistent"] == "1" and set(names) <= use.keys():
            everybody = tuple(range(len(names)))
            found.append(Observation(tuple(use[name] for name in names), everybody, float(row["sum_slowdown"])))
    return found


def test_published_mixes_that_were_left_out_are_foretold_better_than_by_the_mean(shared_data: Path) -> None:
    mixes = published_mixes(shared_data)
    assert len(mixes) == 81
    errors, means, surprises = [], [], []
    for number, mix in enumerate(mixes):
        others = tuple(mixes[:number] + mixes[number + 1 :])
        expected = InterferenceModel(others).total(mix.mix)
        alike = [each.slowdown for each in others if len(each.mix) == len(mix.mix)]
        errors.append(abs(expected.mean - mix.slowdown) / len(mix.mix))
        means.append(abs(np.mean(alike) - mix.slowdown) / len(mix.mix))
        surprises.append(abs(expected.mean - mix.slowdown) / expected.deviation)
    assert np.mean(means) == pytest.approx(0.293, abs=0.001)
    assert np.mean(errors) < 0.105
    assert 0.6 < np.mean(np.array(surprises) < 1) < 0.85  # a deviation is one
    assert 0.9 < np.mean(np.array(surprises) < 2) < 0.99


def test_a_file_holds_all_that_was_learnt(tmp_path: Path) -> None:
    model = taught((HEAVY, LIGHT._replace(batch=2.0)), 0.1, 0.9, times=2).learn(
        Observation((HEAVY, HEAVY, OTHER), (0, 2), 1.25, error=0.1, gpu="v100")
    )
    write_observations(model, tmp_path / "seen.json")
    assert read_observations(tmp_path / "seen.json") == model
    first = (tmp_path / "seen.json").read_bytes()
    write_observations(read_observations(tmp_path / "seen.json"), tmp_path / "seen.json")
    assert (tmp_path / "seen.json").read_bytes() == first


GOOD = '{"model": "a", "compute": 0.5, "bandwidth": 0.5}'


@pytest.mark.parametrize(
    ("observation", "field"),
    [
        (f'{{"mix": [{GOOD}], "measured": [0], "slowdown": 1}}', "observations.0.mix"),
        (f'{{"mix": [{GOOD}, {GOOD}], "measured": [2], "slowdown": 1}}', "observations.0"),
        (f'{{"mix": [{GOOD}, {GOOD}], "measured": [0, 0], "slowdown": 1}}', "observations.0"),
        (f'{{"mix": [{GOOD}, {GOOD}], "measured": [0], "slowdown": NaN}}', "observations.0.slowdown"),
        (f'{{"mix": [{GOOD}, {GOOD}], "measured": [0], "slowdown": 1, "x": 1}}', "observations.0.x"),
        (f'{{"mix": [{GOOD}, {GOOD.replace("0.5", "1.5")}], "measured": [0], "slowdown": 1}}', "observations.0.mix.1"),
    ],
)
def test_what_a_file_gets_wrong_is_named(tmp_path: Path, observation: str, field: str) -> None:
    path = tmp_path / "seen.json"
    path.write_text(f'{{"gpuyard": "interference/1", "observations": [{observation}]}}')
    with pytest.raises(InputError, match=rf"seen.json, field {field}\b"):
        read_observations(path)


def test_means_alone_are_those_of_the_whole_answer() -> None:
    model = taught((HEAVY, LIGHT._replace(batch=2.0)), 0.1, 0.9, times=2)
    for mix in ((HEAVY, LIGHT), (HEAVY, HEAVY, OTHER), (LIGHT,)):
        assert model.means(mix) == pytest.approx([each.mean for each in model.slowdowns(mix)])


def test_what_is_measured_again_makes_a_mean_surer_and_is_told_each_time_it_has_doubled() -> None:
    means = MixMeans()
    told = []
    for slowdown in (0.2, 0.4, 0.6, 0.4):
        means.add(Observation((HEAVY, LIGHT), (0,), slowdown, error=0.1))
        told.append(means.model.observations[0])
    assert [each.slowdown for each in told] == pytest.approx([0.2, 0.3, 0.3, 0.4])
    assert [each.error for each in told] == pytest.approx([0.1, 0.1 / 2**0.5, 0.1 / 2**0.5, 0.05])
