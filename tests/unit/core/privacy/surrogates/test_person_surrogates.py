"""Each part of a name has one surrogate, drawn from its kind and gender and not from the name."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.privacy.noise import Random
from sottovoce.core.privacy.surrogates import words_of
from sottovoce.core.privacy.surrogates.person_surrogates import COINED, KnownNames, NameWord
from sottovoce.core.privacy.surrogates.surrogate import Owners


def keyed(*names: str) -> Random:
    seed = hashlib.sha256("\0".join(names).encode()).digest()
    return np.random.default_rng(int.from_bytes(seed, "big"))


def words(*names: str, kind: str = "PERSON", titled: bool = False) -> list[NameWord]:
    """The words of names; each name begins anew, and its words follow each other."""
    found: list[NameWord] = []
    for name in names:
        for number, text in enumerate(name.split(" ")):
            gap = "" if not number else ". " if len(found[-1].text) == 1 else " "
            place = found[-1].place + 1 + len(gap.strip()) if found else 0  # a mark is a word
            found.append(NameWord(place, kind, text, text.lower(), gap, titled))
    return found


def drawn(known: KnownNames, *names: str, kind: str = "PERSON") -> list[str]:
    return list(known.replace(words(*names, kind=kind)).values())


def test_a_part_keeps_its_surrogate_in_any_case_and_place() -> None:
    known = KnownNames(keyed, {})
    nadia, kerr = drawn(known, "Nadia Kerr")
    assert drawn(known, "nadia", "KERR", "Kerr Nadia", "Kerrs") == [
        *(nadia.lower(), kerr.upper(), kerr, nadia, f"{kerr}s"),
    ]


def test_persons_who_share_a_part_share_its_surrogate() -> None:
    known = KnownNames(keyed, {})
    nadia, kerr, tobias, same, first, petrov = drawn(
        known, "Nadia Kerr", "Tobias Kerr", "Nadia Petrov"
    )
    assert (same, first) == (kerr, nadia)
    assert len({nadia, kerr, tobias, petrov}) == 4


@pytest.mark.parametrize(
    ("name", "lists"),
    [
        ("Nadia", ("women",)),
        ("Tobias", ("men",)),
        ("Grace", ("women",)),
        ("Kim", ("women", "men")),
        ("Zyxgar", ("women", "men")),
        ("Kerr", ("surnames",)),
        ("Smith", ("surnames",)),
    ],
)
def test_kind_and_gender_are_kept(name: str, lists: Sequence[str]) -> None:
    choices = {word for file in lists for word in words_of(file)}
    for number in range(20):
        known = KnownNames(lambda *key, number=number: keyed(str(number), *key), {})
        assert drawn(known, name)[0].lower() in choices
        first, family = drawn(known, f"{name} Quorl")
        assert family.lower() in words_of("surnames")
        assert first.istitle()


@pytest.mark.parametrize(("gender", "file"), [("m", "men"), ("f", "women")])
def test_the_word_before_a_name_in_no_list_tells_its_gender(gender: str, file: str) -> None:
    for number in range(20):
        known = KnownNames(lambda *key, number=number: keyed(str(number), *key), {})
        one = [each._replace(gender=gender) for each in words("Zyxgar", "Quorvin Zorn")]
        first, other, last = known.replace(one).values()
        assert {first.lower(), other.lower()} <= {*words_of(file)}
        assert last.lower() in words_of("surnames")


def test_a_name_after_a_title_is_a_last_name() -> None:
    (found,) = KnownNames(keyed, {}).replace(words("Rose", titled=True)).values()
    assert found.lower() in words_of("surnames")


@pytest.mark.parametrize("kind", ["PLACE", "ORGANISATION", "UNLISTED", "NAME"])
def test_what_is_no_person_becomes_none(kind: str) -> None:
    (found,) = drawn(KnownNames(keyed, {}), "Quorlmark", kind=kind)
    assert found.lower() in (words_of("places") if kind == "PLACE" else COINED)


def test_a_person_stays_one_where_it_is_taken_for_something_else() -> None:
    known = KnownNames(keyed, {})
    _, marsh = drawn(known, "Elena Marsh")
    assert drawn(known, "Marsh", kind="PLACE") == [marsh]
    both = words("Elena Marsh")
    both[1] = both[1]._replace(kind="PLACE")
    other = KnownNames(keyed, {})
    assert other.replace(both)[1].lower() in words_of("surnames")
    assert other.past.persons == {"elena", "marsh"}
    place = KnownNames(keyed, {})
    drawn(place, "Marsh", kind="PLACE")
    assert (place.past.persons, place.past.private) == (set(), True)


def test_a_person_is_drawn_before_a_place_and_a_whole_name_before_a_part() -> None:
    surnames = words_of("surnames")
    mixed = [*words("Marsh", "Elena Marsh")]
    mixed[0] = mixed[0]._replace(kind="PLACE")
    assert KnownNames(keyed, {}).replace(mixed)[0].lower() in surnames
    assert drawn(KnownNames(keyed, {}), "Rose", "Anna Rose")[0].lower() in surnames
    alike = [*words("Marsh", "Marsh")]
    alike[0] = alike[0]._replace(kind="PLACE")
    assert KnownNames(keyed, {}).replace(alike)[0].lower() not in words_of("places")
    titled = [*words("Rose", "Rose")]
    titled[1] = titled[1]._replace(titled=True)
    assert KnownNames(keyed, {}).replace(titled)[0].lower() in surnames


def test_an_initial_is_that_of_the_given_name() -> None:
    known = KnownNames(keyed, {})
    nadia, kerr = drawn(known, "Nadia Kerr")
    assert drawn(known, "N Kerr") == [nadia[0], kerr]
    later = KnownNames(keyed, {})
    letter, family = drawn(later, "N Kerr")
    assert [drawn(later, "Nadia Kerr")[0][0], family] == [letter, drawn(later, "Kerr")[0]]


def test_an_initial_stands_for_the_first_of_three_names() -> None:
    owners: Owners = {}
    known = KnownNames(keyed, owners)
    nadia, middle, kerr = drawn(known, "Nadia Zyxgar Kerr")
    assert owners[f"{nadia[0].lower()}. {kerr.lower()}"] == ("initial", "n. kerr")
    assert drawn(known, "N Kerr", "Z Kerr") == [nadia[0], kerr, middle[0], kerr]


def test_initials_of_several_persons_are_drawn_apart() -> None:
    asked = [f"{letter} Quorl" for letter in "ABCDEFGH"]
    assert len({*drawn(KnownNames(keyed, {}), *asked)[::2]}) > 2
    assert drawn(KnownNames(keyed, {}), "K", kind="ORGANISATION") == []


def test_an_initial_is_kept_beside_the_surrogate_of_the_last_name() -> None:
    owners: Owners = {}
    known = KnownNames(keyed, owners)
    _, kerr = drawn(known, "Nadia Kerr")
    letter, _ = drawn(known, "T Kerr")
    assert owners[f"{letter.lower()}. {kerr.lower()}"] == ("initial", "t. kerr")
    assert not any("kerr" in drawn for drawn in owners)


@pytest.mark.parametrize(
    ("first", "gap", "second", "one_name"),
    [
        ("Nadia", "-", "Quorl", True),
        ("N", ".", "Quorl", True),
        ("N", ". ", "Quorl", True),
        ("Nadia", ". ", "Quorl", False),
        ("Nadia", "", "Quorl", False),
    ],
)
def test_what_stands_between_the_parts_of_one_name(
    first: str, gap: str, second: str, one_name: bool
) -> None:
    named = [
        NameWord(0, "PERSON", first, first.lower(), "", False),
        NameWord(1 + len(gap.strip()), "PERSON", second, second.lower(), gap, False),
    ]
    family = words_of("surnames")
    found = [
        [*KnownNames(lambda *key, n=n: keyed(str(n), *key), {}).replace(named).values()][1]
        for n in range(9)
    ]
    assert all(name.lower() in family for name in found) == one_name


@pytest.mark.parametrize(
    ("last", "gap", "first", "turned"),
    [
        ("Quorl", ", ", "Nadia", True),
        ("Quorl", ", ", "N", True),
        ("Quorl", ", ", "Zyxgar", False),
        ("Quorl", "", "Nadia", False),
        ("Grace", ", ", "Nadia", False),
    ],
)
def test_a_last_name_and_a_comma_stand_before_a_given_name_or_an_initial(
    last: str, gap: str, first: str, turned: bool
) -> None:
    named = words(last, first)
    named[1] = named[1]._replace(gap=gap)
    found = [
        KnownNames(lambda *key, n=n: keyed(str(n), *key), {}).replace(named)[0] for n in range(9)
    ]
    assert all(name.lower() in words_of("surnames") for name in found) == turned


def test_the_last_name_may_stand_first() -> None:
    turned = words("Kerr", "Nadia")
    turned[1] = turned[1]._replace(gap=", ")
    known = KnownNames(keyed, {})
    found = known.replace(turned)
    assert found[0].lower() in words_of("surnames")
    assert drawn(known, "N Kerr")[0] == found[1][0]


def test_it_goes_on_with_the_owners_of_a_conversation() -> None:
    owners: Owners = {}
    first = drawn(KnownNames(keyed, owners), "Nadia Kerr")
    later = KnownNames(lambda *key: keyed("other", *key), owners)
    assert drawn(later, "Nadia Kerr", "N Kerr") == [*first, first[0][0], first[1]]
    assert later.past.persons == {"nadia", "kerr"}
    assert drawn(KnownNames(keyed, owners), "N Kerr") == [first[0][0], first[1]]


def test_a_city_that_passed_is_no_surrogate() -> None:
    (usual,) = drawn(KnownNames(keyed, {}), "Quorlmark", kind="PLACE")
    known = KnownNames(keyed, {})
    known.keep_cities([usual.lower()])
    assert drawn(known, "Quorlmark", kind="PLACE") != [usual]
    assert known.past.cities == {usual.lower()}


def test_no_surrogate_is_a_word_of_the_text_or_a_known_name() -> None:
    (usual,) = drawn(KnownNames(keyed, {}), "Nadia")
    assert drawn(KnownNames(keyed, {}, f"Nadia met {usual}'s son"), "Nadia") != [usual]
    assert drawn(KnownNames(keyed, {"zelovek": ("PERSON", usual.lower())}), "Nadia") != [usual]
    assert drawn(KnownNames(keyed, {usual.lower(): ("PERSON", "ana")}), "Nadia") != [usual]


def test_many_persons_have_different_surrogates() -> None:
    letters = "abcdefghijklmnop"
    names = [f"Qua{one}{other} Zor{one}{other}" for one in letters for other in letters]
    found = drawn(KnownNames(keyed, {}), *names)
    assert len({*found}) == 512


def test_a_draw_does_not_depend_on_the_name() -> None:
    def fixed(*_: str) -> Random:
        return np.random.default_rng(7)

    assert drawn(KnownNames(fixed, {}), "Nadia Kerr") == drawn(KnownNames(fixed, {}), "Mia Vole")


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("nadia_kerr", "{0}_{1}"),
        ("nadiaKerr", "{0}{2}"),
        ("@nadia_kerr", "@{0}_{1}"),
        ("nadia.kerr@post.example", "{0}.{1}@drawn.example"),
        ("n.kerr@post.example", "{3}.{1}@drawn.example"),
        ("nkerr@post.example", "{3}{1}@drawn.example"),
        ("nadiakerr", "{0}{1}"),
        ("nadiapassport", "drawn@drawn.example"),
        ("nadia_passport", "drawn@drawn.example"),
        ("AX-68042", "drawn@drawn.example"),
    ],
)
def test_known_names_in_identifiers(text: str, shape: str) -> None:
    known = KnownNames(keyed, {})
    nadia, kerr = drawn(known, "Nadia Kerr")
    parts = nadia.lower(), kerr.lower(), kerr, nadia[0].lower()
    assert known.within(text, "drawn@drawn.example") == shape.format(*parts)


def test_digits_beside_a_known_name_are_drawn() -> None:
    found, apart = set(), 0
    for number in range(20):
        known = KnownNames(lambda *key, number=number: keyed(str(number), *key), {})
        name = drawn(known, "Nadia")[0].lower()
        one = known.within("nadia82@post.example", "x@drawn.example")
        assert one.startswith(name)
        found.add(one[len(name) : -len("@drawn.example")])
        apart += known.within("nadia91@post.example", "x@drawn.example") != one
    assert len(found) > 10
    assert apart > 10
    assert all(digits.isdigit() and len(digits) == 2 for digits in found)


texts = st.text(max_size=6) | st.sampled_from(["N", "Kerr", "kerrs", "s", "İ", "O'Neill", "U.S."])
kinds = st.sampled_from(["PERSON", "PLACE", "ORGANISATION", "UNLISTED", "NUMBER"])
gaps = st.sampled_from(["", " ", "-", ". ", ", "])


@given(st.lists(st.tuples(texts, kinds, gaps, st.booleans()), max_size=12))
def test_any_words_have_a_surrogate_and_keep_it(
    found: list[tuple[str, str, str, bool]],
) -> None:
    asked = [
        NameWord(place, kind, text, text.lower(), gap, titled)
        for place, (text, kind, gap, titled) in enumerate(found)
        if text
    ]
    owners: Owners = {}
    first = KnownNames(keyed, owners).replace(asked)
    assert all(first.values())
    assert KnownNames(keyed, owners).replace(asked) == first


def test_a_street_after_a_number_is_no_part_of_a_name_before_it() -> None:
    """ "Priya Nair, 12 Rose Lane": the mark and the number are words that get no surrogate here."""
    texts = [("Priya", "PERSON"), ("Nair", "PERSON"), ("Rose", "PLACE"), ("Lane", "PLACE")]
    for places in ((0, 1, 4, 5), (0, 1, 3, 4)):
        named = [
            NameWord(place, kind, text, text.lower(), " " if number else "", False)
            for number, (place, (text, kind)) in enumerate(zip(places, texts, strict=True))
        ]
        found = KnownNames(keyed, {}).replace(named)
        assert {found[place].lower() for place in places[2:]} <= set(words_of("places"))
        assert not {found[place].lower() for place in places[:2]} & set(words_of("places"))
