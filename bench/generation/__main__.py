"""Does what a cloud writes of privatised facts come back right?

What is promised of restoration, counted on texts of WebNLG, on a cloud that gives back what it gets
and adds words of its own.

    python -m bench.generation --quick
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from bench import console
from bench.console import Table
from bench.data import require
from bench.generation import gates, webnlg
from bench.generation.conversation import SETTINGS, Device

__all__ = ["main"]

_QUICK: Final = 4
"""Of so many entries one is read."""


def main() -> None:
    """Prints the tables, and keeps the figures."""
    parser = console.parser(
        "generation", __doc__, quick=f"every {_QUICK}th entry", models=True, data="webnlg"
    )
    arguments = parser.parse_args()
    require(parser, arguments.data, webnlg.FILE)
    every = _QUICK if arguments.quick else 1
    entries = webnlg.read(arguments.data / webnlg.FILE, every)
    device = Device.of(arguments.bundle, arguments.models)
    found = {}
    with console.progress() as bar:
        for name, setting in SETTINGS.items():
            task = bar.add_task(name, total=len(entries))
            counted = gates.tally(device, entries, setting, partial(bar.advance, task))
            found[name] = gates.gates(counted)
    result = {"bundle": device.bundle.id, "entries": len(entries), "gates": found}
    console.publish(arguments, result, _gates(found, len(entries)))


def _gates(found: dict[str, Any], entries: int) -> Table:
    return console.table(
        f"restoration on a cloud that keeps what it gets, {entries} texts, 95 % intervals",
        ("policy",),
        ("entities", "", "left as typed", "false", "", "of words", "streams alike", "held", "kept"),
        (
            (
                name,
                console.share(row["entities"]["share"]),
                console.span(row["entities"]["ci"], 3),
                console.share(row["entities_left"]["share"]),
                console.share(row["false"]["share"], 4),
                console.span(row["false"]["ci"], 4),
                row["words"],
                row["streams_alike"],
                row["held"],
                row["kept"],
            )
            for name, row in found.items()
        ),
    )


if __name__ == "__main__":
    main()
