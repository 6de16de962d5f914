"""How well are a cloud's answers about privatised facts restored, and how good are they?

The first table checks the promises of restoration on texts of WebNLG. Its cloud repeats its prompt
and adds a sentence about other facts. The second table needs a decoder. The decoder learns from
released facts and texts, then writes about other facts. Its answers are judged as written and as
restored. Without a decoder the second table is left out, because a model trained only on these
texts would be too weak to tell. A killed run continues.

    python -m bench.generation --quick
    python -m bench.generation --quick --only written --decoder build/decoders/gemma3-270m
"""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench import console
from bench.console import Figures, Table
from bench.data import require
from bench.generation import gates, webnlg
from bench.generation.conversation import SETTINGS, Device

__all__ = ["main"]

_QUICK: Final = 4
"""The gates read every n-th entry."""
_ASKED: Final = 8
"""The decoder writes about every n-th held-out entry."""
_KNOWN, _EPOCHS = {True: 240, False: 6_000}, {True: 1, False: 3}
"""Number of training entries and epochs, with ``--quick`` and without."""


def main() -> None:
    """Print the tables, and keep the figures."""
    quick = f"every {_QUICK}th entry through the gates, {_KNOWN[True]} to learn from"
    parser = console.parser("generation", __doc__, quick=quick, models=True, data="webnlg")
    console.ask_names(parser, "--only", ("gates", "written"))
    parser.add_argument("--decoder", type=Path, help="folder of the model that writes")
    parser.add_argument("--known", type=int, help="number of training entries")
    parser.add_argument("--epochs", type=int, help="training epochs")
    parser.add_argument(
        "--most",
        type=int,
        help="train at most this many cells; earlier results are shown too",
    )
    arguments = parser.parse_args()
    if arguments.only == ("written",) and arguments.decoder is None:
        parser.error("no decoder given: name a model's folder with --decoder")
    require(parser, arguments.data, webnlg.FILE, webnlg.KNOWN)
    device = Device.of(arguments.bundle, arguments.models)
    result: Figures = {"bundle": device.bundle.id}
    shown: list[Table | str] = []
    if "gates" in arguments.only:
        shown.append(_gates(arguments, device, result))
    if "written" in arguments.only and arguments.decoder:
        shown += _written(arguments, device, result)
    console.publish(arguments, result, *shown)


def _written(arguments: Namespace, device: Device, result: Figures) -> list[Table | str]:
    # The gates need no torch and no sacrebleu.
    from bench.generation import written
    from bench.generation.cells import Run
    from bench.generation.cloud import Cloud

    known = webnlg.read(arguments.data / webnlg.KNOWN)
    learnt = arguments.known or _KNOWN[arguments.quick]
    run = Run(
        device,
        Cloud(arguments.decoder, arguments.out / "cache" / "generation"),
        known[:: max(1, len(known) // learnt)][:learnt],
        webnlg.read(arguments.data / webnlg.FILE, _ASKED),
        arguments.epochs or _EPOCHS[arguments.quick],
    )
    result["written"] = figures = written.measure(run, arguments.models, known, arguments.most)
    return written.show(figures)


def _gates(arguments: Namespace, device: Device, result: Figures) -> Table:
    entries = webnlg.read(arguments.data / webnlg.FILE, _QUICK if arguments.quick else 1)
    found = {}
    with console.progress() as bar:
        for name, setting in SETTINGS.items():
            task = bar.add_task(name, total=len(entries))
            counted = gates.tally(device, entries, setting, partial(bar.advance, task))
            found[name] = gates.gates(counted)
    result |= {"entries": len(entries), "gates": found}
    return _table(found, len(entries))


def _table(found: dict[str, Any], entries: int) -> Table:
    return console.table(
        f"restoration on a cloud that repeats its prompt, {entries} texts, 95 % intervals",
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
