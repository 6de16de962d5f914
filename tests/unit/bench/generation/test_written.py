"""The table states figures beside clear text, and whether they meet the aims."""

from __future__ import annotations

import pytest

from bench.generation.cells import CLEAR, Cell, Texts
from bench.generation.cloud import Written
from bench.generation.conversation import SETTINGS
from bench.generation.webnlg import Entry

pytest.importorskip("sacrebleu", reason="run `make install`")
from bench.generation import written
from bench.generation.judging import Judge

ENTRIES = [
    Entry("", (f"Ramona Sitwell was born in {place} in {year}.",), ("Ramona Sitwell", place))
    for place, year in [("Aarhus", 1859), ("Lyon", 1911), ("Budapest", 1932), ("Utrecht", 1947)]
]
RIGHT = tuple(entry.texts[0] for entry in ENTRIES)
WRONG = tuple(text.replace("Ramona Sitwell was", "Ida Holm is") for text in RIGHT)
RECOVERED = {"verbatim": {"mean": 0.25, "interval": [0.1, 0.4]}}
RECOVERED["attacked"] = {"mean": 0.5, "interval": [0.3, 0.7]}


def texts(before: tuple[str, ...], after: tuple[str, ...]) -> Texts:
    return Texts(before, after, Written(before, 0.5, 1.0))


def found(names: tuple[str, ...]) -> list[object]:
    cells = {Cell(CLEAR): texts(RIGHT, RIGHT), Cell("names"): texts(WRONG, names)}
    return written.rows(cells, {"names": RECOVERED}, Judge(ENTRIES))


def test_both_are_judged_beside_clear_text() -> None:
    clear, names = found(RIGHT)
    assert clear["restored"]["bleu"]["mean"] == pytest.approx(100)  # type: ignore[index]
    assert "gain" not in clear  # type: ignore[operator]
    assert names["written"]["entities"]["mean"] == 0.5  # type: ignore[index]
    assert names["restored"]["entities"]["mean"] == 1  # type: ignore[index]
    before = names["written"]["bleu"]["mean"]  # type: ignore[index]
    assert names["gain"]["mean"] == pytest.approx(100 - before)  # type: ignore[index]
    assert names["gain"]["interval"][0] > 10  # type: ignore[index]
    assert names["of_clear"]["mean"] == pytest.approx(1)  # type: ignore[index]
    assert names["attacked"]["mean"] == 0.5  # type: ignore[index]


def row(policy: str, mean: float, low: float) -> dict[str, object]:
    said = {"mean": mean, "interval": [low, mean + 3]}
    return {"policy": policy, "reconstruction": False, "gain": said, "of_clear": said}


def all_levels(mean: float = 13.0, low: float = 11.0, last: str = "T2T light") -> list[object]:
    return [row(name, *((mean, low) if name == last else (13.0, 11.0))) for name in SETTINGS]


def test_aims_are_kept_open_or_missed() -> None:
    assert written.aims(found(RIGHT))["names"] == "kept"
    assert written.aims(found(WRONG))["names"] == "missed"
    assert written.aims([row("names", 0.91, 0.84)])["names"] == "open"
    assert written.aims(all_levels())["gain"] == "kept"
    assert written.aims(all_levels(12.9, 9.7))["gain"] == "open"
    assert written.aims(all_levels(9.7, 7.1))["gain"] == "missed"


def test_nothing_is_said_of_every_level_until_all_were_run() -> None:
    assert written.aims(found(RIGHT)[:1]) == {"names": None, "gain": None}
    assert written.aims(found(RIGHT))["gain"] is None
    whole = all_levels()
    assert written.aims(whole[1:])["gain"] is None
    again = {**row("names", 13.0, 11.0), "reconstruction": True}
    assert written.aims([again, *whole[1:]]) == {"names": None, "gain": None}
