"""The emulated GPUs of a run: what the programs of jobs are told of them, and the machines that they are on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from gpuyard import native
from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import InputError
from gpuyard.emulation.node import Node
from gpuyard.emulation.session import open_node
from gpuyard.emulation.settings import Settings
from gpuyard.profiles.gpus import parse_gpus
from gpuyard.sharing.commands import search_path


def emulated_nodes(cluster: Cluster, folder: Path, speed: float) -> dict[str, dict[str, str]]:
    """By node, the variables by which programs find its GPUs; none of a node whose GPU type cannot be emulated.

    A machine is named by its run too, so that runs beside each other do not share GPUs.
    """
    run = sha256(str(folder.resolve()).encode()).hexdigest()[:8]
    found = {}
    for number, name in enumerate(cluster.node_names):
        kind = cluster.kinds[cluster.node_kind[number]]
        gpus = f"{kind.gpus}x{kind.gpu_type}"
        try:
            parse_gpus(gpus)
        except InputError:
            continue
        found[name] = Settings(gpus, node=f"{run}-{name}", speed=speed).environment()
    return found


class EmulatedMachine:
    """The GPUs of one node, which stay as long as its agent does: all programs find the same ones."""

    def __init__(self) -> None:
        self._node: Node | None = None

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """What a program needs beside these variables, if they name emulated GPUs."""
        settings = Settings.from_environment(given)
        if settings is None:
            return {}
        if self._node is None:
            self._node = open_node(settings, parse_gpus(settings.gpus))
        folders = [str(native.folder()), *os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)]
        return {"PATH": search_path(), "LD_LIBRARY_PATH": os.pathsep.join(filter(None, folders))}

    def close(self) -> None:
        """Let go of the GPUs."""
        if self._node is not None:
            self._node.close()
