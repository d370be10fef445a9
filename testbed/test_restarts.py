"""Every part of the cluster and of gpuyard is restarted in any state, again and again, while pods come and go."""

from __future__ import annotations

import os
import threading
from collections import Counter
from functools import partial

from gpuyard.kube.client.api import ApiError
from testbed.cluster import until
from testbed.truth import check_at_rest, check_devices, figures_of_extender
from testbed.unrest import Unrest
from testbed.yard import JOBS, PODS, Yard

SEED = int(os.environ.get("GPUYARD_TESTBED_SEED", "11"))
UNREST_S, ROUND_S, LOOK_S = float(os.environ.get("GPUYARD_TESTBED_UNREST", "100")), 8.0, 0.5
PODS_OF_JOB, TOGETHER = 4, 2
REFUSED = "UnexpectedAdmissionError"
"""What becomes of pods that a kubelet meets while no device plugin is registered with it (docs/kubernetes.md)."""


class Watch(threading.Thread):
    """Looks who has which devices, all the time; what is wrong is kept."""

    def __init__(self, yard: Yard) -> None:
        super().__init__(name="watch", daemon=True)
        self._yard, self._over = yard, threading.Event()
        self.wrong: list[str] = []
        self.looks = 0

    def run(self) -> None:
        """Look until `stop`."""
        while not self._over.wait(LOOK_S):
            try:
                check_devices(self._yard)
                self.looks += 1
            except ApiError:
                continue  # the API server is on its way back
            except AssertionError as error:
                self.wrong.append(str(error))

    def stop(self) -> None:
        """End."""
        self._over.set()
        self.join()


def test_restarts_of_everything_in_any_state_lose_nothing_and_over_commit_nothing(yard: Yard) -> None:
    """Who was there stays where it is, all jobs are done in the end, tuning ends, and all books say the same."""
    staying, tuned = [f"stays-{number}" for number in range(6)], [f"tuned-{number}" for number in range(10)]
    for number, name in enumerate(staying):
        yard.submit(name, 2 + number % 3, 1_000_000)
    for name in tuned:
        yard.submit_tunable(name, 6, 64, changes=0, seconds=UNREST_S)
    until(lambda: set(yard.phases().values()) == {"Running"}, "those who stay run")
    before = check_devices(yard)
    assert len(before) == len(staying) + len(tuned)

    unrest, watch = Unrest(yard, SEED), Watch(yard)
    watch.start()
    jobs = [f"job-{number}" for number in range(int(UNREST_S / ROUND_S))]
    for job in jobs:
        until(partial(submitted, yard, job), f"{job} is created")
        unrest.go_on(ROUND_S)
    until(yard.cluster.answers, "the API server answers")
    until(lambda: done(yard) == len(jobs) * PODS_OF_JOB, "all jobs are done")
    yard.expect(*tuned)
    watch.stop()

    assert watch.wrong == [], unrest.told
    reasons = Counter(each["status"].get("reason") for each in yard.api.get(PODS)["items"] if has_failed(each))
    trained = len(jobs) * PODS_OF_JOB
    print(f"{len(unrest.told)} restarts, {trained} pods of jobs, {watch.looks} looks, failed: {dict(reasons)}")
    assert set(reasons) <= {REFUSED}, unrest.told
    until(lambda: at_rest(yard), "all books say the same", seconds=60)
    check_at_rest(yard)
    stay = {f"default/{name}" for name in staying}
    assert {name: place for name, place in check_devices(yard).items() if name in stay} == {
        name: place for name, place in before.items() if name in stay
    }
    figures = figures_of_extender(yard)
    yard.restart("gpuyard-extender")
    assert figures_of_extender(yard) == figures


def submitted(yard: Yard, name: str) -> bool:
    """Whether a job could be created; it may be there though nobody said so."""
    try:
        yard.submit_job(name, 5, 30, pods=PODS_OF_JOB, together=TOGETHER)
    except ApiError as error:
        return error.status == 409
    return True


def done(yard: Yard) -> int:
    """How many pods of jobs have trained."""
    return sum(int(job["status"].get("succeeded") or 0) for job in yard.api.get(JOBS)["items"])


def has_failed(pod: dict[str, dict[str, str]]) -> bool:
    return pod["status"].get("phase") == "Failed"


def at_rest(yard: Yard) -> bool:
    try:
        check_at_rest(yard)
    except AssertionError:
        return False
    return True
