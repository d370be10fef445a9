"""Puts the emulated NVML library into the wheel, and beside the source in an editable install."""

from __future__ import annotations

import runpy
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NativeLibrary(BuildHookInterface[Any]):
    """Builds `native/` before the files are collected."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Compile, and call the wheel one of this platform if that worked."""
        built: Path | None = runpy.run_path(str(Path(self.root) / "native" / "build.py"))["build_or_warn"]()
        if built is not None:
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["artifacts"].append(str(built.relative_to(self.root)))
            build_data["tag"] = f"py3-none-{platform}"
            build_data["pure_python"] = False
