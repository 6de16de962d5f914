"""One self-contained HTML page from a result and its pictures.

Why it is here: a page that fetches nothing can be mailed, archived and read on a train; its own
content policy forbids it to ask anyone for anything.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt

from bench.report import findings, names
from bench.report.names import UTILITIES, Row, number
from bench.report.pictures import Picture

__all__ = ["Table", "leaks", "render"]

_HERE: Final = Path(__file__).parent
_ATTACKED: Final = ("success", "rare", "names", "numbers")


@dataclass(frozen=True)
class Table:
    """Cells as they are written; the first ``text`` columns are words, the rest figures."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    text: int


def render(result: Row, pictures: dict[str, Picture], privacy: str) -> str:
    """The page.

    Args:
        result: of `bench.attacks.run.measure`.
        pictures: of `bench.report.pictures.draw`.
        privacy: the text of docs/privacy.md, for what leaks by design.
    """
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.jinja").render(
        result=result,
        levels=findings.costs_of_levels(result),
        pictures={
            name: {"alt": each.alt, "uri": _uri(each.file)} for name, each in pictures.items()
        },
        tables=_tables(result),
        leaks=leaks(privacy),
    )


def leaks(privacy: str) -> list[str]:
    """The lists of what leaks, of words and of embeddings, as HTML.

    Raises:
        ValueError: the document has no such list; the page must not go out without it.
    """
    found = []
    for title in ("What leaks", "Embeddings"):
        section = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", privacy, re.M | re.S)
        if section is None or "\n|---" not in section[1]:
            raise ValueError(f"docs/privacy.md has no list under {title!r}")
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", section[1])  # links lead nowhere from here
        found.append(MarkdownIt("commonmark").enable("table").render(plain))
    return found


def _uri(file: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(file.read_bytes()).decode("ascii")


def _tables(result: Row) -> dict[str, Table]:
    return {
        "attacks": _attacks(
            "Share recovered, or success, of every attack on what is protected", result["rows"]
        ),
        "clear": _attacks("The same attacks where nothing is hidden", result["clear"]["rows"]),
        "utility": Table(
            "What is left for use",
            ("mechanism", "level", *(f"{each} (95 %)" for each in UTILITIES.values())),
            [
                (
                    names.of(row["mechanism"]),
                    row["level"],
                    *(
                        f"{number(row[name], 3)} ({_interval(row[f'{name}_ci'])})"
                        if name in row
                        else ""
                        for name in UTILITIES
                    ),
                )
                for row in result["utility"]
            ],
            2,
        ),
    }


def _attacks(caption: str, rows: Sequence[Row]) -> Table:
    return Table(
        caption,
        (
            *("mechanism", "level", "sees", "attack"),
            *("success", "95 % interval", "rare words", "names", "numbers", "knowing nothing"),
        ),
        [
            (
                names.of(row["mechanism"]),
                row["level"],
                row["sees"],
                row["attack"],
                number(row["success"], 3),
                _interval(row["ci"]),
                *(number(row[name]) for name in _ATTACKED[1:]),
                number(row.get("majority")),
            )
            for row in rows
        ],
        4,
    )


def _interval(ci: Sequence[float]) -> str:
    return " to ".join(map(number, ci))
