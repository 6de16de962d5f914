"""One name has one surrogate in a document, number words have none, groups stay together."""

import hashlib
import re
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.privacy.surrogates import words_of
from sottovoce.core.privacy.surrogates.surrogate import DrawnSurrogate, Surrogates


def keyed(*what: str) -> np.random.Generator:
    """A stream by name; any function will do that gives equal names equal streams."""
    return np.random.default_rng([*hashlib.sha256("|".join(what).encode()).digest()])


def words(*marked: str, start: int = 0) -> list[DrawnSurrogate]:
    """Parse ``KIND:text`` words, adjacent names by their looks; "-" is an undrawn word between."""
    parts = [(place, *each.partition(":")[::2]) for place, each in enumerate(marked, start)]
    kinds = ["-", *(kind for _, kind, _ in parts), "-"]
    return [
        DrawnSurrogate(place, kind, text, text.lower(), kinds[n] != "-", kinds[n + 2] != "-")
        for n, (place, kind, text) in enumerate(parts)
        if kind != "-"
    ]


def replaced(*marked: str) -> list[str]:
    found = Surrogates(keyed).replace(words(*marked))
    return [found[place] for place in sorted(found)]


def test_a_name_is_one_name_throughout_whatever_its_case() -> None:
    first, again, loud = replaced("PERSON:Anna", "-", "PERSON:Anna", "-", "PERSON:ANNA")
    assert first == again == loud.capitalize()
    assert loud.isupper()
    assert first.lower() in words_of("given")


def test_it_is_so_whatever_chance_answers() -> None:
    random = np.random.default_rng(5)
    found = Surrogates(lambda *_: random).replace(words(*["PERSON:Anna", "-"] * 9))
    assert len(set(found.values())) == 1


def test_it_is_across_windows_too() -> None:
    surrogates = Surrogates(keyed)
    one = surrogates.replace(words("PERSON:Anna", "PERSON:Smith"))
    two = surrogates.replace(words("PERSON:Smith", start=100))
    assert list(one) == [0, 1]
    assert list(two) == [100]
    assert two[100] == one[1]
    assert one[1].lower() in words_of("family")


def test_words_of_a_name_have_roles_by_the_looks_of_their_neighbours() -> None:
    bank, asia = replaced("ORGANISATION:Bank", "ORGANISATION:Asia")
    assert bank.lower() in words_of("organisations")
    assert asia.lower() in words_of("organisation_tails")


def test_names_that_do_not_stand_side_by_side_are_two() -> None:
    one, two = replaced("PERSON:Anna", "-", "PERSON:Lee")
    assert one.lower() in words_of("given")
    assert two.lower() in words_of("given")


def test_number_words_do_not_show_that_they_are_equal() -> None:
    found = replaced(*["NUMBER:five"] * 60)
    assert len(set(found)) == 10
    assert found == replaced(*["NUMBER:two"] * 60)


def test_a_number_in_groups_is_one_number() -> None:
    texts = ["4111", "1111", "1111", "1111"]
    found = replaced(*(f"IDENTIFIER:{text}" for text in texts))
    assert list(map(len, found)) == [4, 4, 4, 4]
    card = "".join(found)
    doubled = [sum(divmod(2 * int(digit), 10)) for digit in card[-2::-2]]
    assert (sum(doubled) + sum(map(int, card[::-2]))) % 10 != 0
    code, *phone = replaced("IDENTIFIER:12", "IDENTIFIER:555", "IDENTIFIER:010", "IDENTIFIER:2233")
    assert len(code) == 2
    assert phone[1] == "555"
    assert phone[2].startswith("01")


def test_an_identifier_is_the_same_throughout_and_others_are_others() -> None:
    one, other, again = replaced(
        "IDENTIFIER:a@b.org", "-", "IDENTIFIER:c@b.org", "-", "IDENTIFIER:a@b.org"
    )
    assert one == again != other


@pytest.mark.parametrize(
    ("kind", "name"),
    [("NAME", "family"), ("UNLISTED", "words"), ("SYM", "words"), ("OTHER", "others")],
)
def test_kinds_and_their_lists(kind: str, name: str) -> None:
    assert replaced(f"{kind}:blorp")[0] in words_of(name)


def test_two_names_share_no_surrogate() -> None:
    kinds = [("PERSON", 300), ("PLACE", 120), ("UNLISTED", 150)]
    marked = [f"{kind}:x{'abcdefghij'[n % 10]}q{n}" for kind, most in kinds for n in range(most)]
    found = replaced(*(each for name in marked for each in (name, "-")))
    assert len(set(found)) == len(found)


def test_there_are_never_too_many_names() -> None:
    marked = [f"PLACE:x{n}" for n in range(600)]
    assert len(replaced(*(each for name in marked for each in (name, "-")))) == 600


KINDS = ("PERSON", "PLACE", "ORGANISATION", "OTHER", "NAME", "NUMBER", "ORIGIN", "UNLISTED", "X")
TEXTS = st.text(st.characters(exclude_categories=("Cs", "Z", "Cc")), min_size=1, max_size=9)


@given(
    st.lists(st.tuples(st.sampled_from(KINDS), TEXTS, st.integers(1, 3)), max_size=20),
    st.integers(0, 2**32),
)
def test_every_word_gets_one(drawn: list[tuple[str, str, int]], seed: int) -> None:
    place, marked = 0, []
    for kind, text, step in drawn:
        place += step
        marked.append(DrawnSurrogate(place, kind, text, text.lower()))
    random = np.random.default_rng(seed)
    found = Surrogates(lambda *_: random).replace(marked)
    assert sorted(found) == [word.place for word in marked]
    assert all(found.values())


def test_exchanging_a_name_for_another_of_its_shape_changes_no_other() -> None:
    def document(name: str) -> list[str]:
        return replaced(f"PERSON:{name}", "-", "PLACE:Rome", "-", "NUMBER:six", "-", "PERSON:Bo")

    assert document("Anna")[1:] == document("Wolfgang")[1:]


@pytest.mark.parametrize(
    "text",
    [
        "M-I-A",
        "m-i-a",
        "M. I. A",
        "M  I  A",
        "M\u2013I\u2013A",
        "M.I.A.",
        "E\u0301-l-i",
        "М-и-ш-а",
        "K 1 A 0 B",
    ],
)
def test_a_spelled_name_keeps_its_joiners_and_cases(text: str) -> None:
    (found,) = replaced(f"IDENTIFIER:{text}")

    def shape(name: str) -> str:
        bare = "".join(sign for sign in name if not unicodedata.combining(sign))
        blank = re.sub(r"\d", "9", bare)
        return re.sub(r"[^\W\d_]", lambda one: "A" if one[0].isupper() else "a", blank)

    assert shape(found) == shape(text)
    assert found.replace("\u2013", "-").isascii()


def test_a_spelled_name_has_the_same_letters_however_it_is_spelled() -> None:
    ways = ("M-I-A", "m.i.a", "M. I. A", "m i a")
    found = replaced(*(f"IDENTIFIER:{way}" for way in ways))
    assert len({re.sub(r"\W", "", each).lower() for each in found}) == 1


def test_letters_of_a_spelled_name_are_independent() -> None:
    """Equal letters show nothing: each is drawn for itself."""
    alike = 0
    for number in range(200):
        found = Surrogates(lambda *what, number=number: keyed(*what, str(number)))
        drawn = found.replace(words("IDENTIFIER:A-n-n-a"))[0].lower()
        alike += drawn[2] == drawn[4]
    assert alike < 30  # Binomial(200, 1/26) exceeds that once in 10**9


def test_spelled_names_beside_numbers_in_groups_stay_apart() -> None:
    found = replaced("IDENTIFIER:M I A", "IDENTIFIER:+44", "IDENTIFIER:7700", "IDENTIFIER:900123")
    assert [len(each.split(" ")) for each in found] == [3, 1, 1, 1]
