"""`sotto ledger`: the spent budget in words and messages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .conftest import Device

TEXT = "the pond and the garden"  # two words with noise, at "balanced" 15 each


def test_without_a_limit_none_is_told(device: Device) -> None:
    device.sotto("privatize", TEXT)
    shown = device.sotto("ledger").stdout
    assert "30 eta on 1 text; you set no limit" in shown
    assert "privacy.ledger_limit" in shown
    (told,) = device.json("ledger")
    assert (told["spent"], told["messages_left"]) == (30.0, None)


def test_what_is_left_is_told_in_messages(
    new_device: Callable[..., Device], tagged_bundle: Path
) -> None:
    device = new_device(tagged_bundle, SOTTO_PRIVACY_LEDGER_LIMIT="1000")
    device.sotto("privatize", TEXT)
    device.sotto("privatize", f"{TEXT} and the pond")
    shown = device.sotto("ledger").stdout
    assert "75 of 1,000 eta (8%) on 2 texts" in shown
    assert "on average 37.5 eta a text" in shown
    assert "925 eta: about 6 more messages" in shown  # of ten words, 150 each
    assert device.json("ledger")[0]["messages_left"] == 6


def test_days_and_purposes_are_told(device: Device) -> None:
    device.sotto("privatize", TEXT)
    (told,) = device.json("ledger")
    ((day, purpose),) = zip(told["days"], told["purposes"], strict=True)
    assert purpose == {"heading": "apps on this device", "spent": 30.0, "releases": 1}
    assert (day["spent"], day["releases"]) == (30.0, 1)
    shown = device.sotto("ledger").stdout
    assert day["heading"] in shown
    assert "apps on this device" in shown


def test_who_set_no_limit_is_warned_all_the_same(
    new_device: Callable[..., Device], tagged_bundle: Path
) -> None:
    device = new_device(tagged_bundle, SOTTO_PRIVACY_WARN_AFTER="1")  # message of 150
    device.sotto("privatize", TEXT)
    assert device.json("ledger")[0]["warning"] == ""
    device.sotto("privatize", f"{' and the pond' * 5}")
    (told,) = device.json("ledger")
    assert told["spent"] == 105.0
    assert told["warning"] == ""
    device.sotto("privatize", f"{' and the garden' * 5}")
    assert "no limit is set" in device.json("ledger")[0]["warning"]
    assert "warning" in device.sotto("ledger").stdout
    device.environment["SOTTO_PRIVACY_WARN_AFTER"] = "0"
    assert device.json("ledger")[0]["warning"] == ""


def test_the_limit_is_said_to_be_near(
    new_device: Callable[..., Device], tagged_bundle: Path
) -> None:
    device = new_device(tagged_bundle, SOTTO_PRIVACY_LEDGER_LIMIT="37")
    device.sotto("privatize", TEXT)
    assert "81% of your limit" in device.json("ledger")[0]["warning"]


def test_a_limit_is_told_where_the_level_has_no_figure(
    new_device: Callable[..., Device], tagged_bundle: Path
) -> None:
    device = new_device(
        tagged_bundle, SOTTO_PRIVACY_LEDGER_LIMIT="1000", SOTTO_PRIVACY_LEVEL="attack:0.3"
    )
    device.sotto("privatize", "--level", "balanced", TEXT)
    shown = device.sotto("ledger").stdout
    assert "30 of 1,000 eta" in shown
    assert "no limit" not in shown
    assert "left       970 eta\n" in shown
    assert device.json("ledger")[0]["messages_left"] is None
