"""Read commands and snippets from the documents.

A block without a language is for a shell. Outputs, pictures and formulas are fenced as ``text``. A
quoted span in running text is a command if it begins with a program's name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.support.paths import ROOT

_WHERE: Final = ("*.md", "*/*.md", "bench/**/*.md", "models/**/*.md", "examples/**/*.md")
_WHERE_ELSE: Final = ("clients/**/*.md", "deploy/**/*.md", "edge/**/*.md")
_NOT_READ: Final = ("CHANGELOG.md", "docs/cli.md")
"""The first tells of what was; the second is written by the programs, and a test compares it."""

PAGES: Final = sorted(
    {
        page.relative_to(ROOT).as_posix()
        for pattern in (*_WHERE, *_WHERE_ELSE)
        for page in ROOT.glob(pattern)
        if not {".venv", "build", "node_modules"} & set(page.relative_to(ROOT).parts)
    }
    - set(_NOT_READ)
)

PROGRAMS: Final = frozenset(
    """
    sotto sotto-cloud sotto-models
    python python3 pip make git cd export echo cat curl ssh npm go docker kubectl
    haproxy grpcurl protoc systemctl systemd-analyze loginctl sudo apt apt-get
    """.split()  # noqa: SIM905 - a column of quotes otherwise
)
"""What a span in running text begins with if it is a command."""

_MODULE: Final = re.compile(r"bench(\.[a-z_]+)+( |$)")
"""A bench as tables name it, ``python -m`` left out."""
_ASSIGNED: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_SHELL: Final = frozenset({"", "sh", "bash", "shell", "console"})


@dataclass(frozen=True)
class Part:
    """One program of a line: environment, name without a folder, and words."""

    environment: tuple[tuple[str, str], ...]
    program: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((self.program, *self.words))


@dataclass(frozen=True)
class Typed:
    """A line for a shell.

    Attributes:
        where: page and line, "docs/home.md:44".
        line: as it is written, continued lines joined, the remark behind it left out.
        block: whether it stands in a block, and so is complete, not only named in running text.
    """

    where: str
    line: str
    block: bool

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return the programs of a pipe or list in order, then those within ``$(...)``."""
        return tuple(_parts(self.line))


@dataclass(frozen=True)
class Snippet:
    """A block in a language that is no shell's."""

    where: str
    language: str
    text: str


def read(page: str, text: str | None = None) -> tuple[list[Typed], list[Snippet]]:
    """Return the commands and the snippets of a page.

    ``page`` is the path from the repository's root; ``text`` defaults to the page's.
    """
    text = (ROOT / page).read_text(encoding="utf-8") if text is None else text
    tokens = [t for t in MarkdownIt("commonmark").parse(text) if t.type in _HOLD_TEXT]
    typed: list[Typed] = []
    shown: list[Snippet] = []
    for token in tokens:
        assert token.map is not None
        if token.type == "inline":
            for line, span in _spans(token):
                typed += [Typed(f"{page}:{line}", span, block=False)]
            continue
        language = token.info.strip()
        first = token.map[0] + (2 if token.type == "fence" else 1)
        if language not in _SHELL:
            shown.append(Snippet(f"{page}:{first}", language, token.content))
            continue
        for number, line in _lines(token.content):
            where = f"{page}:{first + number}"
            typed.append(Typed(where, line, block=True))
    return typed, shown


_HOLD_TEXT: Final = ("inline", "fence", "code_block")


def _spans(token: Token) -> Iterator[tuple[int, str]]:
    """Commands in running text, with their lines."""
    assert token.map is not None
    text, place = token.content.replace("\n", " "), 0
    for child in token.children or ():
        if child.type == "code_inline":
            place = max(place, text.find(f"{child.markup}{child.content}", place)) + 1
            line = token.map[0] + 1 + token.content[:place].count("\n")
            span = child.content.strip()
            if _MODULE.match(span):
                span = f"python -m {span}"
            first, *others = _words(span) or [""]
            if others and (Path(first).name in PROGRAMS or _ASSIGNED.fullmatch(first)):
                yield line, span


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Logical lines of a block with the number of their first, remarks left out."""
    begun, start = "", 0
    for number, line in enumerate([*text.splitlines(), ""]):
        start = start if begun else number
        begun += _without_remark(line.strip())
        if begun.endswith("\\"):
            begun = begun[:-1]
        elif begun.endswith("|"):
            begun += " "
        else:
            if begun:
                yield start, begun
            begun = ""


def _without_remark(line: str) -> str:
    """A remark begins a line, or stands behind white space and outside of quotes."""
    for place in [m.start() for m in re.finditer(r"(?<!\S)#", line)]:
        if not any(line[:place].count(quote) % 2 for quote in "'\""):
            return line[:place].rstrip()
    return line


def _words(line: str) -> list[str]:
    """As a shell parts them; none where it cannot (prose with an apostrophe)."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;()<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        return []


def _parts(line: str) -> Iterator[Part]:
    # `$(...)` is one word to whoever reads, and would be three
    inner = []
    while found := re.search(r"\$\(([^()]*)\)", line):
        inner.append(found[1])
        word = "$" + re.sub(r"\W", "_", found[1])
        line = line[: found.start()] + word + line[found.end() :]
    words = _words(line)
    command: list[str] = []
    skip = False
    for word, following in pairwise([*words, ";", ";"]):
        if skip:  # what goes to a file, or comes from one
            skip = False
        elif set(word) <= set("<>"):
            skip = following != ";"
        elif set(word) <= set("|&;()"):
            yield from _part(command)
            command = []
        else:
            command.append(word)
    for each in inner:
        yield from _parts(each)


def _part(words: list[str]) -> Iterator[Part]:
    environment = []
    while words and (found := _ASSIGNED.fullmatch(words[0])):
        environment.append((found[1], found[2]))
        words = words[1:]
    if words or environment:
        program = Path(words[0]).name if words else ""
        yield Part(tuple(environment), program, tuple(words[1:]))
