"""Several processes write runs into one folder; some are killed at the worst moment."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuyard.core.errors import InputError
from gpuyard.results import Run, check_writable, load_run, reservation, reserve, reserve_next
from gpuyard.results.locks import is_abandoned, only_one
from gpuyard.results.name_locks import NameLock, lock_name

from .builder import three_jobs

Saves = Callable[[Run, Path], object]

SAVE_MANY = """
import sys
from gpuyard.results import load_run, reserve, reserve_next, Run
source, target, who, times, how = sys.argv[1:]
run = load_run(source)
print("ready", flush=True)
sys.stdin.readline()
for turn in range(int(times)):
    own = Run(run.info | {"seed": f"{who}:{turn}"}, run.tables, run.summary)
    if how == "next":
        with reserve_next(target) as place:
            own.save(place)
    elif how == "give up":
        with reserve_next(target):
            pass
    else:
        own.save(target, overwrite=True)
"""

KILLED = """
import os, re, signal, sys
from gpuyard.results import load_run
source, target, event, pattern, overwrite, then = sys.argv[1:]
run = load_run(source)

def at_that_moment(name, arguments):
    if name == event and re.search(pattern, " ".join(map(str, arguments[:2]))):
        if then == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        print("waiting", flush=True)
        sys.stdin.readline()

sys.addaudithook(at_that_moment)
run.save(target, overwrite=overwrite == "yes")
"""

WORKING = """
import sys
from gpuyard import results
how, target = sys.argv[1:]
with getattr(results, how)(target):
    print("working", flush=True)
    sys.stdin.readline()
"""

Moment = tuple[str, str]
"""What the process is about to do: an event of Python's, and what its arguments look like."""

GETS_ITS_NAME = ("os.rename", r"\.partial \S*/new$")
MOMENTS: dict[str, Moment] = {
    "before the first file": ("os.link", r" run.json$"),
    "in the middle": ("os.link", r" timeline.parquet$"),
    "before it gets its name": GETS_ITS_NAME,
}


def together(source: Path, target: Path, how: str, *, processes: int = 4, times: int = 12) -> None:
    """Save from several processes that start at the same moment."""
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", SAVE_MANY, str(source), str(target), str(who), str(times), how],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        for who in range(processes)
    ]  # fmt: skip
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write(b"go\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate()
    assert [worker.returncode for worker in workers] == [0] * processes


def stopped(source: Path, target: Path, moment: Moment, overwrite: bool, then: str) -> list[str]:
    """The command that saves, and dies or waits at a moment."""
    yes = "yes" if overwrite else "no"
    return [sys.executable, "-c", KILLED, str(source), str(target), *moment, yes, then]


def killed(source: Path, target: Path, moment: Moment, *, overwrite: bool = False) -> None:
    """Save in a process that is killed at a moment."""
    command = stopped(source, target, moment, overwrite, "die")
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == -9, done.stderr


@pytest.fixture
def source(tmp_path: Path) -> Path:
    three_jobs(seed=1).save(tmp_path / "source")
    return tmp_path / "source"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_no_two_processes_choose_the_same_name(source: Path, out: Path) -> None:
    together(source, out / "fast", "next")
    runs = [load_run(out / name) for name in names(out)]
    assert len({run.info["seed"] for run in runs}) == len(runs) == 4 * 12
    assert {run.path.name for run in runs if run.path} == {"fast", *(f"fast-{number}" for number in range(2, 49))}


def test_processes_that_replace_one_run_leave_one_whole_run(source: Path, out: Path) -> None:
    together(source, out / "fast", "replace")
    assert names(out) == ["fast"]
    assert load_run(out / "fast").info["seed"].endswith(":11")


def test_a_name_is_taken_from_the_start_and_free_when_given_up(out: Path) -> None:
    with reserve_next(out / "fast") as first, reserve_next(out / "fast") as second:
        assert (first.target.name, second.target.name) == ("fast", "fast-2")
        with pytest.raises(InputError, match="fast: is being written by another process"):
            three_jobs().save(out / "fast")
        assert list(out.glob("fast*")) == [], "a pattern finds no unfinished run"
    assert names(out) == []
    three_jobs().save(out / "fast")


@pytest.mark.parametrize("folder", ["", "new", "new/folders"])
def test_a_failure_between_reserving_and_saving_leaves_nothing(out: Path, folder: str) -> None:
    with pytest.raises(ZeroDivisionError), reserve(out / folder / "fast"):
        _ = 1 / 0
    assert names(out) == []


def test_a_new_folder_stays_when_another_run_is_in_it(out: Path) -> None:
    with reserve(out / "new" / "fast"):
        three_jobs().save(out / "new" / "other")
    assert names(out / "new") == ["other"]


def test_processes_that_make_and_remove_a_folder_do_not_get_into_each_others_way(source: Path, out: Path) -> None:
    together(source, out / "new" / "fast", "give up", times=200)
    assert not [path for path in out.rglob("*") if path != out / "new"], "at most the empty folder is left"


def test_a_folder_that_is_made_anew_while_somebody_waits_for_it_is_locked_itself(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, times = fcntl.flock, iter(range(1))

    def replaced(handle: int, kind: int) -> None:
        if next(times, None) is not None:
            out.rename(out.with_name("former"))
            out.mkdir()
        lock(handle, kind)

    monkeypatch.setattr(fcntl, "flock", replaced)
    with only_one(out):
        assert not is_abandoned(out), "somebody else could have locked it, too"
    assert is_abandoned(out)


def test_a_folder_that_is_gone_a_moment_later_is_made_again(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mkdir, removals = os.mkdir, iter(range(3))

    def gone(path: Path, mode: int = 0o777) -> None:
        if Path(path) == out / "new" and next(removals, None) is not None:
            raise FileExistsError(errno.EEXIST, "File exists", str(path))
        mkdir(path, mode)

    monkeypatch.setattr(os, "mkdir", gone)
    three_jobs().save(out / "new" / "fast")
    assert next(removals, None) is None
    assert names(out / "new") == ["fast"]


@pytest.mark.parametrize("how", ["reserve", "reserve_next"])
@pytest.mark.parametrize("folder", [".", "new/folders"])
def test_a_kill_between_reserving_and_saving_leaves_nothing(out: Path, how: str, folder: str) -> None:
    target = out / folder / "fast"
    with subprocess.Popen(
        [sys.executable, "-c", WORKING, how, str(target)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"working\n"
        assert names(out) == [], "nor is there anything before"
        with pytest.raises(InputError, match="fast: is being written by another process"), reserve(target):
            pass
        process.kill()
    assert names(out) == []
    three_jobs().save(target)


def test_a_name_that_somebody_takes_at_the_last_moment_is_theirs(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def after_them(target: Path) -> NameLock | None:
        if target.name == "fast":
            target.mkdir()
        return lock_name(target)

    monkeypatch.setattr(reservation, "lock_name", after_them)
    with reserve_next(out / "fast") as place:
        assert place.target.name == "fast-2"


def test_a_name_that_was_given_up_is_free_although_a_forked_process_lives(out: Path) -> None:
    with reserve(out / "fast"):
        context = multiprocessing.get_context("fork")
        end = context.Event()
        child = context.Process(target=end.wait)
        child.start()
    with reserve(out / "fast"):
        assert child.is_alive()
    end.set()
    child.join()


def test_where_no_lock_can_be_kept_both_runs_are_written(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is between users, and between machines: nobody sees the other's locks."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    with reserve_next(out / "fast") as first, reserve_next(out / "fast") as second:
        assert first.target == second.target
        for place, seed in ((first, 1), (second, 2)):
            three_jobs(seed=seed).save(place)
    assert [load_run(out / name).info["seed"] for name in ("fast", "fast-2")] == [1, 2]
    with reserve(out / "new") as mine:
        three_jobs().save(out / "new")
        with pytest.raises(InputError, match="new: already holds a run"):
            three_jobs().save(mine)
    assert names(out) == ["fast", "fast-2", "new"]


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_what_a_kill_leaves_is_no_run_and_the_next_save_clears_it(source: Path, out: Path, moment: Moment) -> None:
    killed(source, out / "new", moment)
    assert [re.sub("-[0-9a-f]{8}", "", name) for name in names(out)] == [".new.partial"]
    with pytest.raises(InputError, match="no such run folder"):
        load_run(out / "new")
    three_jobs().save(out / "another")
    assert names(out) == ["another"]


def test_a_kill_while_files_are_written_leaves_nothing(source: Path, out: Path) -> None:
    killed(source, out / "fast", ("os.mkdir", r"/\.fast\S*partial "))
    assert names(out) == []


def test_where_files_need_names_runs_are_written_all_the_same(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is over NFS, for one."""
    opened = os.open

    def named_only(path: Path, flags: int, *args: int, **more: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported", str(path))
        return opened(path, flags, *args, **more)

    monkeypatch.setattr(os, "open", named_only)
    with reserve_next(out / "new/fast") as place:
        assert names(out) == [], "nor is there anything of having tried it out"
        assert three_jobs().save(place).path == out / "new/fast"
    assert load_run(out / "new/fast").tables.keys() == three_jobs().tables.keys()


@pytest.mark.parametrize("long", ["x" * 250, "y" * 300 + "/fast"])
def test_a_name_that_is_too_long_is_found_out_before_the_work(out: Path, long: str) -> None:
    with pytest.raises(InputError, match="no run can be written there: File name too long"), reserve(out / long):
        pytest.fail("should not come so far")


def test_the_name_of_a_killed_process_is_free_again(source: Path, out: Path) -> None:
    killed(source, out / "new", MOMENTS["in the middle"])
    with reserve_next(out / "new") as place:
        assert three_jobs().save(place).path == out / "new"
    assert names(out) == ["new"]


@pytest.mark.parametrize(
    "moment",
    [("os.link", r" jobs.parquet$"), ("os.rename", r"/new \S*\.old\.partial$"), GETS_ITS_NAME],
    ids=["while writing", "before the old run goes aside", "after it"],
)
def test_a_kill_while_a_run_is_replaced_keeps_the_old_run(source: Path, out: Path, moment: Moment) -> None:
    three_jobs(seed=7).save(out / "new")
    killed(source, out / "new", moment, overwrite=True)
    three_jobs().save(out / "another")
    assert names(out) == ["another", "new"]
    assert load_run(out / "new").info["seed"] == 7


def test_nobody_else_touches_the_folder_while_one_run_takes_the_place_of_another(source: Path, out: Path) -> None:
    three_jobs(seed=7).save(out / "new")
    with subprocess.Popen(
        stopped(source, out / "new", GETS_ITS_NAME, True, "wait"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"waiting\n"
        assert not is_abandoned(out)
        process.communicate(b"go on\n")
    assert is_abandoned(out)
    assert load_run(out / "new").info["seed"] == 1


def test_what_is_not_of_gpuyard_is_never_cleared(out: Path) -> None:
    (out / ".mine.partial").mkdir()
    (out / ".mine.partial" / "notes.txt").write_text("mine")
    (out / ".file.partial").write_text("mine")
    three_jobs().save(out / "a")
    assert names(out) == [".file.partial", ".mine.partial", "a"]


def test_a_folder_that_can_be_written_shows_no_trace_of_the_question(tmp_path: Path) -> None:
    check_writable(tmp_path / "not" / "there" / "yet")
    check_writable(tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize("make", [lambda run, out: run.save(out / "a"), lambda _, out: check_writable(out)])
@pytest.mark.parametrize("place", ["a file", "a folder of the system"])
def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, place: str, make: Saves) -> None:
    (tmp_path / "file").write_text("mine")
    out = tmp_path / "file" if place == "a file" else Path("/proc/self")
    with pytest.raises(InputError, match=f"{out}.*: no run can be written there: .*Name another folder"):
        make(three_jobs(), out)
