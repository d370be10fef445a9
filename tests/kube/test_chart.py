"""The Helm chart, rendered by Helm itself: the same objects as `gpuyard kube render` for the same values."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from gpuyard.core.errors import InputError
from gpuyard.kube.install.certificate_job import certificate_job
from gpuyard.kube.install.chart import chart_files, write_chart
from gpuyard.kube.install.manifests import manifests
from gpuyard.kube.install.values import Values, read_values, values_docs

HELM = Path(sys.executable).with_name("helm")
Manifest = dict[str, Any]


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chart") / "gpuyard"
    write_chart(folder)
    return folder


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(HELM), *words], capture_output=True, text=True, check=False, timeout=60)


def by_helm(chart: Path, values: dict[str, Any], minor: int, namespace: str = "gpuyard-system") -> list[Manifest]:
    file = chart.with_name("values.json")  # JSON is YAML, too
    file.write_text(json.dumps(values))
    done = helm(
        "template", "gpuyard", str(chart), "--namespace", namespace, "--include-crds",
        "--kube-version", f"1.{minor}.0", "--values", str(file),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def by_gpuyard(values: Values, minor: int) -> list[Manifest]:
    jobs = certificate_job(values) if values.makeCertificates else []
    return [each for each in [*manifests(values, minor), *jobs] if each["kind"] != "Namespace"]


def names_of(metadata: dict[str, Any]) -> tuple[str | None, str]:
    return metadata.get("namespace"), metadata["name"]


def by_name(things: list[Manifest]) -> dict[str, Manifest]:
    found = {" ".join([each["kind"], *map(str, names_of(each["metadata"]))]): each for each in things}
    assert len(found) == len(things)
    return found


words = st.text("abcdefgxyz0189-./:%é{}$ '", min_size=1, max_size=12)
tokens = st.text("abcdefgxyz0189-./:%é{}$'", min_size=1, max_size=12)
labels = st.text("abxyz019", min_size=1, max_size=8)
folders = st.text("abxyz019-%é{}$'", min_size=1, max_size=8).map("/".__add__)
objects = st.dictionaries(words, st.one_of(words, st.integers(0, 10**6), st.booleans()), min_size=1, max_size=2)
DIFFERENT = st.fixed_dictionaries(
    {},
    optional={
        "image": tokens,
        "command": st.lists(words, min_size=1, max_size=3),
        "schedulerCommand": st.lists(words, min_size=1, max_size=2),
        "schedulerPort": st.integers(1, 65535),
        "emulated": st.sampled_from(["2xA100+1xT4", "V100"]),
        "gpus": st.sampled_from(["emulated", "nvml"]),
        "speed": st.sampled_from([0.5, 1, 2.25, 10, 0.001, 12345]),
        "runtimeClass": st.sampled_from(["", "nvidia"]),
        "nodeSelector": st.dictionaries(labels, labels, max_size=2),
        "multiplex": tokens,
        "replicas": st.integers(1, 9),
        "hostNetwork": st.booleans(),
        "networkPolicy": st.booleans(),
        "makeCertificates": st.booleans(),
        "metricsFrom": st.lists(objects, max_size=2),
        "extenderUrl": st.sampled_from(["", "https://10.0.0.1:7"]),
        "listen": st.sampled_from(["127.0.0.1:1", "[::]:65535"]),
        "tasks": folders,
        "env": st.lists(st.fixed_dictionaries({"name": labels.map("A".__add__), "value": words}), max_size=2),
        "volumes": st.lists(st.builds(lambda name, more: {**more, "name": name}, labels, objects), max_size=2),
        "volumeMounts": st.lists(st.fixed_dictionaries({"name": labels, "mountPath": words}), max_size=2),
    },
)


@given(DIFFERENT, st.integers(20, 40), st.sampled_from(["gpuyard-system", "x"]))
@example({}, 20, "gpuyard-system")
@example({}, 31, "gpuyard-system")
@example({"nodeSelector": {}}, 31, "x")
@example({"gpus": "nvml", "hostNetwork": True, "extenderUrl": "https://a:1", "runtimeClass": "nvidia"}, 24, "x")
@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.generate],  # a smaller example would take minutes to find
)
def test_helm_makes_the_same_objects_as_render_for_the_same_values(
    chart: Path, values: dict[str, Any], minor: int, namespace: str
) -> None:
    wanted = by_name(by_gpuyard(replace(Values(namespace=namespace), **values), minor))
    found = by_name(by_helm(chart, values, minor, namespace))
    assert set(found) == set(wanted)
    for name, thing in wanted.items():
        assert found[name] == thing, name


def test_helm_has_nothing_to_say_against_it(chart: Path) -> None:
    done = helm("lint", "--strict", str(chart))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "wrong",
    [{"imge": "x"}, {"replicas": 0}, {"replicas": "many"}, {"gpus": "some"}, {"listen": "777"}, {"image": 'a"b'}],
)
def test_helm_refuses_values_that_make_no_sense(chart: Path, tmp_path: Path, wrong: dict[str, Any]) -> None:
    file = tmp_path / "values.json"
    file.write_text(json.dumps(wrong))
    done = helm("template", "gpuyard", str(chart), "--values", str(file))
    assert done.returncode != 0
    assert next(iter(wrong)) in done.stderr


def test_a_values_file_of_the_chart_is_one_of_the_commands_and_its_values_are_the_usual_ones(chart: Path) -> None:
    assert read_values(chart / "values.yaml") == Values()


def test_every_value_is_explained_in_the_chart_and_nothing_stands_for_itself() -> None:
    files = chart_files()
    stated = yaml.safe_load(files["values.yaml"])
    assert set(stated) | {"namespace", "nodeSelector"} == set(values_docs()) == set(vars(Values()))
    for name in stated:
        assert f"# {values_docs()[name]}\n{name}:" in files["values.yaml"]
    for name, content in files.items():
        assert not re.search(r"@\w+@", content), name  # which stand in place of values
        assert "6400" not in content, name


def test_a_folder_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(InputError, match="is there already"):
        write_chart(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written"):
        write_chart(tmp_path / "file" / "chart")
    write_chart(tmp_path / "new" / "chart")
    assert [each.name for each in (tmp_path / "new").iterdir()] == ["chart"]


def test_the_job_s_rights_end_with_it_and_no_key_is_in_the_chart() -> None:
    made = certificate_job(Values())
    assert {each["metadata"]["annotations"]["helm.sh/hook-delete-policy"] for each in made} == {
        "before-hook-creation,hook-succeeded"
    }
    (role,) = [each for each in made if each["kind"] == "Role"]
    assert [(each["verbs"], each.get("resourceNames")) for each in role["rules"]] == [
        (["get"], ["gpuyard-extender-tls", "gpuyard-scheduler-tls"]),
        (["create"], None),
    ]
    assert not [name for name, content in chart_files().items() if "PRIVATE" in content or "kind: Secret" in content]
