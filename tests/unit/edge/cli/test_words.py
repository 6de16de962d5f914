"""``sotto words``: lists of words that always pass, or never do."""

from __future__ import annotations

import json

import pytest

from tests.support.agent import running

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


def test_a_word_that_the_configuration_hides_stays_hidden(device: Device) -> None:
    device.sotto("config", "set", "hide.words", "Velnor")
    assert "stay hidden" in device.sotto("words", "allow", "velnor").stderr
    told = json.loads(device.sotto("words", "list", "--json").stdout)
    assert (told["hide"], told["allow"]) == (["Velnor"], ["velnor"])
    assert "Velnor" not in device.sotto("privatize", "the Velnor").stdout


def test_the_owner_is_told_that_other_policies_let_no_allowed_word_pass(device: Device) -> None:
    assert device.sotto("words", "allow", "Falcon").stderr == ""
    device.sotto("config", "set", "chat.policy", "names")
    assert "chat.policy personal" in device.sotto("words", "allow", "Falcon").stderr
    assert device.sotto("words", "hide", "Heron").stderr == ""


@pytest.mark.parametrize("policy", ["names", "content", "all"])
def test_a_hidden_word_leaves_under_no_policy(device: Device, policy: str) -> None:
    text = "they were in the garden with the other pond"
    asked = ("privatize", "--level", "light", "--policy", policy)

    def report() -> dict[str, tuple[str, str]]:
        (told,) = device.json(*asked, stdin=text)
        words = told["words"]
        return {text[w["start"] : w["end"]]: (w["treatment"], w["hides"]) for w in words}

    with running(device.config):
        assert report()["other"][1] != "listed"
        device.sotto("words", "hide", "the other", "garden")  # a running agent heeds it at once
        hidden = report()
        assert {hidden[word] for word in ("other", "garden")} == {("DRAW", "listed")}
        assert hidden["they"][1] != "listed"
        device.sotto("words", "rm", "garden", "the other")
        assert report()["garden"][0] != "DRAW"


def test_a_word_is_charged_once_it_is_hidden_no_more(device: Device) -> None:
    def spent() -> float:
        (status,) = device.json("status")
        return float(status["ledger"]["spent"])

    asked = ("privatize", "--policy", "content", "garden")
    device.sotto("words", "hide", "garden")
    device.sotto(*asked)
    assert spent() == 0
    device.sotto("words", "rm", "garden")
    device.sotto(*asked)
    assert spent() > 0


def test_the_lists_lie_sealed(device: Device) -> None:
    device.sotto("words", "hide", "Blumentopfsand")
    files = [path for path in device.config.agent.state.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"Blumentopfsand" in path.read_bytes()]


def test_a_text_with_a_hidden_word_is_not_embedded_in_the_cloud(linked: Device) -> None:
    linked.sotto("words", "hide", "garden")
    assert "never to leave" in linked.sotto("embed", "the Garden", code=2).stderr


def test_what_is_in_no_list_cannot_be_taken_out(device: Device) -> None:
    told = device.sotto("words", "rm", "falcon", code=2).stderr
    assert "neither list" in told
    assert "sotto words list" in told


def test_a_word_without_letters_is_refused_and_nothing_is_written(device: Device) -> None:
    assert "no letter or digit" in device.sotto("words", "hide", "...", code=2).stderr
    assert json.loads(device.sotto("words", "list", "--json").stdout)["hide"] == []
