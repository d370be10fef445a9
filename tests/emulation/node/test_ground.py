"""What Python and C have in common is the same on both sides."""

import ctypes
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import examples
from tests.emulation.monitors.job import WINDOW_S
from tests.emulation.node.places import NATIVE, places

from gpuyard.emulation.node import ground as declared
from gpuyard.emulation.node.ground import ClaimRecord, Fault, Figure, ground
from gpuyard.emulation.node.policy_codes import codes, read_sharing, written_sharing
from gpuyard.policies.timeshare import (
    TIME_SHARINGS,
    Exclusive,
    FirstComeFirstServed,
    Priority,
    PromisedShares,
    Spatial,
    TimeSharing,
    TimeSlice,
)

HEADER = (NATIVE / "node" / "node.h").read_text()
SEGMENT_HEADER = (NATIVE / "node" / "segment.h").read_text()


@pytest.mark.parametrize(
    ("record", "name", "last"),
    [
        (declared.SharingRecord, "sharing", "interference"),
        (declared.ClaimRecord, "claim", "ticket"),
        (declared.DescriptionRecord, "description", "gpu_count"),
        (declared.TermsRecord, "terms", "memory_limit"),
        (declared.LineRecord, "line", "busy"),
        (declared.ClientRecord, "client_view", "utilisation"),
        (declared.GpuViewRecord, "gpu_view", "clients"),
    ],
)
def test_structures_are_as_long_here_as_there(record: type[ctypes.Structure], name: str, last: str) -> None:
    assert ctypes.sizeof(record) == places()[name]
    assert getattr(record, last).offset == places()[f"{name}.{last}"]


def test_so_is_what_describes_a_gpu() -> None:
    assert ctypes.sizeof(declared.GpuRecord) == places()["about_gpu"]
    assert declared.GpuRecord.memory_mhz.offset == places()["gpu.memory_mhz"]


def test_fields_are_declared_in_the_same_order() -> None:
    """Most have 8 bytes, so lengths alone would not show two that are swapped."""
    for record, name in (
        (declared.ClientRecord, "client_view"),
        (declared.GpuViewRecord, "gpu_view"),
        (declared.LineRecord, "line"),
        (declared.TermsRecord, "terms"),
        (declared.GpuRecord, "gpu"),
        (declared.SharingRecord, "sharing"),
        (declared.DescriptionRecord, "description"),
    ):
        body = re.search(rf"struct gpuyard_{name} {{\n(.*?)\n}};", HEADER, re.DOTALL)
        assert body
        code = re.sub(r"/\*.*?\*/", "", body.group(1), flags=re.DOTALL)
        stated = re.findall(r"(\w+)(?:\[\w+\])?[,;]", code)
        assert stated == [field for field, *_ in record._fields_]


def test_every_error_and_figure_has_the_number_of_the_header() -> None:
    stated = dict(re.findall(r"GPUYARD_(?:ERROR_)?(\w+) = (-?\d+)", HEADER))
    for number in (*Fault, *Figure):
        assert int(stated[number.name]) == number


def test_every_error_says_something_of_its_own() -> None:
    numbers = [int(number) for number in re.findall(r"GPUYARD_ERROR_\w+ = (-?\d+)", HEADER)]
    texts = {ground().error_text(number) for number in numbers}
    assert len(texts) == len(numbers) > 20
    assert ground().error_text(-999) == b"unknown error"


def test_every_function_that_is_declared_here_is_declared_there() -> None:
    stated = set(re.findall(r"gpuyard_(\w+)\(", HEADER + SEGMENT_HEADER))
    assert {name for name in vars(ground()) if not name.startswith("_")} <= stated


def test_limits_are_those_of_the_header() -> None:
    stated = dict(re.findall(r"#define GPUYARD_(\w+) (\d+)\b", HEADER))
    for name in ("MOST_CLIENTS", "MOST_NAME_BYTES", "NAME_BYTES", "UUID_BYTES", "PATH_BYTES"):
        assert int(stated[name]) == getattr(declared, name)
    assert f"#define GPUYARD_WINDOW_S {WINDOW_S} " in HEADER, "tests work for as long as monitors look back"


def test_every_policy_keeps_its_number() -> None:
    names = {code: policy.name for code, policy in codes().items()}
    assert names == {0: "time-slice", 1: "fifo", 2: "priority", 3: "spatial", 4: "partition", 5: "exclusive"}
    assert set(codes().values()) == set(TIME_SHARINGS.values())


SPANS = st.floats(1e-6, 1.0)
SHARINGS = st.one_of(
    st.builds(TimeSlice, SPANS, st.floats(0.0, 1.0)),
    st.builds(Priority, SPANS, st.floats(0.0, 1.0)),
    st.builds(Spatial, st.floats(0.01, 8.0), st.floats(0.01, 1.0)),
    st.sampled_from([FirstComeFirstServed(), PromisedShares(), Exclusive()]),
)
CLAIMS = st.lists(
    st.builds(
        ClaimRecord,
        st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 1),
        st.floats(0.001, 1.0),
        st.floats(0.001, 1.0),
        st.integers(1, 4),
    ),
    min_size=1,
    max_size=64,
)


@settings(max_examples=examples(300))
@given(SHARINGS, CLAIMS)
def test_c_gives_the_rates_that_the_policy_states(sharing: TimeSharing, claims: list[ClaimRecord]) -> None:
    found = (ctypes.c_double * len(claims))()
    ground().rates(written_sharing(sharing), (ClaimRecord * len(claims))(*claims), len(claims), found)
    assert list(found) == pytest.approx(sharing.rates(claims), rel=1e-12, abs=0)


@given(SHARINGS)
def test_a_policy_is_read_as_it_was_written(sharing: TimeSharing) -> None:
    assert read_sharing(written_sharing(sharing)) == sharing
