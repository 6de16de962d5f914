"""Attackers are held to the words of subjects and objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.attacks.public import Public
from bench.generation.conversation import SETTINGS
from bench.generation.recovered import Attackers
from bench.generation.webnlg import Entry
from sottovoce.core.bundle.folder import Bundle
from tests.support.paths import MODELS

PLACES = ["Aarhus", "Lyon", "Budapest", "Harrietstown", "the old station"]
ENTRIES = [
    Entry(
        f"Ramona Sitwell | birth Place | {place}; {place} | opening Year | {year}",
        (f"Ramona Sitwell was born in {place}, which opened in {year}.",),
        (),
    )
    for year in range(1850, 1858)
    for place in PLACES
]


@pytest.fixture(scope="module")
def attackers(bundle_folder: Path) -> Attackers:
    """Return attackers who have read every second entry and attack the others."""
    public = Public(Bundle.open(bundle_folder), MODELS)
    return Attackers(public, ENTRIES[::2], 20, ENTRIES[1::2])


def test_drawn_names_are_nobodys_and_noise_hides_less_of_words_that_are_listed(
    attackers: Attackers,
) -> None:
    found = {name: attackers.recovered(SETTINGS[name]) for name in ("names", "T2T light")}
    names, noise = found["names"], found["T2T light"]
    # "the old station" leaves under `names`, a fifth of the places with three words of 5 to 9.
    assert 0 < names["verbatim"]["mean"] < 0.35
    for each in found.values():
        assert each["verbatim"]["mean"] <= each["attacked"]["mean"] < 1
        low, high = each["attacked"]["interval"]
        assert low <= each["attacked"]["mean"] <= high
    assert noise["verbatim"]["mean"] > 0
