"""A Helm chart, made by the functions that make the manifests: whatever these do with a value, its templates do.

They are called with something in place of each value that is found again in what they return, and with either answer
to each question that they may ask of values: whether one is there, or true, and how old Kubernetes is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from gpuyard._version import __version__
from gpuyard.core.errors import InputError
from gpuyard.kube.install.branches import Decided, Tree, tree_of, with_texts
from gpuyard.kube.install.certificate_job import certificate_job
from gpuyard.kube.install.installing import DEFINITION
from gpuyard.kube.install.manifests import manifests
from gpuyard.kube.install.templates import TemplateWriter
from gpuyard.kube.install.value_rules import RULES
from gpuyard.kube.install.values import Values, values_docs
from gpuyard.kube.json_objects import JsonObject

VERSIONS = (21, 22, 25)
"""Of Kubernetes 1.x, from which on objects are told differently."""
OF_HELM = ("namespace",)
"""What Helm itself is told, and no value of the chart."""
FIRST_NUMBER = 64001
"""Numbers that stand for values, from here on: no other number in what is installed is as large."""


@dataclass
class Placeholders:
    """What stands for each value, which expression gives it, and what is to be asked."""

    values: dict[str, Any] = field(default_factory=dict)
    expressions: dict[str, str] = field(default_factory=dict)
    questions: dict[str, str] = field(default_factory=dict)
    optional: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    """By its question, a value if the answer is yes, and if it is no."""

    def given(self, answers: Decided) -> Values:
        """The values, by these answers."""
        chosen = {name: pair[0] if answers[name] else pair[1] for name, pair in self.optional.items()}
        return Values(**self.values, **chosen)


def placeholders() -> Placeholders:
    """Something in place of each value."""
    found, numbers, usual = Placeholders(), count(FIRST_NUMBER), Values()
    for each in fields(Values):
        expression, mark, value = f".Values.{each.name}", f"@{each.name}@", getattr(usual, each.name)
        if choices := each.metadata.get("choices"):
            other, chosen = choices
            found.questions[each.name] = f"eq {expression} {json.dumps(chosen)}"
            found.optional[each.name] = (chosen, other)
        elif isinstance(value, bool):
            found.questions[each.name], found.optional[each.name] = expression, (True, False)
        elif isinstance(value, dict):
            found.expressions[mark], found.values[each.name] = f"each {_unmerged(each.name, value)}", {mark: ""}
        elif isinstance(value, list):
            found.expressions[mark], found.values[each.name] = f"each {expression}", [_item(each, mark)]
        elif isinstance(value, int | float):
            found.values[each.name] = type(value)(number := next(numbers))
            found.expressions[str(number)] = expression
        elif not value:
            found.questions[each.name], found.optional[each.name] = expression, (mark, "")
            found.expressions[mark] = expression
        else:
            found.values[each.name], found.expressions[mark] = mark, expression
    found.expressions["@namespace@"] = ".Release.Namespace"
    port = str(next(numbers))
    found.values["listen"] = f"@listen@:{port}"
    found.expressions |= {f"@listen@:{port}": ".Values.listen", port: 'regexFind "[0-9]+$" .Values.listen'}
    for minor in VERSIONS:
        found.questions[_version(minor)] = f'semverCompare ">=1.{minor}-0" .Capabilities.KubeVersion.Version'
    return found


def _unmerged(name: str, usual: JsonObject) -> str:
    """A mapping as it is given: Helm would add what the usual one has, so that the chart does not state it."""
    return f'(hasKey .Values "{name}" | ternary .Values.{name} (fromJson `{json.dumps(usual)}`))'


def _item(listed: Field[Any], mark: str) -> Any:
    return mark if listed.type == "list[str]" else {mark: ""}


def _version(minor: int) -> str:
    return f"1.{minor}"


def chart_files() -> dict[str, str]:
    """The files of the chart by their paths in it."""
    used = placeholders()
    questions = [*(_version(minor) for minor in VERSIONS), *used.optional]
    tree = tree_of(questions, lambda answers: with_texts(_objects(used.given(answers), answers)))
    writer = TemplateWriter(used.expressions, used.questions)
    files = {
        "Chart.yaml": _yaml(_about()),
        "values.yaml": "\n".join(_values_file()),
        "values.schema.json": json.dumps(_schema(), indent=1) + "\n",
        "templates/NOTES.txt": NOTES,
    }
    for each in manifests(Values(), VERSIONS[-1]):
        if each["kind"] == DEFINITION:
            files[f"crds/{each['metadata']['name']}.yaml"] = _yaml(each)
    return files | {f"templates/{name}.yaml": writer.template(one) for name, one in tree.items()}


def _objects(values: Values, answers: Decided) -> Mapping[str, Tree]:
    """All that templates make, by names for their files."""
    minor = max((each for each in VERSIONS if all(answers[_version(m)] for m in VERSIONS if m <= each)), default=20)
    made = [each for each in manifests(values, minor) if each["kind"] not in (DEFINITION, "Namespace")]
    made += certificate_job(values) if values.makeCertificates else []
    return {_file_name(each["metadata"], each["kind"], values.namespace): each for each in made}


def _file_name(metadata: JsonObject, kind: str, usual: str) -> str:
    """What tells an object from all others."""
    elsewhere = f"-{space}" if (space := metadata.get("namespace", usual)) != usual else ""
    return f"{metadata['name'].removeprefix('gpuyard-')}{elsewhere}-{kind.lower()}"


def _about() -> JsonObject:
    return {
        "apiVersion": "v2",
        "name": "gpuyard",
        "description": "Training tasks that share GPUs without hurting each other.",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": ">=1.20.0-0",
    }


NOTES = """\
gpuyard is being installed. Nodes with the labels of nodeSelector offer GPUs, by default gpuyard.io/gpus: emulated
Pods ask for them with schedulerName: gpuyard and limits such as gpuyard.io/gpu-memory: 8
"""


def _values_file() -> Iterator[str]:
    usual, docs = Values(), values_docs()
    yield "# What can be chosen when gpuyard is installed. Its namespace is the release's."
    for each in _of_chart():
        yield ""
        yield f"# {docs[each.name]}"
        stated = _yaml({each.name: getattr(usual, each.name)}).rstrip("\n")
        yield from (f"# {line}" if isinstance(getattr(usual, each.name), dict) else line for line in stated.split("\n"))
    yield ""


def _schema() -> JsonObject:
    """What values must be, for Helm to refuse others, as `read_values` does."""
    docs = values_docs()
    known: JsonObject = {"global": {"type": "object"}}
    for each in _of_chart():
        known[each.name] = {**RULES[each.name].schema, "description": docs[each.name]}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": known,
        "additionalProperties": False,
    }


def _of_chart() -> list[Field[Any]]:
    return [each for each in fields(Values) if each.name not in OF_HELM]


def _yaml(thing: Any) -> str:
    return yaml.safe_dump(thing, sort_keys=False, width=110, allow_unicode=True)


def write_chart(folder: Path) -> None:
    """Write the chart; InputError where the folder is there already, and then nothing is changed."""
    if folder.exists():
        raise InputError("is there already", file=folder, hint="Remove it, or name another folder")
    files = chart_files()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as beside:
            made = Path(beside) / folder.name
            for name, content in files.items():
                (made / name).parent.mkdir(parents=True, exist_ok=True)
                (made / name).write_text(content)
            made.rename(folder)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=folder) from None
