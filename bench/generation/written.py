"""Run the cells, and tabulate the answers' quality beside the published figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench import console
from bench.attacks.public import Public
from bench.console import Figures, Table
from bench.generation.cells import CELLS, CLEAR, Cell, Run, Texts
from bench.generation.conversation import SETTINGS
from bench.generation.judging import MEASURES, Judge, figure
from bench.generation.recovered import Attackers
from bench.generation.webnlg import Entry

__all__ = ["AIMS", "PUBLISHED", "aims", "measure", "rows", "show"]

PUBLISHED: Final = {
    "eta": [25, 75, 125, 175, None],
    "T2T": [30.9, 35.6, 45.2, 50.2, 75.2],
    "PCT2T": [55.3, 60.4, 65.7, 70.4, 75.1],
    "PCT2T, reconstruction": [63.7, 63.9, 67.1, 73.3, 75.1],
}
"""BLEU of Qwen2.5-3B with LoRA on all of WebNLG (RAPT v2, table IV), restored; None is clear."""

AIMS: Final = {"names": 0.9, "gain": 10.0}
"""Minimum share of the clear text's chrF under `names`, and minimum BLEU gained by restoration."""


_FITTED: Final = 300
"""Number of entries whose releases the attackers are fitted on."""


def measure(run: Run, models: Path, known: Sequence[Entry], most: int | None = None) -> Figures:
    """Run at most ``most`` of the missing cells, and judge all finished cells.

    Args:
        run: the inputs shared by all cells.
        models: folder of the shipped counts.
        known: entries that attackers have read.
        most: None for no limit.
    """
    found = {}
    for cell in CELLS:
        make = most is None or most > 0
        texts = run.texts(cell, make=False)
        if texts is None and make:
            console.STEPS.print(str(cell))
            texts = run.texts(cell)
            most = None if most is None else most - 1
        if texts is not None:
            found[cell] = texts
    attackers = Attackers(Public(run.device.bundle, models), known, _FITTED, run.asked)
    policies = dict.fromkeys(cell.policy for cell in found if cell.policy != CLEAR)
    recovered = {name: attackers.recovered(SETTINGS[name]) for name in policies}
    made = rows(found, recovered, Judge(run.asked))
    return {
        "decoder": run.cloud.decoder.name,
        "asked": len(run.asked),
        "known": len(run.known),
        "epochs": run.epochs,
        "versions": console.versions("torch", "transformers", "peft", "sacrebleu"),
        "rows": made,
        "aims": aims(made),
        "published": PUBLISHED,
    }


def rows(found: Mapping[Cell, Texts], recovered: Mapping[str, Figures], judge: Judge) -> list[Any]:
    """Return a row for each cell.

    A row holds the measures as written and as restored, the gain in BLEU by restoration, the share
    of the clear text's chrF, and the attackers' recovery from the releases.
    """
    clear = judge.scores(found[Cell(CLEAR)].restored) if Cell(CLEAR) in found else None
    made = []
    for cell, texts in found.items():
        written, restored = judge.scores(texts.written), judge.scores(texts.restored)
        row: Figures = {"policy": cell.policy, "reconstruction": cell.reconstruction}
        row |= {"right": texts.run.right, "seconds": texts.run.seconds}
        row["written"] = {name: figure(written[name]) for name in MEASURES}
        row["restored"] = {name: figure(restored[name]) for name in MEASURES}
        if cell.policy != CLEAR:
            row["gain"] = figure(restored["bleu"] - written["bleu"])
            row |= recovered[cell.policy]
        if clear is not None:
            row["of_clear"] = figure(restored["chrf"] / clear["chrf"])
        made.append(row)
    return made


def aims(found: list[Any]) -> Figures:
    """Return the state of each aim.

    "kept" means that the interval reaches the aim, "open" that only the mean does, "missed" that
    neither does. None means that no figure is there. The gain stays None until all levels of
    `SETTINGS` were run without reconstruction.
    """
    plain = {row["policy"]: row for row in found if not row["reconstruction"]}
    of_clear = plain.get("names", {}).get("of_clear")
    gains = [plain[name]["gain"] for name in SETTINGS if name in plain]
    return {
        "names": _verdict([of_clear], AIMS["names"]) if of_clear else None,
        "gain": _verdict(gains, AIMS["gain"]) if len(gains) == len(SETTINGS) else None,
    }


def _verdict(found: list[Figures], aim: float) -> str:
    if any(each["mean"] < aim for each in found):
        return "missed"
    return "kept" if all(each["interval"][0] >= aim for each in found) else "open"


def show(figures: Figures) -> list[Table | str]:
    """Return the table of quality beside clear text, and the state of the aims."""
    names = figures["aims"]["names"] or "not measured"
    gain = figures["aims"]["gain"] or "not all were run"
    table = console.table(
        f"WebNLG, {figures['asked']} entries held out, {figures['known']} learnt from, "
        f"{figures['epochs']} epoch(s); as written, as restored, 95 % intervals",
        ("policy", "rec."),
        (
            *("BLEU", "restored", "", "gain", "chrF", "restored", "of clear", ""),
            *("entities", "restored", "verbatim", "attacked", ""),
        ),
        (
            (
                row["policy"],
                "yes" if row["reconstruction"] else "",
                _of(row["written"]["bleu"], 1),
                *_both(row["restored"]["bleu"], 1),
                _of(row.get("gain"), 1),
                _of(row["written"]["chrf"], 1),
                _of(row["restored"]["chrf"], 1),
                *_both(row.get("of_clear"), 2),
                _of(row["written"]["entities"], 2),
                _of(row["restored"]["entities"], 2),
                _of(row.get("verbatim"), 2),
                *_both(row.get("attacked"), 2),
            )
            for row in figures["rows"]
        ),
    )
    said = (
        f"names at least {AIMS['names']:.2f} of clear in chrF: {names}; restoration adds at least"
        f" {AIMS['gain']:.0f} BLEU at every level: {gain}"
    )
    return [table, said]


def _of(found: Figures | None, digits: int) -> str:
    return console.share(found["mean"] if found else None, digits)


def _both(found: Figures | None, digits: int) -> tuple[str, str]:
    return _of(found, digits), console.span(found["interval"] if found else None, digits)
