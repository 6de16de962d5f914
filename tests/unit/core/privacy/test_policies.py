"""The tables are the device's own, and none hides less than stated."""

from __future__ import annotations

import pytest

from sottovoce.core.errors import NotFound
from sottovoce.core.privacy import policies
from sottovoce.core.privacy.policies import KINDS, NAMES, POLICIES, PUNCTUATION, Setting, Treatment
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.text.word_classes import READINGS
from sottovoce.v1 import edge_agent_pb2

CLOSED = {"REFERENCE", "GRAMMAR", "CLITIC"}


@pytest.mark.parametrize("name", POLICIES)
def test_what_tells_who_somebody_is_gives_way_under_every_policy(name: str) -> None:
    table = policies.find(name).table
    assert set(table) == set(KINDS)
    for kind in (*NAMES[1:], "NUMBER", "ORIGIN", "UNLISTED", "IDENTIFIER"):
        assert table[kind] is Treatment.DRAW
    assert table["FACT"] is (Treatment.PASS if name == "personal" else Treatment.NOISE)
    assert table[PUNCTUATION] is Treatment.PASS


def test_policies_differ_in_what_else_gets_noise() -> None:
    assert POLICIES["names"].with_noise() == ("FACT",)
    content = {"NOUN", "VERB", "ADJ", "ADV", "OTHER", "FACT"}
    assert set(POLICIES["content"].with_noise()) == content
    assert set(POLICIES["papers"].with_noise()) == {"NOUN", "VERB", "REFERENCE", "FACT"}
    assert set(POLICIES["all"].with_noise()) == content | CLOSED


@pytest.mark.parametrize("name", ["names", "content"])
def test_under_names_all_that_is_no_name_passes_and_else_the_closed_class_alone(name: str) -> None:
    table = POLICIES[name].table
    passing = {kind for kind in READINGS if table[kind] is Treatment.PASS}
    if name == "content":
        assert passing == CLOSED
    else:
        assert passing == CLOSED | {"NOUN", "VERB", "ADJ", "ADV", "OTHER"}


def test_a_question_word_passes_as_who_and_what_do(privatizer: Privatizer) -> None:
    asked = "Who asked how, when, where and why the pond froze, and whenever what froze?"
    words = privatizer.release(asked, Setting("strong", policy="content")).words
    passing = (word for word in words if word.treatment is Treatment.PASS)
    passed = {asked[word.start : word.end].lower() for word in passing}
    assert {"who", "how", "when", "where", "why", "whenever", "what"} <= passed
    assert not {"asked", "pond", "froze"} & passed


def test_a_policy_covers_another_that_it_is_nowhere_lighter_than() -> None:
    least = [name for name in POLICIES if POLICIES["names"].covers(POLICIES[name])]
    assert least == ["personal", "names"]
    assert all(POLICIES["all"].covers(policy) for policy in POLICIES.values())
    assert not POLICIES["content"].covers(POLICIES["papers"])
    assert not POLICIES["papers"].covers(POLICIES["content"])


def test_the_default_is_a_policy() -> None:
    assert Setting().policy == policies.DEFAULT in POLICIES


@pytest.mark.parametrize("name", ["default", "", "Content", "none"])
def test_an_unknown_policy_names_those_there_are(name: str) -> None:
    with pytest.raises(NotFound) as caught:
        policies.find(name)
    assert caught.value.subject == "policy"
    assert "use one of: personal, names, content, papers, all" in caught.value.fix


def test_the_wire_numbers_treatments_alike() -> None:
    told = {name.removeprefix("TREATMENT_"): n for name, n in edge_agent_pb2.Treatment.items()}
    assert told == {"UNSPECIFIED": 0, **{each.name: each.value for each in Treatment}}
