"""One self-contained HTML page from a result and its pictures.

The page fetches nothing, so it can be mailed, archived and read offline. Its content security
policy forbids all requests. Every sentence is computed from the result, so text and figures cannot
disagree.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt

from bench.attacks import report
from bench.console import span
from bench.report.pictures import LEVELS, Picture, Row, costs, number

__all__ = ["costs_of_levels", "leaks", "render"]

_HERE: Final = Path(__file__).parent


def costs_of_levels(result: Row) -> list[str]:
    """Return a sentence on the benefit and cost of each level of our default."""
    default, cost = result["default"], costs(result)
    clear = cost["none", "clear"]
    strongest = {
        row["level"]: row
        for row in result["strongest"]
        if row["sees"] == "word" and row["mechanism"] == default
    }
    return [
        _cost(strongest[level], cost[default, level], clear)
        for level in LEVELS
        if level in strongest
    ]


def _cost(row: Row, paid: Row, clear: Row) -> str:
    said = (
        f"{row['level']}: the strongest attack ({row['attack']}) recovers "
        f"{100 * row['success']:.0f} of 100 protected words "
        f"({span([100 * end for end in row['ci']], 0)})"
    )
    if row["names"] is not None:
        said += f", {100 * row['names']:.0f} of 100 names"
    said += f". Released sentences keep an embedding cosine of {number(paid['cosine'])}"
    if "accuracy" in paid:
        said += (
            f"; sentiment is classified correctly {100 * paid['accuracy']:.0f} times of 100, "
            f"{100 * clear['accuracy']:.0f} in the clear"
        )
    return f"{said}."


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
        levels=costs_of_levels(result),
        pictures={
            name: {"alt": each.alt, "uri": _uri(each.file)} for name, each in pictures.items()
        },
        tables=report.tables(result),
        worked=report.worked(result),
        leaks=leaks(privacy),
    )


def leaks(privacy: str) -> list[str]:
    """Return the lists of leaks, from words and from embeddings, as HTML.

    Raises:
        ValueError: the document has no leak list; the page must not go out without one.
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
