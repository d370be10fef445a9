"""The daemon of a node tells the cluster what its tasks do, and tasks what the cluster wants of them."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kube.builders import pod
from tests.kube.node_of_test import DaemonNode, node_of_test, shared_gpu
from tests.kube.waiting import until

from gpuyard.core.steady_thread import FAILING_S
from gpuyard.kube.node.labels import node_label
from gpuyard.kube.resources.shared_gpu import SHARED_GPUS, GpuWanted, MeasuredMix, MemberUsage
from gpuyard.kube.resources.training_task import TRAINING_TASKS, TaskWanted
from gpuyard.sharing.mix_samples import StepMean


@pytest.fixture
def yard(short_folder: Path) -> Iterator[DaemonNode]:
    with node_of_test(short_folder) as one:
        yield one


def test_a_gpu_says_who_is_on_it_and_what_is_done_about_their_batch_sizes(yard: DaemonNode) -> None:
    yard.go_on(2)
    assert (yard.gpu().phase, yard.why()) == ("Empty", ("False", "Empty"))
    yard.train("vgg-1")
    yard.go_on(12)
    assert (yard.gpu().phase, yard.why()) == ("Alone", ("False", "Alone"))
    yard.train("lstm-1")
    seen = []
    for _ in range(80):
        yard.go_on()
        seen.append((yard.gpu().phase, *yard.why(), *yard.why(kind="Tuned")))
    assert (
        list(dict.fromkeys(seen))
        == [
            ("Alone", "False", "Alone", "False", "Alone"),
            ("Shared", "False", "Waiting", "False", "Waiting"),
            ("Settle", "True", "Settling", "False", "Settling"),
            ("Explore", "True", "Exploring", "False", "Exploring"),
            ("Apply", "True", "Applying", "False", "Applying"),
            ("Stable", "False", "Stable", "True", "Stable"),
        ][-len(dict.fromkeys(seen)) :]
    )
    assert ("Explore", "True", "Exploring", "False", "Exploring") in seen
    (tuning,) = [each for each in yard.gpu().conditions if each.type == "Tuning"]
    sizes = {name: task.size for name, task in yard.tasks.items()}
    best = r"the best lets everybody get \d\.\d\d times less done than alone"
    told = f"batch sizes: lab/lstm-1 {sizes['lstm-1']}, lab/vgg-1 {sizes['vgg-1']}, {best}"
    assert re.fullmatch(told, tuning.message)
    assert [(each.pod, each.model, each.memory_gib, each.batch) for each in yard.gpu().tasks] == [
        ("lstm-1", "lstm", 4, sizes["lstm-1"]),
        ("vgg-1", "vgg", 4, sizes["vgg-1"]),
    ]
    assert yard.gpu(1).phase == "Empty"


def test_what_a_mix_costs_is_told_of_those_whose_steps_alone_are_known(yard: DaemonNode) -> None:
    yard.train("vgg-1")
    yard.go_on(12)
    yard.train("lstm-1")  # nobody knows what its steps take alone
    yard.go_on(60)
    found = yard.gpu().observations
    assert found
    for mix in found:
        vgg, lstm = next(each for each in mix.company if each.model == "vgg"), mix.company
        assert {each.model for each in lstm} == {"vgg", "lstm"}
        assert mix.company[mix.measured[0]] == vgg == MemberUsage("vgg", 0.6, 0.2)
        assert mix.slowdown == pytest.approx(0.5)
        assert 0 < mix.error < 0.01
        assert mix.gpu_kind == "V100"
        assert mix.observation() is not None
    assert len({each.at for each in found}) == len(found)
    assert yard.task("vgg-1").status.slowdown == pytest.approx(0.5)
    assert yard.task("vgg-1").status.alone_step_seconds == pytest.approx(0.1)
    assert yard.task("lstm-1").status.slowdown is None
    yard.end("vgg-1")
    yard.go_on(60)
    assert yard.gpu().phase == "Alone"
    assert yard.task("lstm-1").status.alone_step_seconds == pytest.approx(0.1)
    before = yard.gpu().observations
    yard.train("vgg-2")
    yard.go_on(60)
    fresh = [each for each in yard.gpu().observations if each not in before]
    assert {each.company[each.measured[0]].model for each in fresh} == {"lstm"}


def test_a_pod_that_says_nothing_is_company_all_the_same(yard: DaemonNode) -> None:
    yard.train("vgg-1")
    yard.go_on(12)
    yard.admit("quiet-1")
    yard.tasks["vgg-1"].step_s = lambda size: 0.13
    yard.go_on(12)
    assert (yard.gpu().phase, yard.why()) == ("Shared", ("False", "NobodyAsks"))
    (mix,) = yard.gpu().observations
    assert {each.model for each in mix.company} == {"vgg", "quiet"}
    assert mix.slowdown == pytest.approx(0.3)
    assert TRAINING_TASKS.path("quiet-1", "lab") not in yard.server.objects


def test_a_member_that_falls_silent_is_named(yard: DaemonNode) -> None:
    yard.train("vgg-1")
    yard.train("lstm-1")
    yard.go_on(6)
    yard.silent.add("lstm-1")
    yard.go_on(200)
    assert yard.gpu().phase == "Stable"
    assert yard.why(kind="MemberSilent") == ("True", "NotHeard")
    (silent,) = [each for each in yard.task("lstm-1").status.conditions if each.type == "Training"]
    assert (silent.status, silent.reason) == ("False", "Silent")


def test_a_size_that_did_not_fit_is_told(yard: DaemonNode) -> None:
    yard.train("vgg-1")
    yard.train("lstm-1")
    yard.tasks["vgg-1"].too_large = 100
    yard.go_on(100)
    (found,) = [each for each in yard.gpu().conditions if each.type == "OutOfMemory"]
    assert re.fullmatch(r"batch sizes that did not fit: lab/vgg-1 1[0-2]\d", found.message)
    assert yard.task("vgg-1").status.batch is not None


def test_nobody_hears_a_secret(yard: DaemonNode) -> None:
    secrets = [yard.train("vgg-1"), yard.train("lstm-1"), yard.admit("quiet-1", 1, whole=True)]
    yard.go_on(40)
    yard.end("vgg-1")
    yard.server.put(SHARED_GPUS.path("n1-7"), shared_gpu("n1", 7))
    yard.start()
    yard.go_on(10)
    assert not [each for each in secrets if each in yard.told() or each in "".join(yard.said)]


def test_objects_of_gpus_that_are_gone_are_removed_and_others_mended(yard: DaemonNode) -> None:
    for thing in (
        shared_gpu("n1", 7),
        shared_gpu("n1", 1, memory=8),
        shared_gpu("n2", 7),
    ):  # a label that another node has by mistake
        yard.server.put(SHARED_GPUS.path(thing["metadata"]["name"]), thing)
    yard.go_on(2)
    found = {
        path.rsplit("/", 1)[1]: SHARED_GPUS.read(thing)
        for path, thing in yard.server.objects.items()
        if "/sharedgpus/" in path
    }
    assert set(found) == {"n1-0", "n1-1", "n2-7"}
    assert found["n1-1"].spec == GpuWanted("n1", 1, "V100", 16)
    assert found["n1-0"].owners == ("uid-n1",)


def test_what_was_measured_before_a_restart_is_still_told_and_goes_on(yard: DaemonNode) -> None:
    yard.train("vgg-1")
    yard.go_on(12)
    yard.train("lstm-1")
    yard.go_on(60)
    before, since = yard.gpu().observations, yard.gpu().conditions[0].last_transition_time
    assert before
    yard.start()
    yard.go_on(60)
    assert yard.gpu().observations[: len(before)] == before
    assert yard.gpu().phase == "Stable"
    assert yard.task("vgg-1").status.alone_step_seconds == pytest.approx(0.1)
    assert since is not None
    times = [each.at for each in yard.gpu().observations]
    assert times == sorted(times)
    assert len(set(times)) == len(times)


@pytest.mark.parametrize("restarts", [False, True])
def test_once_a_clock_is_right_times_are_though_some_of_the_future_were_told(yard: DaemonNode, restarts: bool) -> None:
    yard.ahead_s = 86400.0
    yard.train("vgg-1")
    yard.go_on(12)
    yard.train("lstm-1")
    yard.go_on(60)
    early = yard.gpu().observations
    assert min(each.at for each in early) > "2026-01-02"
    yard.ahead_s = 0.0
    if restarts:
        yard.start()
    yard.end("lstm-1")
    yard.go_on(60)
    yard.train("lstm-2")
    yard.go_on(60)
    late = [each.at for each in yard.gpu().observations if each not in early]
    assert late
    assert max(late) < "2026-01-02"
    assert late == sorted(set(late))


def test_what_is_measured_of_two_at_once_can_be_told_apart(yard: DaemonNode) -> None:
    for name in ("vgg-1", "lstm-1"):
        yard.daemon.tuning.alone[yard.train(name)] = StepMean(100, 0.1)
    yard.go_on(60)
    found = yard.gpu().observations
    assert {each.company[each.measured[0]].model for each in found} == {"vgg", "lstm"}
    assert len({each.at for each in found}) == len(found)


def test_observations_are_bounded(yard: DaemonNode) -> None:
    many = tuple(MeasuredMix((), (0,), 0.1 * n, 0.0, "V100", f"2025-01-01T00:00:{n:02}Z") for n in range(40))
    thing = shared_gpu("n1", 0)
    thing["status"] = {"observations": [{"slowdown": each.slowdown, "at": each.at} for each in many]}
    yard.server.put(SHARED_GPUS.path("n1-0"), thing)
    yard.train("vgg-1")
    yard.go_on(12)
    yard.train("lstm-1")
    yard.go_on(60)
    assert len(yard.gpu().observations) == 32
    assert yard.gpu().observations[-1].slowdown == pytest.approx(0.5)


def test_an_outage_of_the_api_server_disturbs_nobody_and_is_made_up_for(yard: DaemonNode) -> None:
    yard.train("vgg-1")
    yard.go_on(12)
    yard.server.fails = lambda method, path: 503
    sizes = len(yard.tasks["vgg-1"].sizes)
    yard.train("lstm-1")
    yard.go_on(60)
    assert yard.daemon.tuning.view(0).phase == "stable"
    assert len(yard.tasks["vgg-1"].sizes) > sizes
    assert len(yard.said) == 1
    assert "tasks go on" in yard.said[0]
    assert yard.gpu().phase == "Alone"  # as it was told last
    yard.server.fails = lambda method, path: None
    yard.go_on(4)
    assert yard.gpu().phase == "Stable"
    assert {each.pod for each in yard.gpu().tasks} == {"vgg-1", "lstm-1"}


def test_one_namespace_that_refuses_does_not_keep_the_others_from_being_told(yard: DaemonNode) -> None:
    yard.train("vgg-1")
    yard.train("lstm-1", 1)
    yard.server.fails = lambda method, path: 403 if "lstm-1" in path else None
    yard.go_on(10)
    assert yard.task("vgg-1").status.batch is not None
    assert yard.gpu(1).phase == "Alone"


def test_nothing_is_written_more_often_than_every_two_seconds_unless_it_is_decisive(yard: DaemonNode) -> None:
    yard.train("vgg-1")
    yard.train("lstm-1")
    yard.go_on(200)
    for path in (SHARED_GPUS.status_path("n1-0"), TRAINING_TASKS.status_path("vgg-1", "lab")):
        assert 3 < len(yard.written(path)) < 90
    before = len(yard.server.requests)
    writes = len(yard.written(SHARED_GPUS.status_path("n1-0")))
    yard.silent = set(yard.tasks)
    yard.tasks.clear()
    yard.go_on(20)
    assert len(yard.written(SHARED_GPUS.status_path("n1-0"))) - writes <= 1
    assert not [each for each in yard.server.requests[before:] if each[0] in ("POST", "DELETE")]


def test_a_task_object_that_was_removed_is_made_anew_with_what_it_said(yard: DaemonNode) -> None:
    yard.train("vgg-1")
    yard.go_on(5)
    path = TRAINING_TASKS.path("vgg-1", "lab")
    yard.server.api.patch(path, {"spec": {"stopAt": 9}})
    yard.go_on(2)
    yard.server.remove(path)
    yard.go_on(5)
    assert yard.task("vgg-1").spec == TaskWanted("n1", (0,), stop_at=9)
    assert yard.task("vgg-1").owners == ("uid-vgg-1",)


def test_an_object_of_a_pod_that_had_the_same_name_is_left_alone(yard: DaemonNode) -> None:
    key, _, value = node_label("n1").partition("=")
    old = TRAINING_TASKS.new(
        "vgg-1", TaskWanted("n1", stop=True), namespace="lab", owner={"uid": "uid-of-another"}, labels={key: value}
    )
    yard.server.api.post(TRAINING_TASKS.folder("lab"), old)
    secret = yard.train("vgg-1")
    yard.go_on(5)
    found = yard.daemon.tasks.find(secret)
    assert found is not None
    assert found.note.wanted is None
    yard.server.remove(TRAINING_TASKS.path("vgg-1", "lab"))
    yard.go_on(5)
    assert yard.task("vgg-1").spec == TaskWanted("n1", (0,))


def test_who_has_the_same_devices_under_another_resource_is_somebody_else(yard: DaemonNode) -> None:
    mine = yard.admit("vgg-1")
    ids = sorted(yard.kubelet.taken["gpuyard.io/gpu-memory"])
    theirs = yard.records.add("gpushare/gpu-mem", ids)
    yard.kubelet.taken["gpushare/gpu-mem"] = dict.fromkeys(ids, "lstm-1#0")
    yard.server.add_pod(pod("lstm-1", memory=4, resource="gpushare/gpu-mem", node="n1", devices="0", phase="Running"))
    yard.go_on(3)
    found = [yard.daemon.tasks.find(each) for each in (mine, theirs)]
    assert [each.note.pod.name for each in found if each and each.note.pod] == ["vgg-1", "lstm-1"]


def test_a_pod_that_is_over_is_no_company_though_its_kubelet_holds_its_devices(yard: DaemonNode) -> None:
    yard.train("vgg-1")
    yard.admit("done-1")
    yard.go_on(12)
    assert yard.gpu().phase == "Shared"
    over = pod("done-1", memory=4, node="n1", devices="0", phase="Succeeded")
    yard.server.put("/api/v1/namespaces/lab/pods/done-1", over)
    yard.go_on(30)
    assert yard.gpu().phase == "Alone"
    assert yard.task("vgg-1").status.alone_step_seconds == pytest.approx(0.1)


ACTIONS = st.one_of(
    st.tuples(st.sampled_from(["train", "admit"]), st.integers(0, 1)),
    st.tuples(st.sampled_from(["silence", "speak", "end"]), st.integers(0, 5)),
    st.tuples(st.sampled_from(["restart", "outage", "back", "lose an answer"]), st.just(0)),
    st.tuples(st.just("pass"), st.integers(1, 25)),
)


def happen(yard: DaemonNode, number: int, action: str, which: int) -> None:
    """Something happens to a task, to the daemon, or to the API server."""
    names = sorted(yard.tasks)
    one = names[which % len(names)] if names else ""
    if action == "train" and len(names) < 5:
        yard.train(f"{'abc'[number % 3]}-{number}", which)
    elif action == "admit" and number % 3 == 0:
        yard.admit(f"quiet-{number}", which)
    elif action == "silence" and one:
        yard.silent.add(one)
    elif action == "speak":
        yard.silent.discard(one)
    elif action == "end" and one:
        yard.end(one)
    elif action == "restart":
        yard.start()
    elif action in ("outage", "lose an answer"):
        failing = 503 if action == "outage" else 0
        yard.server.fails = lambda method, path: failing if failing or method != "GET" else None
    elif action == "back":
        yard.server.fails = lambda method, path: None
    elif action == "pass":
        yard.go_on(which)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ACTIONS, min_size=4, max_size=14))
def test_whatever_happens_every_gpu_comes_to_rest_and_objects_say_what_is(actions: list[tuple[str, int]]) -> None:
    with TemporaryDirectory(prefix="yard-", dir="/tmp") as folder, node_of_test(Path(folder)) as yard:
        for number, (action, which) in enumerate(actions):
            happen(yard, number, action, which)
            yard.go_on()
        yard.server.fails = lambda method, path: None
        yard.go_on(60, each_s=5.0)
        at = []
        for number in (0, 1):
            view, said = yard.daemon.tuning.view(number), yard.gpu(number)
            assert said.phase in ("Empty", "Alone", "Shared", "Stable")
            here = {f"lab/{each.pod}" for each in said.tasks}
            assert here == {f"lab/{pod['metadata']['name']}" for pod in pods_on(yard, number)}
            assert (said.phase == "Stable") == (view.phase == "stable")
            for name, task in yard.tasks.items():
                if task.name in view.members:
                    batch = yard.task(name).status.batch
                    member = view.members[task.name]
                    assert batch is not None
                    assert (batch.own, batch.desired, batch.applied, batch.phase) == (
                        member.own, member.desired, member.applied, view.phase,
                    )  # fmt: skip
            for mix in said.observations:
                at.append((mix.at, mix.measured))
                assert mix.company[mix.measured[0]].batch == 1.0
                training = sum(each.model in "abc" for each in mix.company)
                assert mix.slowdown == pytest.approx(0.5 * (training - 1))
        assert len(set(at)) == len(at)


def pods_on(yard: DaemonNode, number: int) -> list[dict[str, Any]]:
    pods = [thing for path, thing in yard.server.objects.items() if "/pods/" in path]
    return [each for each in pods if each["metadata"]["annotations"]["gpuyard.io/devices"] == str(number)]


def test_a_disk_that_is_full_keeps_nobody_from_being_told_and_notes_are_made_up_for(
    yard: DaemonNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = yard.train("a")
    write = Path.write_text

    def full(file: Path, text: str, **options: Any) -> int:
        if file.parent.name != "notes":
            return write(file, text, **options)
        write(file, text[:5], **options)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(Path, "write_text", full)
        yard.go_on(20)
        assert yard.task("a").status.batch is not None
        assert [each for each in yard.said if "No space left" in each] == yard.said
        assert len(yard.said) == 1
        assert list((yard.folder / "notes").iterdir()) == []
    yard.go_on()
    assert (yard.folder / "notes" / f"{secret}.json").exists()


def test_a_daemon_that_goes_round_no_longer_is_in_trouble(yard: DaemonNode, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise KeyError("metadata")

    written = len(yard.server.requests)
    monkeypatch.setattr(yard.daemon.task_objects, "find", fails)
    with yard.daemon.running():
        until(lambda: len(yard.server.requests) > written)  # what else is to be done is done
        until(lambda: any("metadata" in each for each in yard.said))
        assert not yard.daemon.trouble
        yard.now += FAILING_S
        assert "metadata" in yard.daemon.trouble
        monkeypatch.undo()
        until(lambda: not yard.daemon.trouble)
