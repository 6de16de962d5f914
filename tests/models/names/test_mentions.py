"""Sentences of our own say where their names are, and their names are those of the lists."""

import numpy as np
import pytest

from sottovoce.core.errors import NotReady
from sottovoce.core.text.names import KINDS
from sottovoce.models.names.mentions import Lists, Mentions, fakers_lists

LISTS = Lists(
    first=("Anna", "Rose"),
    last=("Marsh", "Young"),
    cities=("Lakeville",),
    countries=("Freedonia",),
    streets=("Rue Longue",),
    firms=("Acme",) * 500,
)


def mentions(seed: int = 1, lists: Lists = LISTS) -> Mentions:
    ordinary = {"rose", "young", "long"}.__contains__
    return Mentions(lists, ordinary, ["river", "blue"], np.random.default_rng(seed))


def test_every_template_can_be_filled_and_every_kind_is_named() -> None:
    made = mentions()
    kinds = set()
    for _ in range(3_000):
        pieces = made.sentence()
        text = "".join(piece for piece, _ in pieces)
        assert "{" not in text
        assert "  " not in text.replace(", ", " ")
        kinds |= {kind for piece, kind in pieces if piece}
    assert kinds == {*KINDS, "?"}


def test_names_come_from_the_lists() -> None:
    made = mentions()
    people = {made.draw("person") for _ in range(300)}
    assert {"Anna", "Rose", "Marsh", "Young", "Anna Young"} <= people
    assert {made.draw("place") for _ in range(300)} >= {"Freedonia", "Rue Longue"}
    assert "Acme" in {made.draw("org") for _ in range(300)}


def test_half_of_the_names_are_ordinary_words() -> None:
    lists = Lists(("Rose", *(f"Anna{i}" for i in range(99))), *[("Long",)] * 5)
    made = mentions(2, lists)
    pieces = [piece for _ in range(3_000) for piece in made.sentence()]
    alone = [text for text, kind in pieces if kind == "PERSON" and text in lists.first]
    # Half of them and one in a hundred of the rest: .505; 5 standard errors either side.
    assert len(alone) > 500
    assert abs(alone.count("Rose") / len(alone) - 0.505) < 5 * 0.5 / len(alone) ** 0.5


def test_the_same_seed_makes_the_same_sentences() -> None:
    one, other, third = mentions(3), mentions(3), mentions(4)
    first = [one.sentence() for _ in range(20)]
    assert first == [other.sentence() for _ in range(20)]
    assert first != [third.sentence() for _ in range(20)]


def test_lists_come_from_faker_or_from_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "faker", None)
    with pytest.raises(NotReady, match="Faker") as raised:
        fakers_lists()
    assert "pip install faker" in str(raised.value.fix)


def test_fakers_lists_name_the_world() -> None:
    pytest.importorskip("faker", reason="only training needs its lists")
    lists = fakers_lists()
    assert {"Germany", "Brazil"} <= {*lists.countries}
    assert len(lists.first) > 5_000
    assert len(lists.last) > 5_000
    assert "Smith" in lists.last
    assert all(name == name.strip() for name in (*lists.first, *lists.cities))
