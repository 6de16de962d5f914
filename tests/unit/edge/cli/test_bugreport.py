"""`sotto bugreport`: facts for a fault's report, and no data of the owner."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable
from pathlib import Path

from .conftest import Device

TEXT = "Zebulon saw the pond"


def test_it_holds_versions_settings_findings_and_sizes(device: Device) -> None:
    device.sotto("privatize", TEXT)
    (told,) = device.json("bugreport")
    assert told["versions"]["sottovoce-edge"][0].isdigit()
    assert told["settings"]["privacy.level"] == "balanced"
    assert told["settings"]["privacy.largest_eta"] == 20000
    assert told["doctor"]["randomness"] == "OK two draws of noise differ"
    assert told["doctor"]["daemon"] == "FAIL NOT_READY"
    assert told["state"]["releases"] == 1
    assert told["state"]["database_bytes"] > 0
    assert told["bundle"]["files"] > 3
    assert told["running"] is False
    shown = device.sotto("bugreport").stdout
    assert "[settings]" in shown
    assert "cloud.token_file = set" in shown


def test_nothing_of_the_owner_is_in_it(
    new_device: Callable[..., Device], tagged_bundle: Path
) -> None:
    device = new_device(
        tagged_bundle,
        SOTTO_CLOUD_ADDRESS="cloud.zebulon.example:1",
        SOTTO_CLOUD_TENANT="zebulontenant",
        SOTTO_CHAT_MODEL="zebulonmodel",
        SOTTO_CHAT_UPSTREAM="https://upstream.zebulon.example/v1",
        SOTTO_TAGGER_PIPELINE="zebulonpipeline",
    )
    device.sotto("privatize", TEXT)
    for shown in (device.sotto("bugreport").stdout, str(device.json("bugreport"))):
        for secret in ("zebulon", "correct horse", str(device.folder), "/home", "pond"):
            assert secret not in shown.lower()
        assert socket.gethostname() not in shown
        assert f"/{getpass.getuser()}" not in shown


def test_a_wrong_configuration_is_reported_without_its_words(
    new_device: Callable[..., Device], tagged_bundle: Path
) -> None:
    device = new_device(tagged_bundle, SOTTO_PRIVACY_POLICY="zebulonpolicy")
    (told,) = device.json("bugreport")
    assert told["doctor"] == {"config": "FAIL CONFIG_ERROR"}
    assert "settings" not in told


def test_why_a_check_fails_is_not_told_where_it_names_a_path(
    new_device: Callable[..., Device], tagged_bundle: Path
) -> None:
    device = new_device(
        tagged_bundle, SOTTO_TAGGER_BACKEND="spacy", SOTTO_TAGGER_PIPELINE="/home/zebulon/x"
    )
    assert "/home/zebulon/x" in str(device.json("doctor", code=3))
    (told,) = device.json("bugreport")
    assert told["doctor"]["tagger"].startswith("FAIL ")
    assert "zebulon" not in str(told)
