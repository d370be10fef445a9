"""What operations cost: fitted to measurements where there are some, from the data sheet elsewhere."""

from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import get_args

import polars as pl
import pytest

from benchmarks.zoo.operations import SUFFIXES, write_operations
from benchmarks.zoo.tables import read_table
from gpuyard.profiles import GpuKind, OperationClass, OperationCosts, Work, find_gpu, gpu_kinds, operation_costs
from gpuyard.profiles.costs import roofline
from gpuyard.profiles.operation_files import BUNDLED
from gpuyard.profiles.operations import PassDirection, default_flops
from gpuyard.profiles.reading import load_yaml

C = OperationClass
MEASURED = [kind for kind in gpu_kinds() if kind.measured]
PHASES: tuple[PassDirection, ...] = get_args(PassDirection)
GPT2_LAYER = Work(C.MATMUL, flops=2 * 8192 * 768 * 3072, bytes=4 * (8192 * 768 + 768 * 3072 + 8192 * 3072))


@pytest.mark.parametrize("kind", gpu_kinds(), ids=lambda kind: kind.key)
def test_nothing_is_free_and_nothing_beats_the_data_sheet(kind: GpuKind) -> None:
    costs = operation_costs(kind)
    for phase, operation, precision in product(PHASES, C, ["fp32", "fp16", "int8"]):
        winograd = 2.25 if operation == C.CONV_3X3 and "tf32" not in kind.flops else 1
        peak = max(kind.flops_at(precision), default_flops(kind, operation) * winograd)
        compute = costs.seconds(Work(operation, 1e12, 0, precision=precision), phase)
        memory = costs.seconds(Work(operation, 0, 1e9, precision=precision), phase)
        assert compute >= 1e12 / peak * 0.999
        assert memory >= 1e9 / kind.bandwidth * 0.999
        assert costs.seconds(Work(operation, 0, 0), phase) >= kind.kernel_floor_s


def test_measured_kinds_have_fitted_costs_and_the_others_a_roofline() -> None:
    for kind in gpu_kinds():
        costs = operation_costs(kind)
        assert costs.origin == ("op-class" if kind.measured else "roofline")
        assert 0 < costs.expected_error < costs.expected_error_p90 < 1
    assert operation_costs(find_gpu("H100")).expected_error > operation_costs(find_gpu("A100")).expected_error


def test_the_roofline_is_the_slower_of_compute_and_memory() -> None:
    kind = find_gpu("T4")
    costs = roofline(kind)
    assert costs.seconds(Work(C.MATMUL, 0.7 * 8.1e12, 1, 0), "forward") == pytest.approx(1)
    assert costs.seconds(Work(C.MATMUL, 1, 0.75 * 320e9, 0), "backward") == pytest.approx(1)
    assert costs.seconds(Work(C.MATMUL, 0.7 * 65e12, 1, 0, "fp16"), "forward") == pytest.approx(1)
    assert costs.seconds(Work(C.ELEMENTWISE, 0, 0, 10), "forward") == pytest.approx(30e-6)


@pytest.mark.parametrize("kind", gpu_kinds(), ids=lambda kind: kind.key)
def test_a_large_matrix_product_reaches_most_of_the_peak(kind: GpuKind) -> None:
    rate = GPT2_LAYER.flops / operation_costs(kind).seconds(GPT2_LAYER, "forward")
    assert 0.4 < rate / kind.flops_at("fp32") <= 0.7


def test_fp32_convolutions_run_in_tf32_where_there_is_one_and_matrix_products_do_not() -> None:
    a100 = operation_costs(find_gpu("A100"))
    conv, matmul = (a100.seconds(Work(kind, 1e13, 1e6), "forward") for kind in (C.CONV_3X3, C.MATMUL))
    assert matmul > 5 * conv
    assert a100.seconds(Work(C.CONV_3X3, 1e13, 1e6, precision="tf32"), "forward") == conv
    assert a100.seconds(Work(C.MATMUL, 1e13, 1e6, precision="tf32"), "forward") < matmul / 5


@pytest.mark.parametrize("operation", [C.CONV_3X3, C.MATMUL, C.ATTENTION])
def test_lower_precision_pays_where_the_gpu_has_it(operation: C) -> None:
    def speedup(gpu: str, precision: str) -> float:
        costs = operation_costs(find_gpu(gpu))
        full, low = (costs.seconds(Work(operation, 1e13, 1, precision=name), "forward") for name in ("fp32", precision))
        return full / low

    assert 2 < speedup("V100", "fp16") <= 8
    assert speedup("V100", "bf16") == 1
    assert speedup("K80", "fp16") == 1
    assert speedup("H100", "bf16") > 1.9
    assert speedup("RTX6000", "fp64") < 0.1


@pytest.mark.parametrize("kind", MEASURED, ids=lambda kind: kind.key)
def test_fitted_costs_explain_the_measured_steps(kind: GpuKind, shared_data: Path) -> None:
    folder = shared_data / "gpemu"
    steps = read_table(folder, "compute_time.csv").filter(pl.col("measured") == 1, pl.col("gpu") == kind.key)
    rows = steps.join(read_table(folder, "op_features.csv"), on=["model", "batch_size"]).to_dicts()
    costs = operation_costs(kind)
    errors = [abs(_step(costs, row) / (row["forward_s"] + row["backward_s"]) - 1) for row in rows]
    assert len(errors) >= 120
    assert sum(errors) / len(errors) < 0.13


def _step(costs: OperationCosts, row: dict[str, float]) -> float:
    """Price a whole step; the table has its work by class, but bytes of convolutions in one sum."""
    seconds = 0.0
    for phase in PHASES:
        suffix = SUFFIXES[phase]
        of = {name.removesuffix(suffix): row[name] for name in row if name.endswith(suffix)}
        parts = [
            *[Work(C.CONV_3X3, of["conv3_fl"], of["conv_by"], 0), Work(C.CONV_1X1, of["conv1_fl"], 0, 0)],
            *[Work(C.CONV_OTHER, of["convk_fl"], 0, 0), Work(C.CONV_GROUPED, 0, of["gconv_by"], 0)],
            *[Work(C.MATMUL, of["mm_fl"], 0, 0), Work(C.NORM, 0, of["bn_by"], 0)],
            Work(C.ELEMENTWISE, 0, of["ew_by"], int(of["n"])),
        ]
        seconds += sum(costs.seconds(part, phase) for part in parts)
    return seconds


def test_the_bundled_file_is_what_the_tables_give(shared_data: Path, tmp_path: Path) -> None:
    write_operations(shared_data / "gpemu", tmp_path / BUNDLED)
    written = (tmp_path / BUNDLED).read_text(encoding="utf-8")
    bundled = files("gpuyard.profiles").joinpath("zoo", BUNDLED).read_text(encoding="utf-8")
    # Another machine's linear algebra may round the last digit differently.
    assert dict(_leaves(load_yaml(written, "written"))) == pytest.approx(
        dict(_leaves(load_yaml(bundled, "bundled"))), rel=0.02
    )


def _leaves(content: object, name: str = "") -> list[tuple[str, float]]:
    if isinstance(content, dict):
        return [leaf for key, part in content.items() for leaf in _leaves(part, f"{name}.{key}")]
    assert isinstance(content, int | float)
    return [(name, float(content))]
