"""Clusters from Synergy's .ini, our YAML, OpenB's node list and the short form."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl
import pytest

from gpuyard.core.cluster import NodeKind
from gpuyard.core.errors import InputError
from gpuyard.traces import read_cluster

KEYS = {
    "racks": "racks",
    "servers_per_rack": "servers_per_rack",
    "gpus_per_server": "gpus_per_server",
    "cpus_per_server": "cpus_per_server",
    "dram_per_server": "dram_gb_per_server",
    "sspeed_per_server": "storage_mbps_per_server",
}


def test_synergys_configurations(shared_data: Path, tmp_path: Path) -> None:
    table = pl.read_csv(shared_data / "synergy/clusters.csv", comment_prefix="#")
    assert table.height >= 5
    for row in table.iter_rows(named=True):
        lines = [f"{key} = {row[column]}" for key, column in KEYS.items()]
        file = tmp_path / row["config"]
        file.write_text("[CLUSTER]\n" + "\n".join(lines) + "\n\n[SCHEDULER]\npolicy = FIFO\nlease_time = 5\n")
        cluster = read_cluster(str(file))
        assert (cluster.total_gpus, cluster.nodes) == (row["total_gpus"], row["racks"] * row["servers_per_rack"])
        assert cluster.kinds[0].amounts == (
            row["cpus_per_server"], row["dram_gb_per_server"], row["storage_mbps_per_server"], 40,
        )  # fmt: skip


def test_keys_left_out_of_an_ini_have_synergys_defaults(tmp_path: Path) -> None:
    (tmp_path / "c.ini").write_text("; comment\n[CLUSTER]\nRACKS = 2\n")
    cluster = read_cluster(str(tmp_path / "c.ini"))
    assert (cluster.nodes, cluster.total_gpus) == (8, 64)
    assert cluster.kinds == (NodeKind(gpus=8, cpus=24, memory_gb=500, storage_mbps=300, network_gbps=40),)


def test_yaml_groups(tmp_path: Path) -> None:
    text = """gpuyard: cluster/1
groups:
- {count: 2, gpus: 4, cpus: 32, memory_gb: 256, storage_mbps: 1000,
   network_gbps: 100, gpu_type: A100, gpu_memory_gb: 80}
- gpus: 8
"""
    (tmp_path / "c.yaml").write_text(text)
    cluster = read_cluster(str(tmp_path / "c.yaml"))
    assert (cluster.nodes, cluster.total_gpus) == (3, 16)
    assert cluster.kinds == (NodeKind(4, 32, 256, 1000, 100, "A100", 80), NodeKind())


@pytest.mark.parametrize("which", ["gpu", "all"])
def test_openb_nodes(shared_data: Path, which: str) -> None:
    cluster = read_cluster(str(shared_data / f"traces/openb2023/openb_node_list_{which}_node.csv"))
    assert (cluster.nodes, cluster.total_gpus) == (1213, 6212)
    assert len(cluster.groups) == len(cluster.kinds)
    assert set(cluster.gpu_types) == {"G2", "T4", "P100", "V100-16GB", "G3", "V100", "A10"}
    assert {kind.gpu_type for kind in cluster.kinds if not kind.gpu.has_data_sheet} == {"G2", "G3"}
    if which == "gpu":
        assert (cluster.kinds[0].gpu_type, cluster.kinds[0].cpus, cluster.kinds[0].memory_gb) == (
            "P100",
            64,
            256 * 1.073741824,
        )


@pytest.mark.parametrize("name", ["v100", "V100", "Tesla-V100", "v100-32gb"])
def test_a_gpu_type_is_one_kind_in_any_spelling(name: str) -> None:
    cluster = read_cluster(f"1x8:type={name}+1x8")
    assert cluster.gpu_types == ("V100",)
    assert cluster.kinds[0].gpu.name == "Tesla V100-PCIE-32GB"


def test_a_gpu_has_the_memory_of_its_kind_unless_another_is_stated() -> None:
    kinds = read_cluster("1x8:type=a100+1x8:type=A100,gpu_memory=80GB+1x8:type=X9").kinds
    assert [round(kind.gpu_memory_gb, 1) for kind in kinds] == [42.5, 80, 34.1]
    assert str(read_cluster("1x8:type=a100")) == "1x8:cpus=24,memory=500,type=A100"


def test_the_short_form() -> None:
    assert read_cluster("2x4:cpus=16,memory=1TB").kinds == (NodeKind(gpus=4, cpus=16, memory_gb=1000),)


INI = "[CLUSTER]\nracks = 1\n"
YAML = "gpuyard: cluster/1\ngroups:\n- {count: 1}\n"
BAD = {
    # name: (content, row, field, value, words)
    "ini: not whole": (INI + "cpus_per_server = 24.5\n", 3, "cpus_per_server", "24.5", "must be a whole number"),
    "ini: negative": (INI + "dram_per_server = -1\n", 3, "dram_per_server", "-1", "0 or more"),
    "ini: no servers": (INI + "servers_per_rack = 0\n", 3, "servers_per_rack", "0", "1 or more"),
    "ini: unknown key": (INI + "gpu_per_server = 8\n", 3, None, "gpu_per_server", "Did you mean 'gpus_per_server'"),
    "ini: twice": (INI + "racks = 2\n", 3, None, "racks", "stands twice"),
    "ini: broken line": (INI + "cpus\n", 3, None, None, "is not 'key = value'"),
    "ini: no head": ("[]: 1\n", 1, None, None, "is not 'key = value'"),
    "ini: no section": ("[SCHEDULER]\npolicy = FIFO\n", None, None, None, "has no section [CLUSTER]"),
    "yaml: unknown field": (YAML + "- {gpu: 8}\n", 4, None, "gpu", "Did you mean 'gpus'"),
    "yaml: text": (YAML + "- {gpus: many}\n", 4, "gpus", "many", "must be a number"),
    "yaml: type": (YAML + "- {gpu_type: 100}\n", 4, "gpu_type", 100, "must be text"),
    "yaml: half a GPU": (YAML + "- {gpus: 0.5}\n", 4, "gpus", 0.5, "whole number"),
    "yaml: no nodes": (YAML + "- {count: 0}\n", 4, "count", 0, "1 or more"),
    "yaml: infinite count": (
        "gpuyard: cluster/1\ngroups:\n- {count: .inf}\n",
        3,
        "count",
        math.inf,
        "must be a finite number",
    ),
    "yaml: infinite memory": (
        "gpuyard: cluster/1\ngroups:\n- {memory_gb: .inf}\n",
        3,
        "memory_gb",
        math.inf,
        "must be a finite number",
    ),
    "csv: text": ("sn,cpu_milli,memory_mib,gpu,model\nn0,64000,lots,2,T4\n", 2, "memory_mib", "lots", "not a number"),
    "csv: CPUs only": ("sn,cpu_milli,memory_mib,gpu,model\nn0,64000,1024,0,\n", None, None, None, "no node with a GPU"),
    "else": ("hello\n", None, None, None, "is not a cluster file"),
}


@pytest.mark.parametrize("field", ["count", "gpus", "cpus", "memory_gb", "gpu_memory_gb"])
def test_what_is_not_a_number_is_refused(tmp_path: Path, field: str) -> None:
    (tmp_path / "cluster").write_text(f"gpuyard: cluster/1\ngroups:\n- {{{field}: .nan}}\n")
    with pytest.raises(InputError, match=f"row 3, field {field}: nan must be a finite number"):
        read_cluster(str(tmp_path / "cluster"))


def test_a_gigabyte_is_a_thousand_million_bytes() -> None:
    (kind,) = read_cluster("1x1:memory=1GiB,gpu_memory=16384MiB").kinds
    assert (kind.memory_gb, kind.gpu_memory_gb) == (1.073741824, 17.179869184)
    assert read_cluster("1x1:memory=2TB").kinds[0].memory_gb == 2000


@pytest.mark.parametrize("case", BAD)
def test_broken_files(tmp_path: Path, case: str) -> None:
    content, row, field, value, words = BAD[case]
    (tmp_path / "cluster").write_text(content)
    with pytest.raises(InputError) as refused:
        read_cluster(str(tmp_path / "cluster"))
    error = refused.value
    assert (error.file, error.row, error.field, error.value) == (str(tmp_path / "cluster"), row, field, value)
    assert words in str(error)


@pytest.mark.parametrize("name", ["clusters/big.ini", "big.yaml", "./16x8"])
def test_a_missing_file_is_said_to_be_missing(name: str) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read_cluster(name)


def test_neither_a_file_nor_a_short_form() -> None:
    with pytest.raises(InputError, match="'sixteen' is not NODESxGPUS"):
        read_cluster("sixteen")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1x8:type=", "field gpu_type: '' must be the name of a GPU type"),
        ("1x8:type= ,cpus=3", "field gpu_type: '' must be the name of a GPU type"),
        ("²x8", "'²x8' is not NODESxGPUS"),
        ("9" * 200 + "x8", "is not NODESxGPUS"),
    ],
)
def test_the_short_form_is_held_to_its_rules(text: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        read_cluster(text)
    assert says in str(caught.value)


def test_a_file_of_too_many_nodes_is_named(tmp_path: Path) -> None:
    file = tmp_path / "big.yaml"
    file.write_text("gpuyard: cluster/1\ngroups:\n- {count: 1000000000, gpus: 8}\n")
    with pytest.raises(InputError) as caught:
        read_cluster(str(file))
    assert str(caught.value).startswith(f"{file}, field cluster: 1000000000 nodes are more than gpuyard simulates")
