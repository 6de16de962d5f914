"""`sotto status`, `ledger`, `bugreport` and `licences`."""

from __future__ import annotations

import dataclasses
import getpass
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

from sottovoce.core.bundle.folder import CARDS, Bundle
from sottovoce.core.bundle.manifest import StoredFile, sha256
from tests.support.agent import running
from tests.support.tampering import change_manifest

from .conftest import Device


def test_an_empty_device_says_what_to_do(new_device: Callable[..., Device]) -> None:
    device = new_device()
    shown = device.sotto("status").stdout
    assert "sotto pull" in shown
    assert "not running" in shown


def test_a_bundle_in_the_place_of_the_bundles_is_told(
    new_device: Callable[..., Device], small_bundle_folder: Path
) -> None:
    device = new_device(SOTTO_BUNDLE_PATH=str(small_bundle_folder))
    shown = " ".join(device.sotto("status").stdout.split())
    assert f"bundle.path is a bundle itself: {small_bundle_folder}" in shown
    assert f"ln -s {small_bundle_folder.resolve()} F/current" in shown
    assert device.json("status")[0]["bundle_id"] == ""


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


SAID = "Zebulon saw the pond"


def test_it_holds_versions_settings_findings_and_sizes(device: Device) -> None:
    device.sotto("privatize", SAID)
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
    device.sotto("privatize", SAID)
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


CARD = "# Tagger\n\nOf texts under CC BY-SA 4.0.\x1b[2J\n"


def test_the_cards_of_a_bundle_are_shown(
    new_device: Callable[..., Device], tagged_bundle: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(tagged_bundle, tmp_path / "carded")
    file = folder / CARDS / "tagger.md"
    file.write_text(CARD)
    manifest = Bundle.open(tagged_bundle).manifest
    stored = {**manifest.files, f"{CARDS}/tagger.md": StoredFile(file.stat().st_size, sha256(file))}
    changed = dataclasses.replace(manifest, files=stored)
    (folder / "manifest.json").write_bytes(changed.to_json())
    device = new_device(folder)
    shown = device.sotto("licences").stdout
    assert "program: Apache-2.0" in shown
    assert "CC BY-SA 4.0.\ufffd" in shown  # a terminal obeys nothing that a bundle brings
    assert device.json("licences")[0]["cards"]["tagger"] == CARD


def test_a_bundle_without_cards_says_so(
    new_device: Callable[..., Device], tagged_bundle: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tagged_bundle, tmp_path / "bare"))
    change_manifest(
        folder,
        lambda told: told.update(
            files={name: held for name, held in told["files"].items() if CARDS not in name}
        ),
    )
    shutil.rmtree(folder / CARDS)
    device = new_device(folder)
    assert "brings no cards" in device.sotto("licences").stdout
    assert device.json("licences")[0]["cards"] == {}


def test_the_device_s_own_network_has_a_card(
    new_device: Callable[..., Device], tagged_bundle: Path
) -> None:
    device = new_device(tagged_bundle)
    told = device.json("licences")[0]["own_cards"]["context_finder"]
    assert "CC BY-SA 4.0" in told
    assert told in device.sotto("licences").stdout
