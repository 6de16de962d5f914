"""The table of an answer: each word's release and its other forms."""

from __future__ import annotations

import pytest

from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.number_table import NumberTable
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.release import Release
from sottovoce.core.privacy.surrogate_table import (
    Meaning,
    Place,
    forms,
    observe,
    table,
)

KEY = Key(bytes(range(32)))


def released(privatizer: Privatizer, document: str) -> Release:
    return privatizer.release(document, Setting("strong", policy="names"), key=KEY, session="s")


def test_a_place_has_its_neighbours_as_they_left(small_privatizer: Privatizer) -> None:
    release = released(small_privatizer, "See Anna Marsh, in the quiet garden of Mark's.")
    places = observe([release])
    assert [place.true for place in places] == ["Anna", "Marsh", "Mark"]
    anna, marsh, mark = places
    assert (anna.earlier, anna.before, anna.after) == ("", "see", marsh.released.lower())
    assert (marsh.earlier, marsh.before, marsh.after) == ("see", anna.released.lower(), "in")
    assert (anna.within, marsh.within, mark.within) == (2, 1, 0)
    assert (mark.after, mark.quoted) == ("s", True)
    assert [place.kind for place in places] == ["PERSON"] * 3


def test_what_need_not_be_turned_back_is_observed_where_it_looks_like_it(
    small_privatizer: Privatizer,
) -> None:
    first = released(small_privatizer, "A lamp for Zyxglorp")
    (place,) = observe([first])
    again = released(small_privatizer, f"a lamp and {place.released}")
    found = observe([again], known=[place._replace(released="lamp")])
    assert Place("lamp", "lamp", "NOUN", "", "a", "and") in found
    assert observe([released(small_privatizer, "a lamp")]) == []


@pytest.mark.parametrize(
    ("place", "others"),
    [
        (Place("cask", "washer", "UNLISTED"), {"casks": "washers"}),
        (Place("City", "box", "NOUN"), {"Citys": "boxes"}),
        (Place("city", "dogs", "NOUN"), {"cities": "dogs", "citys": "dogs"}),
        (Place("Lowell", "Marsh", "PERSON"), {"Lowells": "Marshes"}),
        (Place("two", "nine", "NUMBER"), {}),
        (Place("12,482", "90,001", "IDENTIFIER"), {"12482": "90001"}),
        (Place("1971-10-02", "2015-06-12", "IDENTIFIER"), {"1971": "2015"}),
        (Place("QK18", "AX68", "IDENTIFIER"), {}),
    ],
)
def test_other_forms(place: Place, others: dict[str, str]) -> None:
    exact, *derived = forms(place)
    assert exact == place
    assert {form.released: form.true for form in derived} == others


def test_signs_around_are_no_part_of_it() -> None:
    assert [form[:2] for form in forms(Place("£3.50", "£4.10", "IDENTIFIER"))] == [("3.50", "4.10")]
    assert forms(Place("🎉", "😀", "UNLISTED")) == []
    assert forms(Place("+44", "0044", "IDENTIFIER")) == []


def test_a_surrogate_goes_before_the_plural_of_another() -> None:
    places = [Place("cask", "washer", "UNLISTED"), Place("casks", "Zyxglorp", "UNLISTED")]
    found = table(places, frozenset(), lambda word: False)
    assert list(found["casks"].meanings) == ["zyxglorp"]
    assert table([Place("lamp", "lamp", "NOUN")], frozenset(), lambda word: False) == {}


@pytest.mark.parametrize(
    ("came", "shown"),
    [("Marcus", "McDonald"), ("MARCUS", "MCDONALD"), ("marcus", "mcdonald")],
)
def test_case(came: str, shown: str) -> None:
    assert Meaning({"Marcus": "McDonald"}).spelled(came) == shown


def test_case_where_it_is_kept() -> None:
    assert Meaning({"ACME": "IBM"}).spelled("Acme") == "IBM"
    assert Meaning({"cask": "iPhone"}).spelled("Cask") == "IPhone"
    assert Meaning({"QK-1": "ax-2"}).spelled("Qk-1") == "ax-2"


@pytest.mark.parametrize(
    ("released", "true", "others"),
    [
        ("/home/washer/notes", "/home/marsh/notes", {"washer": "marsh"}),
        ("C:\\users\\washer", "C:\\users\\marsh", {"washer": "marsh"}),
        ("user=cask", "user=anna", {"cask": "anna"}),
        ("/home/ned/notes", "/home/bob/notes", {}),
        ("/home/washer2/notes", "/home/marsh1/notes", {}),
        ("washer.notes", "marsh.notes", {}),
        ("to/washer@mail", "to/marsh@mail", {}),
        ("ftp://host/washer", "ftp://host/marsh", {}),
        ("washer.example.org/notes", "marsh.example.org/notes", {}),
        ("https://washer", "https://marsh/x", {}),
        ("-12345", "-67890", {}),
        ("+44-20-123", "+44-20-456", {"123": "456"}),
        ("ab-12-cd", "ef-34-gh", {}),
        ("12.5", "99.7", {}),
        ("192.168.100.200", "203.113.101.102", {}),
        ("1234-x", "567-y", {"1234": "567"}),
        ("1,234-5,678", "9,876-5,432", {"1234-5678": "9876-5432", "234": "876", "678": "432"}),
    ],
)
def test_the_parts_of_an_identifier_that_may_come_alone(
    released: str, true: str, others: dict[str, str]
) -> None:
    exact, *derived = forms(Place(released, true, "IDENTIFIER"))
    assert exact.true == true.lstrip("/+-")
    assert {form.released: form.true for form in derived} == others


@pytest.mark.parametrize(
    ("released", "kind", "weak"),
    [
        ("nine", "NUMBER", True),
        ("Z", "PERSON", True),
        ("Al", "PERSON", False),
        ("ab1d", "IDENTIFIER", True),
        ("a1-b2", "IDENTIFIER", True),
        ("ab12x", "IDENTIFIER", False),
        ("123", "IDENTIFIER", False),
    ],
)
def test_short_numbers_and_single_letters_are_weak(released: str, kind: str, weak: bool) -> None:
    found = table([Place(released, "true", kind)], frozenset(), lambda word: False)
    assert found[released.lower()].weak is weak


def test_a_number_comes_back_in_the_groups_of_the_answer() -> None:
    numbers = NumberTable(
        [
            Place("48213377", "31926819", "IDENTIFIER"),
            Place("020", "011", "IDENTIFIER", before="call"),
            Place("7946", "4960", "IDENTIFIER", before="020"),
            Place("WE99EVTE951998", "GB29NWBK601613", "IDENTIFIER"),
            Place("4,512.80", "9,001.10", "IDENTIFIER"),
            Place("cask", "washer", "UNLISTED"),
        ]
    )
    for came, true in (
        ("482 133 77", "319 268 19"),
        ("4821-3377", "3192-6819"),
        ("48213377", "31926819"),
        ("0207 946", "0114 960"),
        ("WE99 EVTE 9519 98", "GB29 NWBK 6016 13"),
    ):
        end = numbers.end(came + ", ", 0, final=False)
        assert end == len(came)
        assert numbers.rewritten(came) == true
        assert numbers.end(came, 0, final=False) is None
    for other in ("482 133 78", "4821-3377-5", "451280", "cask"):
        assert numbers.end(other, 0, final=True) == 0


def test_a_beginning_of_a_number_does_not_come_back_before_other_digits() -> None:
    numbers = NumberTable(
        [
            Place("020", "011", "IDENTIFIER", before="call"),
            Place("7946", "4960", "IDENTIFIER", before="020"),
            Place("0123", "0987", "IDENTIFIER", before="7946"),
        ]
    )
    assert numbers.end("0207 946 now", 0, final=True) == len("0207 946")
    assert numbers.end("0207 946 0999", 0, final=True) == 0


def test_a_name_with_coded_letters_is_one_name() -> None:
    places = [Place("Kerr", true, "PERSON") for true in ("Nair", "<b>N</b>air", "Ⓝⓐⓘⓡ")]
    (meaning,) = table(places, frozenset(), str.islower)["kerr"].meanings.values()
    assert meaning.spelled("Kerr") == "Nair"


def test_a_number_with_two_meanings_stays() -> None:
    places = [Place("482133", end, "IDENTIFIER") for end in ("111111", "222222")]
    assert not NumberTable(places).begins("482")


def test_a_given_name_beside_a_surname_may_come_as_its_initial() -> None:
    place = Place("Lowell", "Marsh", "PERSON", within=2)
    assert {form.released: form.true for form in forms(place)}["L"] == "M"
    for other in (place._replace(within=1), place._replace(kind="UNLISTED")):
        assert "L" not in {form.released for form in forms(other)}
