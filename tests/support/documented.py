"""The commands that the documents tell people to type."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT

PAGES = sorted(
    page
    for pattern in ("*.md", "docs/*.md", "bench/*.md", "models/*/*.md", "examples/*/*.md")
    for page in ROOT.glob(pattern)
    if page.name != "CHANGELOG.md"  # which tells of what was
)
RETIRED = re.compile(r"bench-2026-11|ablations|at the tag")
"""The tags that hold what was measured once; commands beside their names are run there."""

_SPAN = re.compile(r"`([^`]+)`")
_MODULE = re.compile(r"bench(\.[a-z_]+)+")
"""As tables of benches name them, the rest of the command left out."""
_PROGRAMS = ("python", "make", "sotto", "sotto-cloud")


def commands(page: Path) -> Iterator[tuple[str, ...]]:
    """Each command of a page as its words, the program first."""
    paragraphs = re.split(r"\n\s*\n|\n(?=- )", page.read_text(encoding="utf-8"))
    for before, paragraph, after in zip(
        ["", *paragraphs], paragraphs, [*paragraphs[1:], ""], strict=False
    ):
        code = paragraph.startswith("    ") or "```" in paragraph
        beside = paragraph
        if code:  # a block belongs to the sentence before it, which may go on behind it
            beside += before + (after if after.startswith("which ") else "")
        if RETIRED.search(beside):
            continue
        joined = paragraph.replace("\\\n", " ")
        lines = joined.splitlines() if code else _SPAN.findall(joined.replace("\n", " "))
        for line in lines:
            yield from _parts(line.strip())


def _parts(line: str) -> Iterator[tuple[str, ...]]:
    """The commands of one line, as a shell would part them."""
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:  # prose with an apostrophe
        return
    command: list[str] = []
    for word in [*words, ";"]:
        if word[0] in "|&;()<>":
            while command and re.fullmatch(r"[A-Z_]+=.*|\$|time|nice|sudo", command[0]):
                command.pop(0)
            if command and _MODULE.fullmatch(command[0]):
                command = ["python", "-m", *command]
            if command and Path(command[0]).name in _PROGRAMS:
                yield (Path(command[0]).name, *command[1:])
            command = []
        else:
            command.append(word)
