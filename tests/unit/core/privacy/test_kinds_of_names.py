"""Persons, organisations and orders under `personal`: what stays, and what kind a name is."""

from __future__ import annotations

import pytest

from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.release import Release
from sottovoce.core.privacy.surrogates import words_of


def release(privatizer: Privatizer, text: str) -> Release:
    return privatizer.release(text, Setting(policy="personal"), key=Key(b"kinds".ljust(32)))


def kinds(privatizer: Privatizer, text: str) -> dict[str, set[str]]:
    """Return what each changed word was called."""
    found: dict[str, set[str]] = {}
    for word in release(privatizer, text).each_word():
        if word.replaced:
            found.setdefault(text[word.start : word.end], set()).add(word.tag)
    return found


@pytest.mark.parametrize(
    ("text", "persons"),
    [
        ("Paris is my niece and Sydney is my nephew.", ["Paris", "Sydney"]),
        ("Chelsea said that she is tired. I saw Chelsea again.", ["Chelsea"]),
        ("Turn on the light in Milo's room.", ["Milo"]),
        ("Chelsea and Sydney went to the zoo with Mia.", ["Chelsea", "Sydney", "Mia"]),
        ("Remind Sydney to call me.", ["Sydney"]),
    ],
)
def test_a_person_called_like_a_place_is_a_person(
    privatizer: Privatizer, text: str, persons: list[str]
) -> None:
    found = kinds(privatizer, text)
    assert {name: found.get(name) for name in persons} == {name: {"PERSON"} for name in persons}


def test_and_between_two_names_passes(privatizer: Privatizer) -> None:
    assert " and " in release(privatizer, "Chelsea and Sydney went to the zoo with Mia.").text


@pytest.mark.parametrize(
    ("text", "stays", "hidden"),
    [
        ("I was treated at St Mary's Hospital.", "Hospital", ["Mary"]),
        ("She studies at Trinity College.", "College", ["Trinity"]),
        ("Write to Stockport Council.", "Council", ["Stockport"]),
        ("He works for Kestrel Logistics BV.", "Logistics BV", ["Kestrel"]),
        ("My teacher is at Larkfield High School.", "School", ["Larkfield"]),
    ],
)
def test_the_kind_of_an_organisation_stays(
    privatizer: Privatizer, text: str, stays: str, hidden: list[str]
) -> None:
    left = release(privatizer, text).text
    assert stays in left
    assert [word for word in hidden if word in left] == []


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("I met Tom Church at 12 Bank Street.", ["Tom", "Church", "Bank"]),
        ("Professor Hall is ill.", ["Hall"]),
        ("Tell Ann Bank that I am late.", ["Ann", "Bank"]),
        ("I live at 82 Park Road. We like it.", ["82", "Park"]),
        ("We met at 73 Tanner's Yard, Bristol.", ["73", "Tanner", "Yard"]),
        ("Our neighbour is at number 14.", ["14"]),
        ("I live at 221b", ["221b"]),
        ("We live at 12.", ["12"]),
        ("My door number is 45.", ["45"]),
        ("house no. 14", ["14"]),
        ("My post code 2031 is new.", ["2031"]),
        ("Our zipcodes are 40215 and so on.", ["40215"]),
        ("The patient (female, 27, Inuit) reports headaches.", ["Inuit"]),
    ],
)
def test_a_kind_in_a_name_or_an_address_is_hidden(
    privatizer: Privatizer, text: str, hidden: list[str]
) -> None:
    left = release(privatizer, text).text
    assert [word for word in hidden if word in left.replace(".", " ").split()] == []


@pytest.mark.parametrize(
    "text",
    [
        "Grant access to the folder.",
        "They live at 3000 m, and we live at 20 km from here.",
        "The parade starts at 7. Number 7 in the list is wrong.",
        "Brainstorm ten slogans for a bakery.",
        "Please grant the role, then mark the task as done.",
        "Mark all as read. Bill the hours. Pat the dog. Ring the bell.",
        "Will this work? Can I complain? May we go?",
        "The plan for 2019-2024 is out.",
    ],
)
def test_orders_and_questions_pass(privatizer: Privatizer, text: str) -> None:
    assert release(privatizer, text).text == text


def test_verbs_that_are_names_are_hidden_elsewhere(privatizer: Privatizer) -> None:
    text = "Grant Miller called. Grant said no, and Mark is here."
    left = release(privatizer, text).text
    assert "Grant" not in left
    assert "Mark" not in left


@pytest.mark.parametrize(
    ("text", "stays"),
    [
        ("My name is Theo Baptiste. Can you write the letter?", ". Can you write"),
        ("Patient: Goran Petrovski  DOB 22/11/1958", "DOB"),
        ("Pupil: Tobias Ng   Form: 5C", "Form"),
        ("I live at 8 Park Road. We like it.", "We like it"),
    ],
)
def test_a_value_ends_with_its_sentence_or_field(
    privatizer: Privatizer, text: str, stays: str
) -> None:
    assert stays in release(privatizer, text).text


def test_the_value_of_a_city_is_a_place(privatizer: Privatizer) -> None:
    assert kinds(privatizer, '{"city": "Dakar"}') == {"Dakar": {"PLACE"}}


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("My brother Quorvin is ill.", "men"),
        ("I told my husband, Quorvin, to wait.", "men"),
        ("Ask Mr. Quorvin Zorn about it.", "men"),
        ("My sister Zyxgar is ill.", "women"),
        ("Ask Mrs Zyxgar Zorn about it.", "women"),
        ("Meine Schwester Zyxgar ist krank und ich auch.", "women"),
    ],
)
def test_a_relation_or_a_title_tells_the_gender_of_the_surrogate(
    privatizer: Privatizer, text: str, file: str
) -> None:
    for number in range(8):
        key = Key(bytes([number]) * 32)
        left = privatizer.release(text, Setting(policy="personal"), key=key)
        drawn = [word for word in left.each_word() if word.replaced]
        first = left.text[drawn[0].released_start : drawn[0].released_end]
        assert first.lower() in words_of(file)
