"""Plans follow the rates, and a server that is started again goes on with the plan it had come to."""

import json
import os
import signal
from collections import Counter
from pathlib import Path

from tests.serving.running import BERT, PATIENCE_S, Running, crowd, eventually, serving
from tests.serving.test_server_faults import check_counts

from gpuyard.policies.partition.deployment_files import load_plan

SMALL = """\
gpuyard: services/1
services:
  - {model: vgg16, rate_per_s: 10, slo_ms: 400}
  - {model: bert, rate_per_s: 20, slo_ms: 20000}
"""


def batches(server: Running, name: str) -> list[int]:
    config = json.loads(server.get(f"/v2/models/{name}/config")[1])
    return [int(each) for each in config["dynamic_batching"]["preferred_batch_size"]]


def test_a_plan_grows_with_its_load_without_losing_a_request_and_outlives_the_server(tmp_path: Path) -> None:
    path, state = tmp_path / "services.yaml", tmp_path / "state"
    path.write_text(SMALL)
    with serving(path, "--period", "1", "--state", str(state)) as server:
        first = load_plan(state / "deployment.json")
        statuses: Counter[int] = Counter()

        def grown() -> bool:
            statuses.update(crowd(server.http, 480, name="bert", body=BERT).statuses)
            return server.metric("gpuyard_plans_total") >= 2

        eventually(grown, "another plan is in force")
        assert set(statuses) <= {200, 503}
        check_counts(server, statuses, "bert")
        gpus = server.gpu_processes()
        eventually(lambda: load_plan(state / "deployment.json").plan.slices != first.plan.slices, "it is kept")
        server.process.kill()
        eventually(lambda: not any(Path(f"/proc/{gpu}").exists() for gpu in gpus), "GPU processes end with it")
    later = load_plan(state / "deployment.json")
    assert later.plan.slices != first.plan.slices
    with serving(path, "--no-replan", "--state", str(state)) as server:
        again = load_plan(state / "deployment.json")
        assert again.plan.slices == later.plan.slices
        assert batches(server, "bert") == sorted({turn.batch for each in later.plan.slices for turn in each.turns
                                                 if turn.service == "bert"})  # fmt: skip
        assert server.infer("bert", BERT) == 200


def test_a_process_that_revises_plans_is_replaced_when_it_dies_and_that_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "services.yaml"
    path.write_text(SMALL)
    with serving(path, "--period", "0.5") as server:
        for _ in range(2):
            eventually(lambda: len(server.planners()) == 1, "it is there")
            [planner] = server.planners()
            os.kill(planner, signal.SIGKILL)
            eventually(lambda: server.planners() not in ([], [planner]), "another one is there")  # noqa: B023
        assert server.infer("bert", BERT) == 200

        def grown() -> bool:
            crowd(server.http, 480, name="bert", body=BERT)
            return server.metric("gpuyard_plans_total") >= 2

        eventually(grown, "plans follow the rates again")
        server.process.terminate()
        _, told = server.process.communicate(timeout=PATIENCE_S)
    assert told.count("the process that revises plans has died") == 1
