"""Launches, copies and synchronisations of a program that knows nothing of the gate: jobs, caps, preemption."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.native.gate.driver.programs import run

from gpuyard.sharing.group import Group, Terms

GPU = "GPU-01010101-0101-0101-0101-010101010101"
"""The first of the driver's."""


def test_a_job_lasts_from_the_first_launch_to_the_synchronisation_of_all_streams(still: Path) -> None:
    shown = run(
        still,
        """
one, other = new_stream(), new_stream()
launch(one); launch(one); launch(other)
begun = mine()
cuda.cuStreamSynchronize(one)
half = mine()
cuda.cuStreamSynchronize(other)
done = mine()
show(begun=[begun.active, begun.queued], half=[half.active, half.queued],
     done=[done.active, done.queued, done.jobs_done], launches=done.launches)
""",
    )
    assert shown == {"begun": [True, 3], "half": [True, 1], "done": [False, 0, 1], "launches": 3}


@pytest.mark.parametrize(
    "end",
    [
        "cuda.cuCtxSynchronize()",
        "cuda.cuStreamSynchronize(None)",
        "cuda.cuStreamQuery(None) and (cuda.still_finish(None), cuda.cuStreamQuery(None))",
        "event = ctypes.c_void_p(); cuda.cuEventCreate(ctypes.byref(event), 0); cuda.cuEventRecord(event, None);"
        " cuda.cuEventSynchronize(event)",
        "cuda.cuMemcpyDtoH_v2(None, ctypes.c_uint64(0), ctypes.c_size_t(4))",
        "cuda.cuDevicePrimaryCtxReset_v2(0)",
    ],
)
def test_every_kind_of_synchronisation_ends_a_job(still: Path, end: str) -> None:
    shown = run(
        still, f"launch(); launch()\n{end}\nshow(active=mine().active, jobs=mine().jobs_done, queued=mine().queued)"
    )
    assert shown == {"active": False, "jobs": 1, "queued": 0}


@pytest.mark.parametrize("ask", ["cuEventSynchronize", "cuEventQuery"])
def test_an_event_ends_a_job_of_which_a_cap_has_waited_for_everything(still: Path, ask: str) -> None:
    """Or the job would go on for ever, and lower priorities with it wait."""
    shown = run(
        still,
        f"""
event = ctypes.c_void_p()
check(cuda.cuEventCreate(ctypes.byref(event), 0))
for _ in range(4): check(launch())
check(cuda.cuEventRecord(event, None))
before = [mine().active, mine().queued]
check(cuda.{ask}(event))
show(before=before, after=[mine().active, mine().jobs_done])
""",
        sync_every=4,
    )
    assert shown == {"before": [True, 0], "after": [False, 1]}


def test_a_query_that_finds_work_ends_nothing(still: Path) -> None:
    shown = run(
        still, "launch()\ncode = cuda.cuStreamQuery(None)\nshow(code=code, active=mine().active, n=mine().queued)"
    )
    assert shown == {"code": 600, "active": True, "n": 1}


def test_copies_memsets_and_graphs_are_launches(still: Path) -> None:
    shown = run(
        still,
        """
cuda.cuMemcpyHtoDAsync_v2(ctypes.c_uint64(0), None, ctypes.c_size_t(4), None)
cuda.cuMemsetD8_v2(ctypes.c_uint64(0), 0, ctypes.c_size_t(4))
cuda.cuGraphLaunch(None, None)
cuda.cuLaunchKernel_ptsz(ZERO, 1, 1, 1, 1, 1, 1, 0, None, ZERO, ZERO)
show(launches=mine().launches, done=count("launches"))
""",
    )
    assert shown == {"launches": 4, "done": 4}


def test_what_the_driver_calls_of_itself_is_counted_once(still: Path) -> None:
    shown = run(
        still,
        """
class Config(ctypes.Structure):
    _fields_ = [("sizes", ctypes.c_uint * 7), ("stream", ctypes.c_void_p), ("rest", ctypes.c_uint64 * 3)]
check(cuda.cuLaunchKernelEx(ctypes.byref(Config()), ZERO, ZERO, ZERO))
show(nested=count("nested"), launches=mine().launches)
""",
    )
    assert shown == {"nested": 1, "launches": 1}


def test_a_launch_that_fails_is_not_counted_and_leaves_no_job(still: Path) -> None:
    """Or whoever has a lower level would wait until the program synchronises, which has nothing to wait for."""
    shown = run(
        still,
        """
def fail():
    ctypes.c_int.in_dll(cuda, "still_next_result").value = 400
    return launch()
code, alone = fail(), mine().active
launch()
fail()
amid = mine().active
check(cuda.cuCtxSynchronize())
show(code=code, launches=mine().launches, queued=mine().queued, active=[alone, amid, mine().active])
""",
    )
    assert shown == {"code": 400, "launches": 1, "queued": 0, "active": [False, True, False]}


def test_a_context_that_has_failed_has_nothing_left_to_do(still: Path) -> None:
    shown = run(
        still,
        """
launch()
ctypes.c_int.in_dll(cuda, "still_next_result").value = 700
code = cuda.cuCtxSynchronize()
show(code=code, active=mine().active)
""",
    )
    assert shown == {"code": 700, "active": False}


@pytest.mark.parametrize(("every", "syncs", "queued"), [(0, 0, 10), (1, 10, 0), (4, 2, 2), (10, 1, 0)])
def test_a_cap_drains_all_streams_every_so_many_launches(still: Path, every: int, syncs: int, queued: int) -> None:
    shown = run(
        still,
        """
streams = [new_stream(), new_stream()]
for number in range(10):
    check(launch(streams[number % 2]))
show(syncs=mine().syncs, waits=count("context_syncs"), queued=mine().queued, active=mine().active)
""",
        sync_every=every,
    )
    assert shown == {"syncs": syncs, "waits": syncs, "queued": queued, "active": True}


def test_a_window_waits_for_the_last_group_but_one(still: Path) -> None:
    """Groups of 3: launch 7 begins the third group and waits for the first, launch 10 for the second."""
    shown = run(
        still,
        """
waits = []
for _ in range(11):
    check(launch())
    waits.append(count("event_syncs"))
show(waits=waits, queued=mine().queued, context_syncs=count("context_syncs"), longest=mine().longest_queue)
""",
        window=3,
    )
    assert shown == {"waits": [0] * 6 + [1] * 3 + [2] * 2, "queued": 5, "context_syncs": 0, "longest": 6}


def test_asking_whether_work_is_done_does_not_widen_the_window(still: Path) -> None:
    """A program that asks after each launch has groups as one that never asks."""
    shown = run(
        still,
        """
waits = []
for _ in range(7):
    check(launch())
    assert cuda.cuStreamQuery(None) == 600
    waits.append(count("event_syncs"))
show(waits=waits, queued=mine().queued)
""",
        window=2,
    )
    assert shown == {"waits": [0] * 4 + [1] * 2 + [2], "queued": 3}


def test_a_window_takes_off_no_more_than_is_queued(still: Path) -> None:
    """The program has waited for the groups itself: when the third begins, there is nothing left of the first."""
    shown = run(
        still,
        """
for _ in range(4): check(launch())
check(cuda.cuStreamSynchronize(None))
queued = [mine().queued]
for _ in range(3):
    check(launch())
    queued.append(mine().queued)
check(cuda.cuStreamSynchronize(None))
show(queued=queued, active=mine().active)
""",
        window=2,
    )
    assert shown == {"queued": [0, 1, 2, 3], "active": False}


PREEMPTED = """
group = Group("test")
urgent = group.connect("GPU-01010101-0101-0101-0101-010101010101", Terms(5))
background_state = lambda: next(client for client in group.look(0).clients if client.own.level == 0)
one, other = new_stream(), new_stream()
launch(one); launch(other)
urgent.arrive()
def background():
    check(cuda.cuCtxSetCurrent(context))
    launch(one)
thread = threading.Thread(target=background)
thread.start()
while not background_state().waiting: pass
waiting = background_state()
before = count("launches")
urgent.drained(0)
thread.join()
after = background_state()
show(waiting=[waiting.queued, waiting.active, waiting.drained_launches, before],
     after=[after.launches, after.preemptions], syncs=count("context_syncs"))
"""


def test_a_launch_that_meets_a_closed_gate_drains_all_streams_and_waits(still: Path) -> None:
    shown = run(still, PREEMPTED)
    assert shown == {"waiting": [0, True, 2, 2], "after": [3, 1], "syncs": 1}


def test_what_a_drain_that_fails_did_not_wait_for_still_counts(still: Path) -> None:
    """Or the job would never end: what the gate counts and what the streams have would differ for ever."""
    fails = 'ctypes.c_int.in_dll(cuda, "still_next_result").value = 1\n    launch(one)\nthread'
    program = PREEMPTED.replace("launch(one)\nthread", fails)
    program = (
        program[: program.index("waiting = ")]
        + """
queued = background_state().queued
urgent.drained(0)
thread.join()
queued = [queued, background_state().queued]
check(cuda.cuCtxSynchronize())
show(queued=queued, active=background_state().active)
"""
    )
    assert run(still, program) == {"queued": [2, 3], "active": False}


def test_an_urgent_program_is_not_held_up_and_holds_the_others_up(still: Path, group: Group) -> None:
    low = group.connect(GPU, Terms(0))
    low.arrive()
    shown = run(still, "launch()\nshow(active=mine().active, preemptions=mine().preemptions)", level=3)
    assert shown == {"active": True, "preemptions": 0}
    (left,) = group.look(0).clients
    assert not left.stopped  # the program has ended without a synchronisation, and is gone


def test_gpus_are_told_apart_by_their_uuid(still: Path, group: Group) -> None:
    keys = run(
        still,
        """
launch()
device_context(1)
launch(); launch()
show(gpus=[[gpu.key, gpu.clients[0].launches] for gpu in Group("test", watch=True).gpus()])
""",
    )["gpus"]
    assert keys == [[GPU, 1], [GPU.replace("01", "02"), 2]]


def test_a_context_of_the_same_gpu_that_is_not_current_is_drained_too(still: Path) -> None:
    shown = run(
        still,
        """
launch()
other = ctypes.c_void_p()
check(cuda.cuCtxCreate_v2(ctypes.byref(other), 0, 0))
for _ in range(3): launch()
current = ctypes.c_void_p(); cuda.cuCtxGetCurrent(ctypes.byref(current))
same, gpus = current.value == other.value, len(Group("test", watch=True).gpus())
show(waits=count("context_syncs"), queued=mine().queued, same=same, gpus=gpus)
""",
        sync_every=4,
    )
    assert shown == {"waits": 2, "queued": 0, "same": True, "gpus": 1}


@pytest.mark.parametrize("function", ["cuCtxDestroy_v2", "cuCtxDetach"])
def test_a_context_that_is_destroyed_ends_its_jobs(still: Path, function: str) -> None:
    shown = run(
        still,
        f"""
other = ctypes.c_void_p()
check(cuda.cuCtxCreate_v2(ctypes.byref(other), 0, 0))
launch(); allocate(5000)
before = mine()
check(cuda.{function}(other))
show(before=[before.active, before.memory_used], after=[mine().active, mine().memory_used])
""",
    )
    assert shown == {"before": [True, 5000], "after": [False, 0]}


def test_a_stream_that_is_destroyed_is_waited_for_by_an_event(still: Path) -> None:
    shown = run(
        still,
        """
stream = new_stream()
launch(stream)
check(cuda.cuStreamDestroy_v2(stream))
cuda.cuStreamSynchronize(None)
between = mine().active
cuda.still_finish(stream)
cuda.cuStreamSynchronize(None)
show(between=between, after=mine().active)
""",
    )
    assert shown == {"between": True, "after": False}


def test_an_end_of_a_capture_that_never_began_makes_no_other_be_overlooked(still: Path) -> None:
    shown = run(
        still,
        """
graph, stream = ctypes.c_void_p(), new_stream()
cuda.cuStreamEndCapture(stream, ctypes.byref(graph))
check(cuda.cuStreamBeginCapture_v2(stream, 0))
check(launch(stream))
show(launches=mine().launches if Group("test", watch=True).gpus() else 0)
""",
    )
    assert shown == {"launches": 0}


def test_captured_launches_do_not_reach_the_gate_nor_are_captures_spoilt(still: Path) -> None:
    shown = run(
        still,
        """
captured, plain = new_stream(), new_stream()
check(cuda.cuStreamBeginCapture_v2(captured, 0))
for _ in range(5): check(launch(captured))
for _ in range(4): check(launch(plain))
graph = ctypes.c_void_p()
check(cuda.cuStreamEndCapture(captured, ctypes.byref(graph)))
inside = [mine().launches, mine().syncs, count("context_syncs"), count("stream_syncs")]
for _ in range(2): check(launch(plain))
show(inside=inside, after=[mine().syncs, count("context_syncs")])
""",
        sync_every=2,
    )
    assert shown == {"inside": [4, 2, 0, 2], "after": [3, 1]}


def test_threads_lose_no_launch(still: Path) -> None:
    shown = run(
        still,
        """
def work():
    check(cuda.cuCtxSetCurrent(context))
    stream = new_stream()
    for number in range(400):
        check(launch(stream))
        if number % 50 == 0: cuda.cuStreamSynchronize(stream)
    cuda.cuStreamSynchronize(stream)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
cuda.cuCtxSynchronize()
state = mine()
show(launches=state.launches, queued=state.queued, active=state.active, jobs=state.jobs_begun == state.jobs_done)
""",
        sync_every=7,
    )
    assert shown == {"launches": 1600, "queued": 0, "active": False, "jobs": True}


def test_a_forked_child_joins_by_itself(still: Path) -> None:
    shown = run(
        still,
        """
launch()
reading, writing = os.pipe()
child = os.fork()
if child == 0:
    device_context()
    launch(); launch()
    os.write(writing, json.dumps([mine().launches, len(Group("test", watch=True).look(0).clients)]).encode())
    os._exit(0)
os.waitpid(child, 0)
left = len(Group("test", watch=True).look(0).clients)
show(child=json.loads(os.read(reading, 100)), parent=mine().launches, left=left)
""",
    )
    assert shown == {"child": [2, 2], "parent": 1, "left": 1}


def test_marked_jobs_end_where_the_program_says(still: Path) -> None:
    shown = run(
        still,
        """
from gpuyard.sharing.jobs import job
with job():
    for _ in range(3):
        launch(); cuda.cuCtxSynchronize()
    inside = [mine().active, mine().jobs_done]
show(inside=inside, after=[mine().active, mine().jobs_done])
""",
    )
    assert shown == {"inside": [True, 0], "after": [False, 1]}
