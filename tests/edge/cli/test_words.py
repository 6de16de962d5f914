"""``sotto words``: lists of words that always pass, or never do."""

from __future__ import annotations

import json

from .conftest import Device


def test_words_are_listed_moved_and_taken_out(device: Device) -> None:
    device.sotto("words", "allow", "Zeroh", "Blue Heron")
    device.sotto("words", "hide", "Falcon")
    device.sotto("words", "allow", "ZEROH")
    told = json.loads(device.sotto("words", "list", "--json").stdout)
    assert told == {"allow": ["Blue Heron", "Zeroh"], "hide": ["Falcon"], "patterns": []}
    device.sotto("words", "rm", "falcon", "blue heron")
    told = json.loads(device.sotto("words", "list", "--json").stdout)
    assert told == {"allow": ["Zeroh"], "hide": [], "patterns": []}


def test_a_hidden_word_stays_hidden_and_its_owner_is_told(device: Device) -> None:
    device.sotto("words", "hide", "Falcon")
    assert "stay hidden" in device.sotto("words", "allow", "falcon").stderr


def test_the_owner_is_told_that_another_policy_does_not_read_the_lists(device: Device) -> None:
    assert "chat.policy personal" in device.sotto("words", "hide", "Falcon").stderr
    device.sotto("config", "set", "privacy.least_policy", "personal")
    device.sotto("config", "set", "chat.policy", "personal")
    assert device.sotto("words", "hide", "Heron").stderr == ""


def test_what_is_in_no_list_cannot_be_taken_out(device: Device) -> None:
    told = device.sotto("words", "rm", "falcon", code=2).stderr
    assert "neither list" in told
    assert "sotto words list" in told


def test_a_word_without_letters_is_refused_and_nothing_is_written(device: Device) -> None:
    told = device.sotto("words", "hide", "...", code=78).stderr
    assert "hide.words" in told
    assert json.loads(device.sotto("words", "list", "--json").stdout)["hide"] == []
