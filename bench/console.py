"""The common command line, progress bars and tables of all measurements.

Tables go to standard output; with ``--json`` the figures go there alone, as one line. The figures
are kept in ``--out``. Progress goes to standard error.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, TypeVar

import rich.progress
import rich.table
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.data import DATA

__all__ = ["STEPS", "Figures", "Table", "ask_names", "names", "parser", "percent"]
__all__ += ["progress", "publish", "share", "span", "table", "track", "versions"]

Figures = dict[str, Any]
"""A measurement's figures, in JSON types."""

STEPS: Final = Console(stderr=True)
"""Where progress is shown."""

_WIDTH: Final = 160
_Item = TypeVar("_Item")


def parser(
    name: str, doc: str | None, *, quick: str = "", models: bool = False, data: str = ""
) -> ArgumentParser:
    """Return a parser with ``--bundle``, ``--out`` and ``--json``, and more on request.

    Args:
        name: "attacks" for `python -m bench.attacks`; also the stem of its files.
        doc: docstring of the module; its first line becomes the description.
        quick: help text of ``--quick``: what it leaves out.
        models: whether to add ``--models``, the folder of the shipped artifacts.
        data: which parts of ``--data``, the folder of data sets, the measurement reads.
    """
    found = ArgumentParser(f"python -m bench.{name}", description=(doc or "").splitlines()[0])
    found.set_defaults(name=name.rpartition(".")[2])
    if quick:
        found.add_argument("--quick", action="store_true", help=quick)
    found.add_argument("--bundle", type=Path, default=Path("build/bundle"))
    if models:
        found.add_argument("--models", type=Path, default=Path("models"))
    if data:
        found.add_argument("--data", type=Path, default=DATA, help=f"folder with {data}")
    found.add_argument(
        "--out",
        type=Path,
        default=Path("build/bench"),
        help="folder for the figures",
    )
    found.add_argument("--json", action="store_true", help="print the figures alone, as JSON")
    return found


def names(known: Iterable[str] = ()) -> Callable[[str], tuple[str, ...]]:
    """A type of argument: names, comma-separated, of ``known`` if that says any."""
    among = tuple(known)

    def read(text: str) -> tuple[str, ...]:
        found = tuple(text.split(","))
        if among and (unknown := [name for name in found if name not in among]):
            raise ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are {', '.join(among)}")
        return found

    return read


def ask_names(
    parser: ArgumentParser,
    option: str,
    known: Iterable[str],
    default: Sequence[str] | None = None,
    about: str = "",
) -> None:
    """Add an option that takes a comma-separated part of ``known``, all by default."""
    among = tuple(known)
    chosen = among if default is None else tuple(default)
    parser.add_argument(
        option,
        type=names(among),
        default=chosen,
        metavar="NAMES",
        help=f"comma-separated, of {', '.join(among)}{about}"
        + (f"; default: {','.join(chosen)}" if chosen != among else ""),
    )


def track(items: Iterable[_Item], what: str, total: int | None = None) -> Iterable[_Item]:
    """Iterate over the items with a progress bar."""
    return rich.progress.track(items, what, total=total, console=STEPS)


def progress() -> Progress:
    """Return a progress bar for steps without items."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeElapsedColumn(), console=STEPS)


@dataclass(frozen=True)
class Table:
    """Columns of words on the left, then columns of figures; cells are printed unchanged.

    Attributes:
        title: heading of the table.
        words, figures: headings of the columns.
        rows: a cell for each heading.
    """

    title: str
    words: tuple[str, ...]
    figures: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __rich__(self) -> rich.table.Table:
        """As a terminal shows it."""
        made = rich.table.Table(title=self.title, title_justify="left")
        for heading in self.words:
            made.add_column(heading)
        for heading in self.figures:
            made.add_column(heading, justify="right")
        for row in self.rows:
            made.add_row(*row)
        return made


def table(
    title: str, words: Sequence[str], figures: Sequence[str], rows: Iterable[Sequence[object]]
) -> Table:
    """Return a table of any cells; None becomes an empty cell."""
    made = (tuple("" if cell is None else str(cell) for cell in row) for row in rows)
    return Table(title, tuple(words), tuple(figures), tuple(made))


def span(ends: Sequence[float] | None, digits: int = 3, *, sign: str = "") -> str:
    """Return an interval as tables write it; "" if there is none.

    >>> span([0.1, 0.25], 2), span([-0.1, 0.2], 1, sign="+"), span(None)
    ('0.10 to 0.25', '-0.1 to +0.2', '')
    """
    return " to ".join(share(end, digits, sign=sign) for end in ends or ())


def percent(found: Figures | None) -> str:
    """Format ``mean`` and ``interval`` in percent; empty for None."""
    if found is None:
        return ""
    return f"{100 * found['mean']:.1f} ({span([100 * end for end in found['interval']], 1)})"


def share(value: float | None, digits: int = 3, *, sign: str = "") -> str:
    """Format a share; empty for None."""
    return "" if value is None else f"{value:{sign}.{digits}f}"


def versions(*names: str) -> dict[str, str]:
    """Return the versions of libraries that affect the figures."""
    return {name: version(name) for name in names}


def publish(arguments: Namespace, figures: Figures, *shown: RenderableType) -> None:
    """Keep the figures in ``--out``, and print the tables (``--json``: the figures)."""
    line = json.dumps(figures)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / f"{arguments.name}.json").write_text(line, encoding="utf-8")
    if arguments.json:
        print(line)
    else:
        console = Console(width=_WIDTH, highlight=False)
        console.print(*shown, sep="\n")
        console.print(f"kept in {arguments.out}: {arguments.name}.json")
