"""One registry for each kind of policy: shipped, from a package, or from a file, with options behind the name."""

from pathlib import Path

import pytest

from gpuyard.core.errors import InputError
from gpuyard.policies.allocate.opt import Opt
from gpuyard.policies.allocate.tune import Tune
from gpuyard.policies.order.las import las
from gpuyard.policies.placement import SHIPPED
from gpuyard.policies.placement.best_fit import BestFit
from gpuyard.policies.registry import ALLOCATIONS, KINDS, ORDERS, PLACEMENTS, TIMESHARES
from gpuyard.policies.resolve import resolve
from gpuyard.policies.timeshare import Spatial

SOURCE = Path(__file__).resolve().parents[2] / "src" / "gpuyard" / "policies"


def test_every_kind_of_the_design_has_its_registry() -> None:
    assert set(KINDS) == {"order", "allocate", "placement", "partition", "multiplex", "timeshare", "launch"}


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_what_is_shipped_can_be_found_and_is_of_its_kind(kind: object) -> None:
    for name in kind.names:  # type: ignore[attr-defined]
        assert kind.is_one(kind.find(name))  # type: ignore[attr-defined]
        assert any(folder.is_dir() for folder in SOURCE.rglob(kind.name))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("kind", "written", "found"),
    [
        (ORDERS, "LAS", las),
        (ALLOCATIONS, "tune", Tune()),
        (ALLOCATIONS, "tune:placement=first-fit", Tune("first-fit")),
        (ALLOCATIONS, "opt:time_limit=1m,placement=consolidating", Opt("consolidating", 60.0)),
        (TIMESHARES, "spatial:capacity=2,interference=0.5", Spatial(2.0, 0.5)),
    ],
)
def test_options_stand_behind_the_name(kind: object, written: str, found: object) -> None:
    assert kind.find(written) == found  # type: ignore[attr-defined]


def test_placements_are_found_too() -> None:
    assert isinstance(PLACEMENTS.find("best-fit"), BestFit)
    assert PLACEMENTS.names == SHIPPED


def test_an_option_behind_the_name_goes_before_one_beside_it() -> None:
    assert ALLOCATIONS.find("tune:placement=first-fit", placement="consolidating") == Tune("first-fit")
    assert resolve("fifo+tune", placement="consolidating").allocate == Tune("consolidating")


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("fifo+tun", "'tun' is not an allocation. Did you mean 'tune'"),
        ("fiffo+tune", "'fiffo' is not an order. Did you mean 'fifo'"),
        ("fifo+tune:place=first-fit", "'place' is not an option of tune"),
        ("fifo+tune:placement=first", "'first' is not a placement. Did you mean 'first-fit'"),
        ("fifo:slack=2+tune", "'slack' is not an option of fifo"),
        ("fifo+opt:time_limit=-1", "time_limit"),
        ("fifo+tune:placement=nowhere.py:Mine", "nowhere.py, field placement: 'nowhere.py:Mine' no such file"),
        ("fifo", "is not ORDER+ALLOCATE"),
        ("tune:placement=nowhere.py:Mine", "is not ORDER+ALLOCATE"),
        ("fifo+tune+opt", "is not ORDER+ALLOCATE"),
        ("", "is not ORDER+ALLOCATE"),
    ],
)
def test_wrong_names_and_options_get_one_line(policy: str, message: str) -> None:
    with pytest.raises(InputError, match=r"policy|allocate|order|placement") as refusal:
        resolve(policy)
    assert message in str(refusal.value)


@pytest.mark.parametrize("allocate", ["proportional", "greedy", "tune", "opt"])
def test_an_option_takes_a_placement_of_one_s_own(allocate: str) -> None:
    roomiest = f"{SOURCE.parents[2] / 'examples' / 'yard_policies.py'}:Roomiest"
    found = resolve(f"fifo+{allocate}:placement={roomiest}")
    beside = resolve(f"fifo+{allocate}", placement=roomiest)
    for policy in (found, beside):
        assert type(policy.allocate.placement).__name__ == "Roomiest"  # type: ignore[attr-defined]
    assert found.name == f"fifo+{allocate}:placement=Roomiest"


def test_a_policy_of_one_s_own_may_have_options(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\n"
        "from gpuyard.policies.allocate.tune import Tune\n"
        "from gpuyard.policies.naming import Quantity, option\n"
        "@dataclass(frozen=True)\n"
        "class Mine(Tune):\n"
        "    weight: float = option('weight', 1.0, Quantity('is not a weight'))\n"
    )
    found = resolve(f"fifo+{file}:Mine:weight=2.5")
    assert found.name == "fifo+Mine:weight=2.5"
    assert found.allocate.weight == 2.5  # type: ignore[attr-defined]
