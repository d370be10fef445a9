"""Makes an image of a folder, as an archive that containerd imports, without an engine of containers."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path


def write_image(folder: Path, name: str, target: Path, entry: str) -> None:
    """An image of one layer."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(folder, arcname=".")
    content = layer.getvalue()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": [entry], "Env": ["PATH=/usr/bin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(content).hexdigest()}"]},
    }
    described = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    files = {
        "config.json": json.dumps(config).encode(),
        "layer.tar": content,
        "manifest.json": json.dumps(described).encode(),
    }
    with tarfile.open(target, "w") as out:
        for file, data in files.items():
            entry_of_file = tarfile.TarInfo(file)
            entry_of_file.size = len(data)
            out.addfile(entry_of_file, io.BytesIO(data))
