"""`sotto try`: every level and policy, drawn for the screen alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner

from sottovoce.core.privacy.policies import POLICIES
from sottovoce.edge.cli import main

from .conftest import Device

TEXT = "the pond and the garden, 4711"


LEVELS = ("strong", "balanced", "light")  # the strongest first


def test_every_policy_is_shown_with_the_levels_of_its_noise_and_nothing_is_charged(
    device: Device,
) -> None:
    (shown,) = device.json("try", TEXT, "--all", "--draws", "4")
    assert shown["text"] == TEXT
    tried = [(each["policy"], each["level"]) for each in shown["tried"]]
    assert tried == [
        (name, level)
        for name, policy in POLICIES.items()
        for level in (LEVELS if policy.with_noise() else LEVELS[:1])
    ]
    for each in shown["tried"]:
        assert each["allowed"]
        passed = all("4711" in released for released in each["releases"])
        assert passed is (each["policy"] == "personal")  # a small number passes
        assert 0 < each["guessed"] <= 1
    names = [each for each in shown["tried"] if each["policy"] == "names"]
    assert all(each["releases"][0].startswith("the pond and the garden, ") for each in names)
    assert all(each["charge"] == 0 for each in names)
    (status,) = device.json("status")
    assert status["ledger"]["releases"] == status["ledger"]["spent"] == 0


def test_without_options_it_shows_the_policies_of_use(device: Device) -> None:
    def policies() -> set[str]:
        (shown,) = device.json("try", TEXT)
        return {each["policy"] for each in shown["tried"]}

    assert policies() == {"personal", device.config.chat.policy, "content"}
    device.environment["SOTTO_PRIVACY_POLICY"] = "papers"
    assert policies() == {"personal", device.config.chat.policy, "papers"}


def test_what_the_owner_forbids_is_shown_as_such(device: Device) -> None:
    device.environment["SOTTO_PRIVACY_LEAST_POLICY"] = "names"
    (shown,) = device.json("try", TEXT)
    allowed = {each["policy"]: each["allowed"] for each in shown["tried"]}
    assert allowed == {"personal": False, "content": True}
    assert "privacy.least_policy" in device.sotto("try", TEXT).stdout


def test_draws_are_fresh_and_cost_what_a_release_would(device: Device) -> None:
    options = ("--policy", "content", "--level", "strong", "--draws", "12")
    (shown,) = device.json("try", *options, stdin=TEXT)
    (tried,) = shown["tried"]
    assert len(set(tried["releases"])) > 1
    device.sotto("privatize", TEXT, "--policy", "content", "--level", "strong")
    assert device.json("status")[0]["ledger"]["spent"] == tried["charge"] > 0


def test_what_the_owner_does_not_allow_is_not_shown(
    new_device: Callable[..., Device], tagged_bundle: Path
) -> None:
    device = new_device(tagged_bundle, SOTTO_PRIVACY_LARGEST_ETA="20")
    (shown,) = device.json("try", TEXT, "--policy", "content")
    refused = {each["level"]: each.get("refused", "") for each in shown["tried"]}
    assert refused["strong"] == refused["balanced"] == ""
    assert "allows 20 at most" in refused["light"]
    assert "not allowed here" in device.sotto("try", TEXT).stdout


def test_what_became_of_a_word_shows_in_colour(device: Device) -> None:
    options = ("try", TEXT, "--policy", "content", "--level", "light")  # which moves no word
    shown = CliRunner().invoke(main, options, env=device.environment, color=True).stdout
    assert "\x1b[33m\x1b[4mpond\x1b[0m" in shown  # noise, and came out as itself
    assert "\x1b[36m" in shown  # the number
    assert "\x1b" not in device.sotto(*options).stdout


def test_unknown_names_and_texts_are_told(device: Device) -> None:
    assert "policy" in device.sotto("try", TEXT, "--policy", "none", code=4).stderr
    assert "mechanism" in device.sotto("try", TEXT, "--mechanism", "none", code=4).stderr
    assert "line 1" in device.sotto("try", stdin=b"caf\xe9\n", code=2).stderr
    assert "give one" in device.sotto("try", TEXT, "--input", "x", code=2).stderr
