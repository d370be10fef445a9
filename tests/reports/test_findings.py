"""What a page says first of some runs."""

from tests.results.builder import HOUR, build, job, span

from gpuyard.reports.findings import waiting


def test_only_measured_jobs_say_what_was_waited_for() -> None:
    warm_up = job(2, measured=False, wait_fragments_s=9 * HOUR)
    run = build([job(1, wait_gpus_s=HOUR), warm_up], [span(1, 0, 1, [0])])
    assert waiting([run]) == "100% of all waiting: GPUs taken by jobs ahead"
