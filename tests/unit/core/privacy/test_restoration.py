"""A faithful echo comes back as typed, however it is cut, and nothing else changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sottovoce.core.privacy.address_forms import LONGEST_UNIT
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.release import Release
from sottovoce.core.privacy.restoration import Restoration, Restored
from sottovoce.core.privacy.surrogate_table import TOKEN, Place, forms, observe

KEY = Key(bytes(range(32)))
NAMES = Setting("strong", policy="names")
TYPED = (
    *("Anna", "Marsh", "ANNA", "Mark", "Little Rock", "York", "Paris", "Zyxglorp", "washers"),
    *("five", "Two", "hundred", "French", "english", "U.S.", "O'Hara", "北京", "J", "iPhone"),
    *("+44 7700 900123", "AX-68042", "12:45pm", "£1,200.50", "5.2%", "7", "12", "1971", "21st"),
    *("anna.marsh@acme.org", "https://acme.org/x?y=1", "@anna", "10.0.0.1", "1234-5678"),
    *("the", "garden", "is", "very", "quiet", "and", "I", "see", "lamp", "with"),
)
GAPS = (" ", " ", " ", " ", ", ", ". ", "\n", "'s ", "' ", " (", ") ", ": ", "\n\n- ", "? ", "-")

documents = st.lists(st.tuples(st.sampled_from(TYPED), st.sampled_from(GAPS)), min_size=1).map(
    lambda pairs: "".join(word + gap for word, gap in pairs)
)


def released(privatizer: Privatizer, document: str, session: str = "s") -> Release:
    return privatizer.release(document, NAMES, key=KEY, session=session)


def stand_for_two(places: Sequence[Place]) -> bool:
    """Whether any surrogate, in any of its forms, stands for two things."""
    meant: dict[str, set[str]] = defaultdict(set)
    for place in places:
        for form in forms(place):
            meant[form.released.lower()].add(form.true)
    return any(len({true.lower() for true in found}) > 1 for found in meant.values())


def in_pieces(restoration: Restoration, text: str, cuts: Sequence[int]) -> Restored:
    stream, out, start = restoration.stream(), [], 0
    for cut in (*cuts, len(text)):
        out.append(stream.feed(text[start:cut]))
        start = cut
    rest = stream.finish()
    return Restored("".join(out) + rest, stream.restored, stream.doubtful, stream.addresses)


@settings(max_examples=60)
@given(st.lists(documents, min_size=1, max_size=3))
@example(["7 +44 7700 900123-Anna "])
@example(["7 7 10.0.0.1 "])
def test_what_a_faithful_cloud_echoes_comes_back(
    small_privatizer: Privatizer, turns: list[str]
) -> None:
    releases = [released(small_privatizer, turn) for turn in turns]
    places = observe(releases)
    restoration = Restoration(places, frozenset({"i", "the", "two", "is", "and"}), str.isalpha)
    for turn, release in zip(turns, releases, strict=True):
        back = restoration.restore(release.text)
        # An address that stands with other words in one run of characters was not released whole.
        if back.addresses:
            continue
        if not stand_for_two(places):
            assert not back.doubtful
        if not back.doubtful:
            assert back.text == turn


def test_a_name_written_as_one_word_gives_no_initial_for_what_follows_it() -> None:
    places = [
        Place("Ivan", "Anna", "PERSON", "", "", "albrecht", within=2),
        Place("Albrecht", "Kerr", "PERSON", "", "ivan", "called", within=1),
    ]
    said = "Ivan Albrecht called. I called back, I. Albrecht and IvanAlbrecht called."
    expected = "Anna Kerr called. I called back, A. Kerr and AnnaKerr called."
    assert Restoration(places).restore(said).text == expected


@pytest.mark.parametrize("number", range(50))
def test_spelled_names_come_back_under_any_key(small_privatizer: Privatizer, number: int) -> None:
    names = ("M-A-R-I-A", "j. o. n. e. s", "M I R A L", "É.l.i.s.e")
    said = "".join(f"the actor is {name}, and {name} has a lamp. " for name in names)
    key = Key(bytes((number,)) * 32)
    release = small_privatizer.release(said, NAMES, key=key, session="s")
    back = Restoration(observe([release]), frozenset({"the", "is", "and"}), str.isalpha).restore(
        release.text
    )
    assert not [name for name in names if name in release.text]
    assert back.text == said
    assert not back.doubtful


SAID = (
    "Ida ida IDA Idas Ida's Lowell cask CASKS casks' 482 4 4.5 48217 9,482.5 9482.5 two Upper Rome"
    " the QK-482 qk-482 QK a'b pat@example.org pat@example pat . , ' -"
)
pieces = st.one_of(
    st.sampled_from(SAID.split()),
    st.sampled_from([" ", " ", " ", "\n", "  ", " " * 20, "", "x" * 70, "ß", "é", "北京"]),
    st.text(max_size=3),
)
MAP = (
    Place("Ida", "Ramona", "PERSON", "", "call", "lowell", within=2),
    Place("Ida", "Elena", "PERSON", "", "ask", "now"),
    Place("Lowell", "Sitwell", "PERSON", "call", "ida", "", within=1),
    Place("cask", "washer", "UNLISTED", "", "the", "leaks"),
    Place("482", "911", "IDENTIFIER", "", "call", ""),
    Place("4", "7", "IDENTIFIER", "", "the", "casks"),
    Place("9,482.5", "1,234.5", "IDENTIFIER", "", "pay", ""),
    Place("QK-482", "AX-007", "IDENTIFIER", "", "order", ""),
    Place("pat@example.org", "ramona@acme.org", "IDENTIFIER", "", "to", ""),
    Place("two", "nine", "NUMBER", "", "the", "cask"),
    Place("Upper", "New", "PLACE", "", "in", "rome", within=2),
    Place("Rome", "York", "PLACE", "in", "upper", "", within=1),
)


@settings(max_examples=200)
@given(st.lists(pieces, max_size=30).map("".join), st.data())
def test_chunking_never_changes_the_result(text: str, data: st.DataObject) -> None:
    restoration = Restoration(MAP, frozenset({"the", "upper"}), str.islower)
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8).map(sorted))
    whole = restoration.restore(text)
    assert in_pieces(restoration, text, cuts) == whole
    assert in_pieces(restoration, text, range(len(text))) == whole


HARD = (
    "dial 482.5, 482-1 or 482. dial 482: 1 James' car, James's, 'James' said",
    "QK-482X QK-4825 QK-48 QK-482- pat@example.organ pat@example.org",
    "call Ida" + " " * 15 + "Lowell, call Ida" + " " * 17 + "Lowell, ask Ida nowhere",
    "x" * 66 + "Lowell " + "x" * 75 + "北 Ida y",
    "x" * 63 + "Ida" + "x" * 64 + " dial 482" + "é" * 80 + " Ida 北Ida",
    "ask Ida "
    + "now" * 30
    + " ask Ida n"
    + "o" * 62
    + " a" * 30
    + " "
    + "x" * 90
    + "北 Ida Lowell",
)


@pytest.mark.parametrize("text", HARD)
def test_it_may_be_cut_anywhere(text: str) -> None:
    more = Place("James", "Anna", "PERSON"), Place("Ida", "Li", "PERSON", "", "北")
    restoration = Restoration([*MAP, *more])
    whole = restoration.restore(text)
    assert in_pieces(restoration, text, range(len(text))) == whole
    for cut in range(len(text)):
        assert in_pieces(restoration, text, [cut]) == whole


@settings(max_examples=100)
@given(st.lists(pieces, max_size=30).map("".join))
def test_nothing_comes_from_another_conversation(text: str) -> None:
    other = Restoration([Place("Ida", "Theodora", "PERSON"), Place("cask", "kiln", "UNLISTED")])
    other.restore(text)
    known = {
        word.lower() for place in MAP for form in forms(place) for word in TOKEN.findall(form.true)
    }
    came = {word.lower() for word in TOKEN.findall(text)}
    shown = {word.lower() for word in TOKEN.findall(Restoration(MAP).restore(text).text)}
    assert shown <= came | known
    assert Restoration([]).restore(text).text == text


def held_back(restoration: Restoration, text: str) -> list[str]:
    """Return the held text after each character."""
    stream, given_out, held = restoration.stream(), "", []
    for place in range(len(text)):
        given_out += stream.feed(text[place])
        came = restoration.restore(text[: place + 1]).text
        held.append(came[len(given_out) :] if came.startswith(given_out) else text)
    return held


def test_two_words_at_most_are_held_back() -> None:
    restoration = Restoration(MAP)
    text = "please call Ida Lowell of Upper Rome about the 4 casks and two others " * 3
    held = held_back(restoration, text)
    assert max(len(part.split()) for part in held) <= 2
    assert sum(len(part.split()) > 1 for part in held) < len(text) / 4
    plain = "nothing in this sentence stands for anything"
    assert max(map(len, held_back(restoration, plain))) <= len("sentence")


@pytest.mark.parametrize(
    "start", ["x" * 100_000, "9" * 100_000, "Ida" + " " * 100_000, "Ida " + "n" * 90]
)
def test_a_word_without_end_is_not_held_back(start: str) -> None:
    stream = Restoration(MAP).stream()
    given_out = stream.feed(start)
    assert len(start) - len(given_out) < LONGEST_UNIT + 90
    assert given_out + stream.feed("Ida") + stream.finish() == start + "Ida"


@pytest.mark.parametrize(
    ("came", "turned"),
    [
        ("Lowell's", "Sitwell's"),
        ("LOWELL", "SITWELL"),
        ("lowell", "sitwell"),
        ("The Lowells left.", "The Sitwells left."),
        ("Cask and casks, CASKS!", "Washer and washers, WASHERS!"),
        ("the casks' lids", "the washers' lids"),
        ("Lowell-based", "Sitwell-based"),
        ("pay 9482.5, or 9,482.5", "pay 1234.5, or 1,234.5"),
        ('**Lowell**: "Lowell"\n| Lowell |', '**Sitwell**: "Sitwell"\n| Sitwell |'),
        ("qk-482 or QK-482", "AX-007 or AX-007"),
        ("call Pat@example.org.", "call ramona@acme.org."),
        ("dial 482", "dial 911"),
        ("casket lowellite 4824", "casket lowellite 4824"),
    ],
)
def test_forms_of_a_surrogate(came: str, turned: str) -> None:
    assert Restoration(MAP).restore(came).text == turned


def test_a_surrogate_of_two_things_is_told_by_its_neighbours() -> None:
    restoration = Restoration(MAP)
    assert restoration.restore("Ida Lowell came").text == "Ramona Sitwell came"
    assert restoration.restore("you may ask Ida").text == "you may ask Elena"
    alone = restoration.restore("so Ida said")
    assert (alone.text, alone.doubtful) == ("so Ida said", {"Ida": 1})
    both = restoration.restore("so call Ida now")  # between the neighbours of either
    assert (both.text, both.doubtful) == ("so call Ida now", {"Ida": 1})
    further = Restoration(
        [
            Place("Ida", "Ramona", "PERSON", "please", "call", "now"),
            Place("Ida", "Elena", "PERSON", "never", "call", "now"),
        ]
    )
    assert further.restore("never call Ida now").text == "never call Elena now"


def test_what_comes_often_by_itself_needs_its_neighbour() -> None:
    restoration = Restoration(MAP, frozenset({"the", "upper"}), str.islower)
    assert restoration.restore("buy 4 casks").text == "buy 7 washers"
    assert restoration.restore("4. Open the lid").text == "4. Open the lid"
    assert restoration.restore("the 4 lids").text == "the 4 lids"  # "the" is before anything
    assert restoration.restore("two cask").text == "nine washer"
    assert restoration.restore("in two minutes").text == "in two minutes"
    assert restoration.restore("4.5 casks, 4-5 casks, 1/4 casks").text == (
        "4.5 washers, 4-5 washers, 1/4 washers"
    )
    assert restoration.restore("It is in Upper Rome").text == "It is in New York"
    assert restoration.restore("Upper floors").text == "Upper floors"
    assert restoration.restore("Then Rome. Rome wasn't built").text == (
        "Then York. Rome wasn't built"
    )


def test_what_was_typed_as_well_is_told_from_its_surrogate(small_privatizer: Privatizer) -> None:
    release = released(small_privatizer, "Zyxglorp")
    surrogate = release.text
    places = [
        Place(surrogate, "Zyxglorp", "UNLISTED", "", "a", "leaks"),
        Place(surrogate, surrogate, "NOUN", "", "the", "sings"),
    ]
    back = Restoration(places).restore(f"a {surrogate} leaks, the {surrogate} sings")
    assert back.text == f"a Zyxglorp leaks, the {surrogate} sings"
    assert back.restored == {(surrogate, "Zyxglorp"): 1}


def test_an_apostrophe_alone_becomes_one_and_an_s() -> None:
    restoration = Restoration([Place("James", "Anna", "PERSON"), Place("cask", "bus", "UNLISTED")])
    assert restoration.restore("James' car").text == "Anna's car"
    assert restoration.restore("'James' said he").text == "'Anna' said he"
    quoted = Restoration([Place("James", "Anna", "PERSON", quoted=True)])
    assert quoted.restore("James' car").text == "Anna' car"
    assert restoration.restore("cask, casks").text == "bus, bus"


def test_facts_and_verbs_stay_as_they_came(small_privatizer: Privatizer) -> None:
    release = small_privatizer.release("I cough, see and love", Setting("strong"), key=KEY)
    assert Restoration(observe([release])).restore(release.text).text == release.text


DRAWN = Place("33", "17", "IDENTIFIER", "", "is", "37")
ORDER = Place("94740", "48213", "IDENTIFIER", "", "order", "")


@pytest.mark.parametrize(
    "text",
    ["a947401b", "9,94740", "94740.50", "1-94740", "x_94740", "94740_x", "no94740", "AX-94740"],
)
def test_a_drawn_number_comes_back_only_as_the_whole_number(text: str) -> None:
    assert Restoration([ORDER]).restore(f"see {text} now").text == f"see {text} now"
    assert Restoration([ORDER]).restore("see (94740), #94740.").text == "see (48213), #48213."


def test_the_parts_of_an_amount_mean_nothing() -> None:
    amount = Place("£4,512.80", "£9,001.10", "IDENTIFIER", "", "pay", "")
    assert (
        Restoration([amount]).restore("pay £4,512.80 by bus 512").text == "pay £9,001.10 by bus 512"
    )


def test_numbers_that_may_be_computed_from_drawn_ones_are_doubtful() -> None:
    said = ["What is 33 * 37? The year is 2024, the rest 4,500."]
    restoration = Restoration([DRAWN], said=said)
    back = restoration.restore("33 * 37 = 1221, or 1,221.5. Not 12, 4500, 4,500 or in 1999.")
    assert back.text.startswith("17 * 37")
    assert back.doubtful == {"1221": 1, "1,221.5": 1}
    assert not Restoration([], said=said).restore("it is 1221").doubtful
    assert not Restoration([ORDER], said=said).restore("in 999 days").doubtful


@pytest.mark.parametrize(
    ("answer", "doubtful"),
    [
        ("so 1221 in all", ["1221"]),
        ("1221", ["1221"]),
        ("1221.", ["1221"]),
        ("1221, 5", ["1221"]),
        ("£1,221.50!", ["1,221.50"]),
        ("1,234,567 in all", ["1,234,567"]),
        ("1,234,567.891 and 12,345,678", ["1,234,567.891", "12,345,678"]),
        ("1234567890123456789, 1,234,567,890,123,456,789,012,345,678", []),
        (f"{'9' * 60} {'1,' * 40}", []),
        ("2100 and 1899", ["2100", "1899"]),
        ("122", ["122"]),
        ("12 or 9", []),
        ("1999, 2000, 2099", []),
        ("x1221 1221x _1221 1221_a", []),
        ("5-1221 1221-5 AX-1221 5:1221 1221:5 1/1221", []),
        ("1.221.50", []),
        ("4,500 or 4500", []),
    ],
)
def test_only_a_whole_number_may_be_computed(answer: str, doubtful: list[str]) -> None:
    restoration = Restoration([DRAWN], said=["33 * 37, and 4,500"])
    assert sorted(restoration.restore(answer).doubtful) == sorted(doubtful)
    assert in_pieces(restoration, answer, range(len(answer))) == restoration.restore(answer)


def test_a_computed_number_has_at_most_one_digit_less_than_the_shortest_drawn() -> None:
    far = Place("483920174", "591038275", "IDENTIFIER")
    restoration = Restoration([far, ORDER], said=["94740 483920174"])
    assert restoration.restore("999 or 9999 or 123456").doubtful == {"9999": 1, "123456": 1}
    kept = Restoration([ORDER._replace(true=ORDER.released)], said=["94740"])
    assert not kept.restore("99999").doubtful  # nothing was drawn
    word = Restoration([Place("Lowell", "Sitwell", "PERSON")], said=["94740"])
    assert not word.restore("99999").doubtful


def test_of_two_meanings_the_one_with_the_more_telling_neighbours_is_meant() -> None:
    def meant(answer: str, *places: Place) -> str:
        return Restoration(places, frozenset({"the", "of"})).restore(answer).text

    left = Place("Ida", "Ramona", "PERSON", "", "landlord", "of")
    right = Place("Ida", "Elena", "PERSON", "", "of", "paints")
    assert meant("my landlord Ida paints", left, right) == "my landlord Ida paints"  # as telling
    assert meant("my landlord Ida sang", left, right) == "my landlord Ramona sang"
    assert meant("see Ida paints", left, right) == "see Elena paints"
    assert meant("landlord Ida of", left, right) == "landlord Ramona of"
    assert meant("all of Ida of", left, right) == "all of Ida of"  # each has one common neighbour
    assert meant("of Ida paints", left, right) == "of Elena paints"
    begins = Place("Ida", "Ramona", "PERSON", "", "", "sang")
    inside = Place("Ida", "Elena", "PERSON", "", "that", "sang")
    assert meant("Ida sang", begins, inside) == "Ramona sang"
    assert meant("that Ida sang", begins, inside) == "that Elena sang"
    # The word before the neighbour counts only where the neighbour does.
    dear, cheap = (
        Place("Ida", name, "PERSON", word, "called", after)
        for name, word, after in (("Ramona", "dear", "now"), ("Elena", "cheap", "then"))
    )
    assert meant("cheap called Ida so", dear, cheap) == "cheap called Elena so"
    assert meant("cheap hello Ida so", dear, cheap) == "cheap hello Ida so"
    twice = (dear, dear._replace(earlier="hey", before="hello"), cheap)
    assert meant("hey hello Ida so", *twice) == "hey hello Ramona so"  # the best of its places


def test_a_number_word_that_is_common_needs_both_neighbours() -> None:
    five = Place("five", "nine", "NUMBER", "", "about", "buses")
    restoration = Restoration([five], frozenset({"five"}))
    assert restoration.restore("about five buses").text == "about nine buses"
    assert restoration.restore("about five trains").text == "about five trains"
    assert restoration.restore("some five buses").text == "some five buses"
    name = Restoration([Place("Upper", "New", "PLACE", "", "in", "rome", 2)], frozenset({"upper"}))
    assert name.restore("at Upper Rome").text == "at New Rome"
    assert name.restore("in Upper Egypt").text == "in Upper Egypt"  # "in" is not of the name


def groups(released: str, true: str) -> list[Place]:
    """The places of a number in groups."""
    before = ["call", *released.replace("+", "").lower().split()]
    return [
        Place(one, other, "IDENTIFIER", "", last, "")
        for one, other, last in zip(released.split(), true.split(), before, strict=False)
    ]


NUMBERS = (
    *groups("AB00 1111 2222 3333 4444 55", "DE89 3704 0044 0532 0130 00"),
    *groups("+44 12 1496 0611", "+44 20 7946 0123"),
    *groups("0209 6660848", "0171 7770142"),
    *groups("6309 0005848", "0171 5550142"),
    Place("+441214960777", "+442079460999", "IDENTIFIER"),
)


@pytest.mark.parametrize(
    ("came", "there"),
    [
        ("AB00 1111 2222 3333 4444 55", "DE89 3704 0044 0532 0130 00"),
        ("AB00111122223333444455", "DE89370400440532013000"),
        ("AB00-1111-2222-3333-4444-55", "DE89-3704-0044-0532-0130-00"),
        ("012 1496 0611, 01214960611", "020 7946 0123, 02079460123"),
        ("00441214960611, +441214960611", "00442079460123, +442079460123"),
        ("+44 (0)12 1496 0611", "+44 (0)20 7946 0123"),
        ("+49 209 6660848", "+49 171 7770142"),
        ("0209/6660848", "0171/7770142"),
        ("0121 496 0777", "0207 946 0999"),
        ("ends in 0611, so 1496 0611", "ends in 0123, so 7946 0123"),
    ],
)
def test_a_number_comes_back_with_and_without_the_code_of_its_country(
    came: str, there: str
) -> None:
    back = Restoration(NUMBERS).restore(came)
    assert back.text == there
    assert not back.doubtful
    assert in_pieces(Restoration(NUMBERS), came, range(len(came))) == back


@pytest.mark.parametrize("came", ["+49 309 0005848", "6309 11", "0611 22", "1111 12 2222"])
def test_half_a_number_never_comes_back_unnoticed(came: str) -> None:
    back = Restoration(NUMBERS).restore(came)
    assert back.text == came
    assert back.doubtful
    assert in_pieces(Restoration(NUMBERS), came, range(len(came))) == back


@settings(max_examples=150)
@given(
    st.lists(
        st.sampled_from([*" -/+0x.", "44", "AB00", "12", "1496", "0611", "1111", "2222", "6309"])
    ),
    st.data(),
)
def test_chunking_never_changes_numbers_in_groups(pieces: list[str], data: st.DataObject) -> None:
    text, restoration = "".join(pieces), Restoration(NUMBERS)
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8).map(sorted))
    assert in_pieces(restoration, text, cuts) == restoration.restore(text)
    assert in_pieces(restoration, text, range(len(text))) == restoration.restore(text)


@settings(max_examples=150)
@given(
    st.lists(st.sampled_from(["1", "33", "1,221", ",", ".", "-", "_", " ", "x", "94740", "500"])),
    st.data(),
)
def test_chunking_never_changes_what_is_computed(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    restoration = Restoration([DRAWN, ORDER], said=["33 94740"])
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8).map(sorted))
    assert in_pieces(restoration, text, cuts) == restoration.restore(text)
    assert in_pieces(restoration, text, range(len(text))) == restoration.restore(text)


@pytest.mark.parametrize("document", ["北京-12:45pm", "x京-12:45"])
def test_a_number_joined_to_an_ideograph_comes_back(
    small_privatizer: Privatizer, document: str
) -> None:
    release = released(small_privatizer, document)
    assert release.text != document
    assert Restoration(observe([release])).restore(release.text).text == document
