"""What a program is told when ranks do not come together."""

import pytest

from .conftest import Results


def test_a_lost_rank_is_named_to_those_who_wait_for_it(computed: Results) -> None:
    kind, message = computed[0]["lost"]
    assert kind == "DistBackendError"
    assert "rank 1 ended before it could join all_reduce" in message


def test_a_rank_that_does_not_come_is_not_waited_for_forever(computed: Results) -> None:
    assert "rank 1 did not join all_reduce number 0 within 0.5 s" in computed[0]["late"][1]


def test_ranks_that_call_different_things_are_told_so(computed: Results) -> None:
    message = computed[0]["mismatch"][1]
    assert "Rank 0 is running all_reduce of 4 bytes, but rank 1 is running all_reduce of 8 bytes" in message


def test_models_that_differ_are_refused(computed: Results) -> None:
    assert "params[0] in this process with sizes [3, 2] appears not to match" in computed[1]["shapes"][1]


def test_two_ranks_on_one_gpu_are_refused_as_by_nccl(computed: Results) -> None:
    kind, message = computed[0]["same gpu"]
    assert kind == "DistBackendError"
    assert "Duplicate GPU detected" in message


def test_unused_parameters_are_a_mistake_unless_announced(computed: Results) -> None:
    assert "find_unused_parameters=True" in computed[0]["not all used"][1]


@pytest.mark.parametrize("sharded", ["fsdp", "functional"])
def test_sharded_models_are_refused_in_one_sentence(computed: Results, sharded: str) -> None:
    kind, message = computed[0][sharded]
    assert kind == "NotImplementedError"
    assert "use torch.nn.parallel.DistributedDataParallel" in message
