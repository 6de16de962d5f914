"""Under `personal`, a person is recognised in an answer in every form, and an echo comes back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.release import Release
from sottovoce.core.privacy.restoration import COMMON, Restoration, ordinary_words
from sottovoce.core.privacy.surrogate_table import DATE, Place, observe
from sottovoce.core.privacy.surrogates.surrogate import Owners
from sottovoce.core.text.frequencies import commonest
from sottovoce.core.text.word_classes import READINGS
from tests.support.everyday_requests import REQUESTS

PERSONAL = Setting(policy="personal")


def released(
    privatizer: Privatizer, text: str, number: int = 0, owners: Owners | None = None
) -> Release:
    key = Key(bytes((number,)) * 32)
    return privatizer.release(text, PERSONAL, key=key, session="s", owners=owners)


def restoration(bundle: Bundle, *releases: Release) -> Restoration:
    return Restoration(observe(releases), commonest("en", COMMON), ordinary_words(bundle))


def test_an_ordinary_word_is_in_the_vocabulary_or_no_name_of_the_bundle(bundle: Bundle) -> None:
    english = ordinary_words(bundle)
    assert all(map(english, ("garden", "will", "rose", "the")))
    assert not any(map(english, ("okonjo", "ramanathan", "zyxglorp")))
    german = copy(bundle)
    german.manifest = replace(bundle.manifest, language="de")
    other = ordinary_words(german)
    names = bundle.readings == READINGS.index("NAME")
    name, word = (bundle.words[int(np.flatnonzero(each)[0])] for each in (names, ~names))
    assert (other(word), other(name), other("zyxglorp")) == (True, False, False)


def surrogates(release: Release) -> Iterator[tuple[str, str]]:
    """Return typed and released form of each replaced word."""
    for word in release.each_word():
        if word.replaced:
            typed = release.document[word.start : word.end]
            yield typed, release.text[word.released_start : word.released_end]


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("number", range(3))
def test_an_echo_of_an_everyday_request_is_exact(
    bundle: Bundle, privatizer: Privatizer, request_name: str, number: int
) -> None:
    assert_echo_is_exact(bundle, privatizer, REQUESTS[request_name], number)


def assert_echo_is_exact(bundle: Bundle, privatizer: Privatizer, typed: str, number: int) -> None:
    release = released(privatizer, typed, number)
    back = restoration(bundle, release)
    assert release.text != typed
    assert back.restore(release.text).text == typed
    for size in (1, 2, 3, 7, 40):
        stream = back.stream()
        pieces = [release.text[at : at + size] for at in range(0, len(release.text), size)]
        assert "".join(map(stream.feed, pieces)) + stream.finish() == typed


@pytest.mark.parametrize(
    "typed",
    [
        'ListMessages(q="from:Sarah Okonjo subject:Status Report")',
        """List(q='from:Aman Okonjo subject:("new product") after:2006-02-27 before:2006-03-06')""",
        'ListMessages(q="from:Dr. Okonjo newer_than:30d")',
        "the wiki is at ida.okonjo.Wieczor, as before",
        r"as in \label{eq:okonjo-quist} and \ref{eq:okonjo-quist}",
        "Name:Priya Ramanathan,Role:Clerk",
        "my password: that's mine",
        "the passphrase is gonna shouldn't've",
    ],
)
@pytest.mark.parametrize("number", range(3))
def test_an_echo_of_addresses_and_of_joined_words_is_exact(
    bundle: Bundle, privatizer: Privatizer, typed: str, number: int
) -> None:
    assert_echo_is_exact(bundle, privatizer, typed, number)


@pytest.mark.parametrize(
    "start",
    [
        '"https://e.test/?q= ',
        "![x](<https://e.test/?q= ",
        "e.test?q=,",
        "note:e.test,",
        '"note:x?topic= ',
        "mailto:a@e.test?body=,",
        "data:,",
        "\\\\e.test\\",
        "src=x,",
    ],
)
def test_what_stands_behind_an_address_of_others_does_not_come_back(
    bundle: Bundle, privatizer: Privatizer, start: str
) -> None:
    typed = f"Please repeat: {start}Priya,Ramanathan,Quist"
    release = released(privatizer, typed)
    echo = release.text.partition(": ")[2]
    back = restoration(bundle, release).restore(echo).text
    assert not re.search("Priya|Ramanathan|Quist", back)


def test_the_ending_of_a_title_is_no_name(privatizer: Privatizer) -> None:
    for text in ("an ethics professor's final note", "the doctor's note and the judge's view"):
        assert released(privatizer, text).text == text
    left = released(privatizer, "Dr Okonjo's dog").text
    assert "Okonjo" not in left
    assert left.endswith("'s dog")


def test_no_person_of_the_everyday_requests_leaves(privatizer: Privatizer) -> None:
    persons = re.compile(
        r"okonjo|barnaby|quist|nadia|kerr|wieczor|halina|marsh|anselm|priya|ramanathan|pugsley"
        r"|achterberg|desmond|wilhelmina|petrosyan|vanderlinde|kowal|bustamante|aurelio|okafor"
        r"|chidi|siobhan|dwyer|fairweather|madeleine|augustus|lefebvre|gauthier|oyelaran|petrov",
        re.IGNORECASE,
    )
    for typed in REQUESTS.values():
        assert not persons.findall(released(privatizer, typed).text)


@pytest.mark.parametrize("number", range(5))
def test_pieces_of_a_name_come_back_in_any_form(
    bundle: Bundle, privatizer: Privatizer, number: int
) -> None:
    release = released(privatizer, "My friend is Tom Boyle. He met Nadia Kerr's sister.", number)
    left = dict(surrogates(release))
    tom, boyle, nadia, kerr = (left[name] for name in ("Tom", "Boyle", "Nadia", "Kerr"))
    back = restoration(bundle, release)
    answers = {
        f"{tom} is right.": "Tom is right.",
        f"Mr {boyle} and Ms {kerr} agree.": "Mr Boyle and Ms Kerr agree.",
        f"**{tom} {boyle}** wrote:\n- {nadia}": "**Tom Boyle** wrote:\n- Nadia",
        f"{tom.upper()} {boyle.upper()}": "TOM BOYLE",
        f"{nadia}'s and {kerr}’s": "Nadia's and Kerr’s",
        f"The {boyle}s left.": "The Boyles left.",
        f'{{"{nadia.lower()}": "{kerr}", "b": ["{tom}"]}}': '{"nadia": "Kerr", "b": ["Tom"]}',
        f"{kerr}, {nadia}; {tom.lower()}_{boyle.lower()}": "Kerr, Nadia; tom_boyle",
        f"Sure! {nadia}? {nadia}.": "Sure! Nadia? Nadia.",
    }
    if tom[0] not in "AI":
        answers[f"so {tom[0]}. {boyle} it is"] = "so T. Boyle it is"
    for came, typed in answers.items():
        assert back.restore(came).text == typed
        for size in (1, 2, 5):
            stream = back.stream()
            pieces = (came[at : at + size] for at in range(0, len(came), size))
            assert "".join(map(stream.feed, pieces)) + stream.finish() == typed


def test_one_person_has_one_surrogate(privatizer: Privatizer) -> None:
    owners: Owners = {}
    turns = (
        "Nadia Kerr, nadia kerr, Nadia's, nadia, NADIA KERR",
        "Ms Kerr says N. Kerr and Kerr, Nadia agree. The Kerrs left.",
        '{"name": "Nadia Kerr", "login": "nadia_kerr", "email": "nadia.kerr@post.example"}',
    )
    texts = [released(privatizer, turn, owners=owners).text for turn in turns]
    match = re.match(r"(\w+) (\w+),", texts[0])
    assert match is not None
    nadia, kerr = match[1], match[2]
    small = nadia.lower(), kerr.lower()
    assert texts[0] == (
        f"{nadia} {kerr}, {small[0]} {small[1]}, {nadia}'s, {small[0]},"
        f" {nadia.upper()} {kerr.upper()}"
    )
    assert texts[1] == (
        f"Ms {kerr} says {nadia[0]}. {kerr} and {kerr}, {nadia} agree. The {kerr}s left."
    )
    login, mail = f"{small[0]}_{small[1]}", f"{small[0]}.{small[1]}@example."
    assert texts[2].startswith(f'{{"name": "{nadia} {kerr}", "login": "{login}", "email": "{mail}')


def test_a_title_passes_and_a_person_stays_a_person(privatizer: Privatizer) -> None:
    text = released(privatizer, "Ask Dr Elena Marsh.\nDear Dr Elena Marsh,").text
    match = re.fullmatch(r"Ask Dr (\w+ \w+)\.\nDear Dr \1,", text)
    assert match is not None


def test_a_name_that_was_hidden_once_is_hidden_again(privatizer: Privatizer) -> None:
    owners: Owners = {}
    released(privatizer, "Rose Quarnivel is my sister.", owners=owners)
    again = released(privatizer, "tell Rose about quarnivel, and water the rose", owners=owners)
    assert not re.search("Rose|quarnivel", again.text)
    assert again.text.endswith("water the rose")


@pytest.mark.parametrize(
    "text",
    ["Fly on 18JAN please.", "Fly 18Jan, ok", "insert into t(name) values ('O''Connor');"],
)
def test_a_date_without_a_gap_and_a_doubled_quote_come_back(
    bundle: Bundle, privatizer: Privatizer, text: str
) -> None:
    release = privatizer.release(text, PERSONAL, key=Key(b"echo".ljust(32)))
    assert release.text != text
    assert restoration(bundle, release).restore(release.text).text == text


def test_a_name_comes_back_as_one_word_and_after_a_line_break_in_letters(
    privatizer: Privatizer, bundle: Bundle
) -> None:
    release = released(privatizer, "My landlord is Tomasz Wrona.")
    given, family = (drawn for _, drawn in surrogates(release))
    known = restoration(bundle, release)
    answer = rf'{given}{family} = "Dear\n{given}\n{family}"; @{given.lower()}{family.lower()}'
    typed = r'TomaszWrona = "Dear\nTomasz\nWrona"; @tomaszwrona'
    assert known.restore(answer).text == typed
    stream = known.stream()
    assert "".join(map(stream.feed, answer)) + stream.finish() == typed


@pytest.mark.parametrize(
    ("answer", "typed"),
    [
        ("am 14. November 1984", "am 14. Mai 1979"),
        ("le 14 novembre 1984", "le 14 mai 1979"),
        ("el 14 de noviembre de 1984", "el 14 de mayo de 1979"),
        ("op 14 december 1984", "op 14 december 1984"),
        ("on 14 November 1984", "on 14 May 1979"),
    ],
)
def test_a_month_comes_back_in_the_language_of_the_answer(answer: str, typed: str) -> None:
    known = Restoration([Place("14/11/1984", "14/05/1979", DATE)])
    assert known.restore(answer).text == typed


def test_a_telephone_comes_back_without_its_gaps(privatizer: Privatizer, bundle: Bundle) -> None:
    release = released(privatizer, "My number is 07911 552 038.")
    joined = "".join(drawn for _, drawn in surrogates(release))
    answer = f'{{"phone": "{joined}"}}'
    assert restoration(bundle, release).restore(answer).text == '{"phone": "07911552038"}'


def test_a_tag_is_no_initial(privatizer: Privatizer, bundle: Bundle) -> None:
    for number in range(40):
        release = released(privatizer, "My landlord is Tomasz Wrona.", number)
        given, family = (drawn for _, drawn in surrogates(release))
        tag = given[0].lower()
        answer = f"<{tag}>{given}</{tag}> {family}"
        typed = f"<{tag}>Tomasz</{tag}> Wrona"
        assert restoration(bundle, release).restore(answer).text == typed


@pytest.mark.parametrize(
    "typed",
    [
        "Name:Priya Nair, patient:Ida",
        "assignee:priya label:bug",
        "(author:Ida), *owner:Priya*",
        "from:Ida to:Priya",
        "key:Ida:Priya",
        "{name:Ida,city:Leeds}",
        "my MAC is de:ad:be:ef:ca:fe.",
        "password: correct:horse:battery",
        "login admin:hunterbee 'user:Ida'",
    ],
)
def test_a_value_comes_back_behind_a_label_without_a_blank(
    bundle: Bundle, privatizer: Privatizer, typed: str
) -> None:
    for number in range(5):
        release = released(privatizer, typed, number)
        assert release.text != typed
        back = restoration(bundle, release)
        assert back.restore(release.text).text == typed
        for size in (1, 2, 5):
            stream = back.stream()
            pieces = [release.text[at : at + size] for at in range(0, len(release.text), size)]
            assert "".join(map(stream.feed, pieces)) + stream.finish() == typed


def test_a_value_does_not_come_back_behind_a_label_that_was_not_typed(
    bundle: Bundle, privatizer: Privatizer
) -> None:
    release = released(privatizer, "Name:Priya asks, patient:Ida too.")
    left = dict(surrogates(release))
    answer = f"tel:{left['Priya']} patient:{left['Priya']} name:{left['Ida']}"
    assert restoration(bundle, release).restore(answer).text == answer
