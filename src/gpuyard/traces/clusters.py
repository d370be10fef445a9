"""Clusters from files (Synergy's .ini, our YAML, Alibaba's OpenB node list) or from the short form."""

from __future__ import annotations

import configparser
import re
from collections import Counter
from os import fspath
from pathlib import Path
from typing import Any

from gpuyard.core.arguments import check_path, number_hint
from gpuyard.core.cluster import Cluster, NodeGroup, NodeKind
from gpuyard.core.errors import InputError, nearest
from gpuyard.core.units import GB_PER_MIB, LARGEST
from gpuyard.profiles import gpu_kind
from gpuyard.traces.source import Source
from gpuyard.traces.table import read_table
from gpuyard.traces.yaml_rows import Record, read_records

VERSION = "cluster/1"
SUFFIXES = (".ini", ".yaml", ".yml", ".csv", ".gz")

_INI_DEFAULTS = {
    "racks": 1,
    "servers_per_rack": 4,
    "gpus_per_server": 8,
    "cpus_per_server": 24,
    "dram_per_server": 500,
    "sspeed_per_server": 300,
    "net_per_server": 40,
}
"""What Synergy assumes for keys that its file leaves out."""

_KIND_FIELDS = tuple(name for name in NodeKind.__dataclass_fields__ if name != "gpu")


def read_cluster(text: str | Path) -> Cluster:
    """Read a cluster from the file of this name, or from the short form as in '16x8:cpus=24,memory=500GB'.

    GPU types that gpuyard knows are looked up in any spelling; of the others only the name is known.
    """
    check_path(text, "cluster")
    text = fspath(text)
    try:
        return _read(text).with_gpus(gpu_kind)
    except InputError as error:
        if error.file is None and Path(text).is_file():
            raise error.located(text) from None
        raise


def _read(text: str) -> Cluster:
    if not Path(text).is_file():
        if Path(text).suffix.lower() in SUFFIXES or "/" in text.partition(":")[0]:
            raise InputError(
                "does not exist", file=text, hint="Name a cluster file, or write 16x8:cpus=24,memory=500GB"
            )
        return Cluster.parse(text)
    source = Source.open(text)
    if {"sn", "cpu_milli", "memory_mib", "gpu", "model"} <= source.head.columns:
        return _read_openb(source)
    first = next((line for line in source.head.lines if not line.startswith(";")), "")
    if first.startswith("["):
        return _read_ini(source)
    if first.replace(" ", "").startswith("gpuyard:"):
        return _read_yaml(source)
    raise InputError(
        "is not a cluster file", file=source.name,
        hint=f"Known: Synergy's .ini, 'gpuyard: {VERSION}' in YAML, an OpenB node list",
    )  # fmt: skip


def _read_ini(source: Source) -> Cluster:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(source.text())
    except configparser.ParsingError as error:
        row = error.lineno if isinstance(error, configparser.MissingSectionHeaderError) else error.errors[0][0]
        raise InputError("is not 'key = value'", file=source.name, row=row) from None
    except (configparser.DuplicateOptionError, configparser.DuplicateSectionError) as error:
        raise InputError("stands twice", file=source.name, row=error.lineno, value=_twice(error)) from None
    if not parser.has_section("CLUSTER"):
        raise InputError("has no section [CLUSTER]", file=source.name)
    values = dict(_INI_DEFAULTS)
    for key, text in parser.items("CLUSTER"):
        values[key] = _ini_value(source, key, text)
    kind = NodeKind(
        gpus=values["gpus_per_server"],
        cpus=values["cpus_per_server"],
        memory_gb=values["dram_per_server"],
        storage_mbps=values["sspeed_per_server"],
        network_gbps=values["net_per_server"],
    )
    return Cluster.uniform(values["racks"] * values["servers_per_rack"], kind)


def _twice(error: configparser.DuplicateOptionError | configparser.DuplicateSectionError) -> str:
    return error.option if isinstance(error, configparser.DuplicateOptionError) else error.section


def _ini_value(source: Source, key: str, text: str) -> int:
    row = next(
        row for row, line in enumerate(source.text().splitlines(), 1)
        if re.match(rf"\s*{re.escape(key)}\s*[=:]", line, re.IGNORECASE)
    )  # fmt: skip
    if key not in _INI_DEFAULTS:
        raise InputError(
            "is not a key of [CLUSTER]", file=source.name, row=row, value=key, hint=nearest(key, _INI_DEFAULTS)
        )
    least = 1 if key in ("racks", "servers_per_rack", "gpus_per_server") else 0
    if not text.strip().isdecimal() or int(text) < least:
        raise InputError(f"must be a whole number, {least} or more", file=source.name, row=row, field=key, value=text)
    return int(text)


def _read_yaml(source: Source) -> Cluster:
    return Cluster(tuple(_group(source, record) for record in read_records(source, VERSION, "groups")))


def _group(source: Source, record: Record) -> NodeGroup:
    for name, value in record.values.items():
        if name not in ("count", *_KIND_FIELDS):
            raise InputError(
                "is not a field of a group", file=source.name, row=record.row, value=name,
                hint=nearest(str(name), ("count", *_KIND_FIELDS)),
            )  # fmt: skip
        text = name == "gpu_type"
        if not isinstance(value, str if text else (int, float)) or isinstance(value, bool):
            rule = f"must be {'text' if text else 'a number'}"
            hint = None if text else number_hint(value)
            raise InputError(rule, file=source.name, row=record.row, field=name, value=value, hint=hint)
        if not isinstance(value, str) and not abs(value) <= LARGEST:
            rule = f"must be a finite number, at most {LARGEST:g}"
            raise InputError(rule, file=source.name, row=record.row, field=name, value=value)
    kind: dict[str, Any] = {name: value for name, value in record.values.items() if name != "count"}
    try:
        return NodeGroup(record.values.get("count", 1), NodeKind(**kind))
    except InputError as error:
        field = "count" if error.field == "nodes" else error.field
        raise InputError(error.rule, file=source.name, row=record.row, field=field, value=error.value) from None


def _read_openb(source: Source) -> Cluster:
    """Group the nodes by kind, in order of first appearance; nodes without a GPU are no part of a GPU cluster."""
    table = read_table(source)
    amounts = [table.numbers(name) for name in ("gpu", "cpu_milli", "memory_mib")]
    kinds = Counter(
        NodeKind(
            gpus=int(gpus),
            cpus=cpus / 1000,
            memory_gb=memory * GB_PER_MIB,
            gpu_type=model,
        )
        for gpus, cpus, memory, model in zip(*(a.tolist() for a in amounts), table.texts("model"), strict=True)
        if gpus > 0
    )
    if not kinds:
        raise InputError("lists no node with a GPU", file=source.name)
    return Cluster(tuple(NodeGroup(count, kind) for kind, count in kinds.items()))
