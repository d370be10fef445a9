"""A profile file that a measured model is added to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from gpuyard.core.arguments import check_name, check_regular
from gpuyard.core.errors import InputError
from gpuyard.profiles.collection import load_zoo
from gpuyard.profiles.files import parse
from gpuyard.profiles.reading import load_yaml, read_text
from gpuyard.profiles.step_files import write_whole


class ProfileFile:
    """What is there is kept, but for a model of the same name; that nothing is in the way is found out at once."""

    def __init__(self, path: Path, model: str) -> None:
        check_name(model, "name")
        self._path, self._model = path, model
        self._content: dict[str, Any] = {"models": {}}
        if path.exists():
            check_regular(path)
            text = read_text(path, "profile file")
            parse(text, str(path))
            self._content = load_yaml(text, str(path))
            if not isinstance(self._content, dict):
                raise InputError("is Synergy's, which nothing can be added to", file=path, hint="Name another file")

    def write(self, entry: dict[str, Any]) -> None:
        """Add the model; one of the bundled zoo that has its name makes way."""
        replace = {"replace": True} if load_zoo().key_of(self._model) else {}
        self._content["models"][self._model] = {**replace, **entry}
        text = yaml.safe_dump(self._content, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)
        parse(text, str(self._path))
        write_whole(self._path, text)
