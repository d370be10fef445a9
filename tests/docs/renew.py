"""Run the console blocks of all pages and write what they print now: `python -m tests.docs.renew [PAGE...]`.

Outputs with `…` are left to a person, and named.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.docs.pages import PAGES, Block, agrees, blocks, commands, prepare, shell, tidy, without_make


def renew(page: Path) -> None:
    """Run one page and replace the outputs that are no longer true."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        environment = prepare(folder)
        for block in blocks(page):
            if block.file and not (folder / block.file).exists():
                (folder / block.file).write_text(block.content)
            elif block.language == "bash":
                shell(without_make(block.text), folder, environment)
            elif block.language == "python":
                (folder / "snippet.py").write_text(block.text)
                shell("python snippet.py", folder, environment)
            elif block.language == "console":
                fresh = _fresh(block, folder, environment)
                text = text.replace(f"```console\n{block.text}```", f"```console\n{fresh}```")
    page.write_text(text, encoding="utf-8")


def _fresh(block: Block, folder: Path, environment: dict[str, str]) -> str:
    lines = []
    for command in commands(block):
        _, printed = shell(command.text, folder, environment)
        shown = command.shown
        if not agrees(command, printed):
            print(f"{block}: {command.text}")
            if "…" in shown:
                print(f"  has '…', please edit by hand:\n{printed}")
            else:
                shown = tidy(printed) + "\n"
        lines.append(f"$ {command.text}\n{shown}")
    return "".join(lines)


if __name__ == "__main__":
    named = set(sys.argv[1:])
    for each in PAGES:
        if not named or each.name in named:
            renew(each)
