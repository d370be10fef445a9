"""DistributedDataParallel on emulated GPUs: right gradients, exchanged while the GPU computes."""

import pytest

from gpuyard.emulation.collectives import gpu_link, seconds
from gpuyard.profiles.gpus import find_gpu

from .conftest import Results

LAYER_BYTES = 2048 * 4096 * 4
EXCHANGE_MS = 1e3 * seconds("all_reduce", LAYER_BYTES, 2, gpu_link(find_gpu("V100")))


@pytest.mark.parametrize(
    "way",
    [
        "plain",
        "as views",
        "small buckets",
        "static graph",
        "unused",
        "unused as views",
        "no_sync",
        "no_sync alone",
        "sync batch norm",
        "running mean",
        "model on the host",
    ],
)
def test_gradients_are_the_average_of_all_ranks(computed: Results, way: str) -> None:
    assert max(rank[way] for rank in computed) < 1e-5


def test_hooks_change_how_gradients_are_exchanged(computed: Results) -> None:
    assert 1e-6 < max(rank["fp16 hook"] for rank in computed) < 1e-2


def test_ranks_with_fewer_inputs_wait_for_the_others(computed: Results) -> None:
    assert [rank["join"] for rank in computed] == [2, 5]


def test_a_checkpoint_has_the_usual_names(computed: Results) -> None:
    assert computed[0]["keys"] == ["module.0.bias", "module.0.weight"]


def test_models_on_the_host_keep_the_original(computed: Results) -> None:
    assert computed[0]["reducer on the host"] == "torch._C._distributed_c10d"


def last_to_arrive(found: Results, name: str) -> float:
    return min(float(rank[name]) for rank in found)


def test_the_first_step_exchanges_everything_at_its_end(timed: Results) -> None:
    first = min(rank["together"][0] for rank in timed)
    assert first == pytest.approx(last_to_arrive(timed, "alone") + 4 * EXCHANGE_MS, abs=1.5)


def test_later_steps_hide_all_but_the_last_bucket(timed: Results) -> None:
    later = min(rank["together"][-1] for rank in timed)
    assert later == pytest.approx(last_to_arrive(timed, "alone") + EXCHANGE_MS, abs=1.5)


def test_one_wait_per_pass_hides_as_much(timed: Results) -> None:
    later = min(rank["together"][-1] for rank in timed)
    assert last_to_arrive(timed, "one wait per pass") == pytest.approx(later, abs=1.5)


def test_buckets_take_the_memory_of_all_gradients(timed: Results) -> None:
    assert timed[0]["memory of buckets"] == 4 * LAYER_BYTES
    assert timed[0]["memory with gradients"] == pytest.approx(8 * LAYER_BYTES, rel=0.01)


def test_gradients_that_are_views_of_buckets_take_no_memory(timed: Results) -> None:
    assert timed[0]["memory with views"] == pytest.approx(4 * LAYER_BYTES, rel=0.01)


def test_without_a_backend_it_is_nccl(computed: Results) -> None:
    assert computed[0]["backend"] == "nccl"
