"""Everything that README and docs show is run, page by page and in order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs.pages import PAGES, ROOT, Block, Command, agrees, blocks, commands, prepare, shell, without_make

import gpuyard

LANGUAGES = {"bash", "console", "python", "yaml", "toml", "csv", "text"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_does_what_it_says(page: Path, tmp_path: Path) -> None:
    environment = prepare(tmp_path)
    for block in blocks(page):
        assert block.language in LANGUAGES, f"{block}: what is a block of {block.language!r}?"
        if block.file:
            _check_or_write(block, tmp_path)
        elif block.language == "bash":
            code, printed = shell(without_make(block.text), tmp_path, environment)
            assert code == 0, f"{block}: {printed}"
        elif block.language == "python":
            (tmp_path / "snippet.py").write_text(block.text)
            code, printed = shell("python snippet.py", tmp_path, environment)
            assert code == 0, f"{block}: {printed}"
        elif block.language == "console":
            _run_console(block, tmp_path, environment)


def _check_or_write(block: Block, folder: Path) -> None:
    assert block.file is not None
    ours = ROOT / block.file
    if ours.is_file():
        assert block.content.strip() in ours.read_text(encoding="utf-8"), f"{block} and {block.file} differ"
    else:
        (folder / block.file).write_text(block.content)


def _run_console(block: Block, folder: Path, environment: dict[str, str]) -> None:
    for command in commands(block):
        code, printed = shell(command.text, folder, environment)
        if "error: " not in command.shown:
            assert code == 0, f"{block}: {command.text}: {printed}"
        assert agrees(command, printed), (
            f"{block}: '{command.text}' prints something else; 'python -m tests.docs.renew' renews the page:\n{printed}"
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        linked = (page.parent / file).resolve() if file else page
        assert linked.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in _anchors(linked), f"{page.name}: {target}"


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_every_page_can_be_reached_from_the_map() -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "index.md" or f"({page.name}" in text, page.name


def test_the_public_names_are_the_documented_ones() -> None:
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    section = text.split("\n## Python\n")[1]
    assert re.findall(r"^### `(\w+)", section, flags=re.MULTILINE) == gpuyard.__all__


@pytest.mark.parametrize(
    ("text", "shown", "printed", "right"),
    [
        ("gpuyard trace", "mean 12.5 ms\n", "mean 12.5 ms\n", True),
        ("gpuyard trace", "mean 12.5 ms\n", "mean 12.6 ms\n", False),
        ("gpuyard trace", "in … s\nend", "in 3 s\nend", True),
        ("gpuyard emulate -- p", "a 12.5 ms\nb 3.0 ms in … s\n", "a 12.5 ms\nb 9.1 ms in 4 s\n", True),
        ("gpuyard emulate -- p", "a 12.5 ms\nb 3.0 ms in … s\n", "a 12.4 ms\nb 3.0 ms in 4 s\n", False),
        ("gpuyard emulate -- p", "a 12.5 ms\n", "b 12.5 ms\n", False),
        ("gpuyard emulate --clock device -- p", "a 12.5 ms\n", "a 12.6 ms\n", False),
    ],
)
def test_what_a_page_shows_is_compared_with_what_is_printed(text: str, shown: str, printed: str, right: bool) -> None:
    assert agrees(Command(text, shown), printed) is right
