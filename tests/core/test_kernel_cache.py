"""Where compiled code is kept: never where others can write, and one folder for each state of the source."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.import_rules import Source
from tests.test_layers import SOURCE

from gpuyard.core.kernel_cache import KEPT_S, VARIABLE, KernelCache, fingerprint, open_cache, sources, tidy
from gpuyard.core.private_folders import is_private

ME = os.getuid()


@pytest.fixture(autouse=True)
def _restored_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A temporary cache is told to workers by a variable of this process."""
    monkeypatch.setenv(VARIABLE, "")
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with a kernel whose constant comes from a file two imports away."""
    files = {
        "policies/loops.py": "from gpuyard.core.units import QUANTUM\n\n\n@kernel\ndef loop(): ...\n",
        "core/units.py": "from gpuyard.profiles import (\n    QUANTUM,\n)\n",
        "profiles/__init__.py": "from gpuyard.profiles.constants import QUANTUM\n",
        "profiles/constants.py": "QUANTUM = 1024\n",
        "cli/other.py": "from gpuyard.policies.loops import loop\n",
    }
    for name, text in files.items():
        (tmp_path / "package" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "package" / name).write_text(text)
    return tmp_path / "package"


def without_room(package: Path) -> Path:
    """The package where nothing can be written, for root neither."""
    (package / "__pycache__").write_text("")
    return package


def folder_of(package: Path, **environment: object) -> Path:
    return open_cache(package, {name: str(value) for name, value in environment.items()}).folder


def test_a_constant_in_a_file_without_kernels_changes_the_folder(package: Path) -> None:
    before = fingerprint(package)
    assert fingerprint(package) == before
    (package / "profiles" / "constants.py").write_text("QUANTUM = 1025\n")
    assert fingerprint(package) != before


def test_a_line_that_moves_to_another_file_changes_the_folder(package: Path) -> None:
    before = fingerprint(package)
    (package / "profiles" / "constants.py").rename(package / "profiles" / "renamed.py")
    assert fingerprint(package) != before


def test_a_file_that_no_kernel_can_read_does_not(package: Path) -> None:
    before = fingerprint(package)
    (package / "cli" / "other.py").write_text("OTHER = 1\n")
    assert fingerprint(package) == before


def test_nothing_that_gpuyard_s_kernels_import_is_missed() -> None:
    """Against the syntax tree, which knows every form of import."""
    read = set(sources(SOURCE / "gpuyard"))
    assert SOURCE / "gpuyard" / "core" / "kernel.py" in read
    source = Source(SOURCE)
    for each in (module for module in source.modules.values() if module.path in read):
        for found, module in source.imported(each):
            place = SOURCE.joinpath(*module.split("."))
            known = place.with_suffix(".py") in read or place / "__init__.py" in read
            assert known or found.only_types, f"{each.path}: {module}"


def test_it_is_kept_in_the_package_where_that_can_be_written(package: Path, tmp_path: Path) -> None:
    folder = folder_of(package, HOME=tmp_path)
    assert folder.parent == package / "__pycache__"
    assert folder_of(package, HOME=tmp_path) == folder


def test_a_package_that_cannot_be_written_uses_the_user_s_cache(package: Path, tmp_path: Path) -> None:
    without_room(package)
    home, xdg = tmp_path / "home", tmp_path / "elsewhere"
    assert folder_of(package, HOME=home).parent == home / ".cache" / "gpuyard"
    assert folder_of(package, HOME=home, XDG_CACHE_HOME=xdg).parent == xdg / "gpuyard"
    assert folder_of(package, HOME=home, XDG_CACHE_HOME="not/absolute").parent == home / ".cache" / "gpuyard"


def test_folders_are_closed_to_others_whatever_the_umask(package: Path, tmp_path: Path) -> None:
    os.umask(0)
    folder = folder_of(without_room(package), HOME=tmp_path / "home")
    made = [folder, *folder.parents[:3]]
    assert made[-1] == tmp_path / "home"
    assert {path.stat().st_mode & 0o777 for path in made} == {0o700}


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_a_place_that_others_can_write_to_is_not_used(package: Path, tmp_path: Path, mode: int) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    cache = open_cache(without_room(package), {"XDG_CACHE_HOME": str(shared)})
    assert not cache.folder.is_relative_to(shared)
    assert not cache.lasting
    assert cache.folder.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("variable", [VARIABLE, "XDG_CACHE_HOME"])
@pytest.mark.parametrize(("mode", "safe"), [(0o777, False), (0o775, False), (0o1777, True), (0o755, True)])
def test_a_folder_that_others_could_exchange_for_their_own_is_not_used(
    package: Path, tmp_path: Path, variable: str, mode: int, safe: bool
) -> None:
    """Who may write above it may rename it, and put another under its name once it has been looked at."""
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(mode)
    folder = folder_of(without_room(package), **{variable: above / "mine"})
    assert folder.is_relative_to(above) is safe


def test_a_folder_that_cannot_be_found_is_passed_over(package: Path, tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert folder_of(package, **{VARIABLE: loop / "mine"}).parent == package / "__pycache__"


def test_workers_find_the_temporary_folder_of_their_parent(package: Path) -> None:
    cache = open_cache(without_room(package), {})
    assert folder_of(package, **{VARIABLE: os.environ[VARIABLE]}) == cache.folder


@pytest.mark.parametrize(
    ("mode_above", "mode", "safe"),
    [(0o700, 0o700, True), (0o755, 0o700, True), (0o755, 0o755, False), (0o775, 0o700, False), (0o757, 0o700, False)],
)
def test_who_may_write_decides(tmp_path: Path, mode_above: int, mode: int, safe: bool) -> None:
    folder = tmp_path / "above" / "kernels"
    folder.mkdir(parents=True)
    folder.chmod(mode)
    folder.parent.chmod(mode_above)
    assert is_private(folder, tmp_path, ME) is safe


def test_a_folder_of_another_user_is_not_safe(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir(0o700)
    assert is_private(tmp_path / "kernels", tmp_path, ME)
    assert not is_private(tmp_path / "kernels", tmp_path, ME + 1)


def test_a_link_is_not_safe(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(0o700)
    (tmp_path / "kernels").symlink_to(tmp_path / "real")
    assert not is_private(tmp_path / "kernels", tmp_path, ME)


def test_a_folder_outside_the_top_is_not_safe(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir(0o700)
    (tmp_path / "top").mkdir(0o700)
    assert not is_private(tmp_path / "kernels", tmp_path / "top", ME)


def aged(folder: Path, seconds: float) -> Path:
    """A folder of compiled code that was last used so long ago."""
    folder.mkdir(exist_ok=True)
    (folder / "used").touch()
    os.utime(folder / "used", times=(time.time() - seconds,) * 2)
    return folder


def test_two_states_of_the_source_keep_their_code_side_by_side(package: Path, tmp_path: Path) -> None:
    first = folder_of(package, HOME=tmp_path)
    (package / "core" / "units.py").write_text("QUANTUM = 1\n")
    second = folder_of(package, HOME=tmp_path)
    assert first != second
    assert first.is_dir()


def test_code_that_nobody_used_for_a_month_is_removed(tmp_path: Path) -> None:
    old, recent = aged(tmp_path / "kernels-old", KEPT_S + 60), aged(tmp_path / "kernels-recent", KEPT_S - 3600)
    mine = aged(tmp_path / "kernels-mine", KEPT_S + 60)
    other = aged(tmp_path / "something-else", KEPT_S + 60)
    tidy(tmp_path, mine)
    assert not old.exists()
    assert [path.is_dir() for path in (recent, mine, other)] == [True, True, True]


def test_using_code_keeps_it(tmp_path: Path) -> None:
    folder = aged(tmp_path / "kernels-old", KEPT_S + 60)
    os.close(KernelCache(folder, lasting=True)._in_use)
    tidy(tmp_path, tmp_path / "kernels-mine")
    assert folder.is_dir()


def test_code_in_use_is_not_removed_however_long_it_takes(tmp_path: Path) -> None:
    folder = aged(tmp_path / "kernels-old", 0.0)
    cache = KernelCache(folder, lasting=True)
    aged(folder, KEPT_S + 60)
    tidy(tmp_path, tmp_path / "kernels-mine")
    assert folder.is_dir()
    os.close(cache._in_use)
    tidy(tmp_path, tmp_path / "kernels-mine")
    assert not folder.exists()


def test_what_is_ready_is_remembered(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path, lasting=True)
    assert not cache.has("fifo+tune")
    cache.note("fifo+tune")
    assert KernelCache(tmp_path, lasting=True).has("fifo+tune")
    assert not cache.has("las+tune")
