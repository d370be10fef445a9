"""The pages as a reader uses them: fenced blocks in order, run in one folder per page.

`bash` is run; `console` is run line by line and its output compared, where `…` stands for anything; `python` is run. A
block of any language whose first line is a comment with a file name is that file: one of the repository's must say the
same, any other is written. `text` is shown only, and so is every line that begins with `make`: those are run by hand.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MILLISECONDS = re.compile(r"([0-9]+\.[0-9]) ms")
_FILE = re.compile(r"^# ([\w./-]+\.(?:py|ya?ml|toml|csv|ini))\n")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def file(self) -> str | None:
        """The file that the block is, if it is one."""
        named = _FILE.match(self.text)
        return named.group(1) if named else None

    @property
    def content(self) -> str:
        """The file's text: the block without its first line."""
        return self.text.split("\n", 1)[1]

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A line of a console block, and what is shown below it."""

    text: str
    shown: str

    @property
    def in_real_time(self) -> bool:
        """Whether it runs a program as fast as this machine can: see `agrees`."""
        return self.text.startswith("gpuyard emulate") and "--clock" not in self.text


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found.group(1), found.group(2))
        for found in _BLOCK.finditer(text)
    ]


def commands(block: Block) -> list[Command]:
    """Split a console block into commands, which follow `$ `, and their outputs."""
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not parts[0], f"{block}: a console block starts with '$ '"
    pairs = (part.partition("\n")[::2] for part in parts[1:])
    return [Command(text, shown) for text, shown in pairs]


def prepare(folder: Path) -> dict[str, str]:
    """Put the examples into a folder, as if installed, and return the environment in which gpuyard is found."""
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    site = install_examples(folder / ".site")
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": path,
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def install_examples(site: Path) -> Path:
    """Do what pip does with the examples, without a network: the module, and its entry points in a dist-info folder."""
    project = tomllib.loads((ROOT / "examples" / "pyproject.toml").read_text(encoding="utf-8"))
    name, version = project["project"]["name"], project["project"]["version"]
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = project["project"]["entry-points"].items()
    lines = [line for group, entries in groups for line in (f"[{group}]", *(f"{k} = {v}" for k, v in entries.items()))]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    for module in project["tool"]["setuptools"]["py-modules"]:
        shutil.copy(ROOT / "examples" / f"{module}.py", site)
    return site


def shell(script: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Run a script and return its exit code and all it printed, in the order in which one would see it."""
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=environment,
        check=False,
    )
    return done.returncode, done.stdout


def without_make(script: str) -> str:
    """Leave out the lines that set up or check the whole repository."""
    return "".join(line for line in script.splitlines(keepends=True) if not line.startswith(("make ", "git ")))


def tidy(output: str) -> str:
    """Take the padding off the ends of lines."""
    return "\n".join(line.rstrip() for line in output.strip("\n").splitlines())


def agrees(command: Command, printed: str) -> bool:
    """Whether what a page shows of a command is what it printed.

    `…` stands for anything, spaces before it included. Where a program runs in real time, a time in ms is the least
    that it can be: on a busy machine it is longer.
    """
    shown = tidy(command.shown)
    pattern = ".*?".join(re.escape(part) for part in re.split(" *…", shown))
    least = _MILLISECONDS.findall(shown) if command.in_real_time else []
    if least:
        pattern = re.sub(r"[0-9]+\\\.[0-9]\\ ms", r"([0-9]+\\.[0-9])\\ ms", pattern)
    found = re.fullmatch(pattern, tidy(printed), flags=re.DOTALL)
    return found is not None and all(
        float(one) >= float(other) for one, other in zip(found.groups(), least, strict=True)
    )
