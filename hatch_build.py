"""Puts the libraries in C into the wheel, with their sources, and beside the package in an editable install."""

from __future__ import annotations

import runpy
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NativeLibraries(BuildHookInterface[Any]):
    """Builds `native/` before the files are collected."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and call the wheel one of this platform if that worked."""
        root = Path(self.root)
        built: list[Path] = runpy.run_path(str(root / "native" / "build.py"))["build_installed"]()
        if version != "editable":  # what was not compiled here can be compiled where it is used
            build_data["force_include"][str(root / "native")] = "gpuyard/native/sources"
        if built:
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["artifacts"] += [str(each.relative_to(root)) for each in built]
            build_data["tag"] = f"py3-none-{platform}"
            build_data["pure_python"] = False
