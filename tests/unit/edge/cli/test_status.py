"""`sotto status`: with and without a daemon."""

from __future__ import annotations

from collections.abc import Callable

from sottovoce.core.bundle.folder import Bundle
from tests.support.agent import running

from .conftest import Device


def test_an_empty_device_says_what_to_do(new_device: Callable[..., Device]) -> None:
    device = new_device()
    shown = device.sotto("status").stdout
    assert "sotto pull" in shown
    assert "not running" in shown


def test_bundle_levels_and_ledger_are_told(device: Device) -> None:
    device.sotto("privatize", stdin="the pond and the garden")
    (alone,) = device.json("status")
    assert alone["bundle_id"] == Bundle.open(device.config.bundle.current).id
    assert {level["name"]: level["eta"] for level in alone["levels"]} == {
        "strong": 4.0,
        "balanced": 15.0,
        "light": 10_000.0,
    }
    assert alone["ledger"] == {
        "spent": 30.0,
        "limit": 0.0,
        "releases": 1,
        "label_epsilon": 0.0,
        "labels_randomized": 0,
        "labels_as_they_are": 0,
        "adapters_private": 0,
        "adapter_epsilon": 0.0,
        "adapter_delta": 0.0,
    }
    assert alone["running"] is False
    with running(device.config):
        (served,) = device.json("status")
        assert served == alone | {"running": True}
    assert "30 eta on 1 text; you set no limit" in device.sotto("status").stdout
