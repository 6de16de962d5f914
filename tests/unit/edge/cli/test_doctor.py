"""`sotto doctor` finds each fault, and no other."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.agent import running
from tests.support.key_places import give_credential
from tests.support.onnx_bytes import loop
from tests.support.stub_cloud import StubCloud
from tests.support.stub_mutual_tls import CLIENTS, mutual_tls, settings_for
from tests.support.tampering import BLINDING, add_file

from .conftest import Device


def _checks(device: Device, code: int) -> dict[str, tuple[str, str]]:
    (told,) = device.json("doctor", code=code)
    assert told["ok"] == (code == 0)
    return {c["check"]: (c["result"], c["detail"] + " " + c["fix"]) for c in told["checks"]}


def test_a_healthy_device_is_well(linked: Device) -> None:
    with running(linked.config):
        checks = _checks(linked, 0)
        shown = linked.sotto("doctor").stdout
    assert {result for result, _ in checks.values()} == {"OK"}
    assert checks.keys() == {
        "config",
        "randomness",
        "state",
        "permissions",
        "bundle",
        "signature",
        "claims",
        "floors",
        "tagger",
        "finder",
        "daemon",
        "cloud",
        "tenant",
    }
    assert "NOUN" in checks["tagger"][1]
    assert "FAIL" not in shown


def test_each_fault_is_found_with_its_fix(
    new_device: Callable[..., Device], linked: Device, cloud: StubCloud
) -> None:
    (linked.folder / "token").write_text("wrong")
    (linked.folder / "token").chmod(0o644)
    checks = _checks(linked, 3)
    failed = {name for name, (result, _) in checks.items() if result == "FAIL"}
    assert failed == {"permissions", "daemon", "tenant"}
    assert "chmod 600" in checks["permissions"][1]
    assert "sotto serve" in checks["daemon"][1]
    assert "wrong token" in checks["tenant"][1]
    cloud.stop()
    assert "does not answer" in _checks(linked, 3)["cloud"][1]


@pytest.mark.parametrize("path", ["rows.npy", "manifest.json"])
def test_a_damaged_bundle_is_found(linked: Device, cloud: StubCloud, path: str) -> None:
    linked.config.bundle.current.unlink()
    linked.sotto("pull")
    file = linked.config.bundle.current / path
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    assert f"{path} was altered" in _checks(linked, 3)["bundle"][1]
    linked.sotto("pull")
    assert _checks(linked, 3)["bundle"][0] == "OK"


def test_who_made_the_bundle_is_told(linked: Device, cloud: StubCloud) -> None:
    assert "linked by hand" in _checks(linked, 3)["signature"][1]  # the daemon does not run
    linked.config.bundle.current.unlink()
    (pulled,) = linked.json("pull")
    assert pulled["key"] in _checks(linked, 3)["signature"][1]
    (linked.config.bundle.path / "known_clouds").unlink()
    for check in ("bundle", "signature"):
        result, told = _checks(linked, 3)[check]
        assert result == "FAIL"
        assert "never noted here" in told
    assert linked.sotto("privatize", stdin="Anna was here", code=3).stdout == ""


def test_a_tagger_that_never_ends_is_found_and_not_run(
    new_device: Callable[..., Device], tagged_bundle: Path, tmp_path: Path
) -> None:
    endless = Path(shutil.copytree(tagged_bundle, tmp_path / "endless"))
    add_file(endless, "tagger/tagger.onnx", loop())
    result, told = _checks(new_device(endless), 3)["bundle"]
    assert result == "FAIL"
    assert "tagger.onnx" in told


@pytest.mark.parametrize("tamper", BLINDING)
def test_a_bundle_that_blinds_the_device_is_told(
    new_device: Callable[..., Device],
    bundle_folder: Path,
    tmp_path: Path,
    tamper: Callable[[Path], None],
) -> None:
    tampered = Path(shutil.copytree(bundle_folder, tmp_path / "tampered"))
    tamper(tampered)
    result, told = _checks(new_device(tampered), 3)["claims"]
    assert result == "FAIL"
    assert "cannot be trusted" in told


def test_a_level_the_owner_does_not_allow_is_told(
    new_device: Callable[..., Device], tagged_bundle: Path
) -> None:
    device = new_device(tagged_bundle, SOTTO_PRIVACY_LARGEST_ETA="15")
    result, told = _checks(device, 3)["floors"]
    assert (result, "balanced has eta 15, 15 is allowed" in told) == ("OK", True)
    strict = device.environment | {"SOTTO_PRIVACY_LEAST_POLICY": "all"}
    result, told = _checks(dataclasses.replace(device, environment=strict), 3)["floors"]
    assert result == "FAIL"
    assert "privacy.least_policy" in told
    device = dataclasses.replace(
        device, environment=device.environment | {"SOTTO_PRIVACY_LARGEST_ETA": "14"}
    )
    result, told = _checks(device, 3)["floors"]
    assert result == "FAIL"
    assert "privacy.largest_eta" in told
    refused = device.sotto("privatize", "--json", stdin="Anna was here", code=3)
    assert json.loads(refused.stderr)["error"]["subject"] == "privacy.largest_eta"
    assert refused.stdout == ""
    assert device.sotto("privatize", "--level", "strong", stdin="Anna was here").stdout


def test_half_a_state_is_found(linked: Device) -> None:
    assert _checks(linked, 3)["state"][0] == "OK"  # the daemon does not run
    (linked.config.agent.state / "agent.db").unlink()
    result, told = _checks(linked, 3)["state"]
    assert result == "FAIL"
    assert "agent.db is gone or empty" in told
    assert "together with its key" in told
    assert linked.sotto("privatize", stdin="Anna was here", code=8).stdout == ""


def test_a_state_that_cannot_be_made_ends_no_other_check(new_device: Callable[..., Device]) -> None:
    checks = _checks(new_device(SOTTO_AGENT_STATE="/dev/null/state"), 3)
    for name in ("state", "permissions"):
        assert checks[name][0] == "FAIL"
        assert "/dev/null/state" in checks[name][1]
    assert {"bundle", "daemon", "cloud"} < checks.keys()


def test_a_key_that_only_the_service_has_is_no_fault(
    linked: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked.environment["SOTTO_AGENT_KEY_PLACE"] = "credential"
    give_credential(monkeypatch, tmp_path / "credentials", bytes(32))
    linked.sotto("privatize", stdin="the river")
    for handed, result in ((True, "OK"), (False, "SKIP")):
        if not handed:
            monkeypatch.delenv("CREDENTIALS_DIRECTORY")
        (said,) = linked.json("doctor", code=3)  # no agent runs
        (state,) = [each for each in said["checks"] if each["check"] == "state"]
        assert state["result"] == result
        failed = [each["check"] for each in said["checks"] if each["result"] == "FAIL"]
        assert "state" not in failed


def test_an_empty_device_is_told_to_pull(new_device: Callable[..., Device]) -> None:
    checks = _checks(new_device(), 3)
    assert "sotto pull" in checks["bundle"][1]
    assert checks["signature"][0] == "FAIL"
    assert {checks[name][0] for name in ("claims", "floors", "tagger", "cloud")} == {"SKIP"}


def test_a_wrong_configuration_ends_the_examination(new_device: Callable[..., Device]) -> None:
    device = new_device(SOTTO_TAGGER_BACKEND="spacey")
    assert list(_checks(device, 3)) == ["config"]


def test_it_says_how_long_the_certificate_is_valid(
    new_device: Callable[..., Device], tmp_path: Path
) -> None:
    with mutual_tls() as server:
        device = new_device(**settings_for(tmp_path, server))
        result, told = _checks(device, 3)["tenant"]
        assert (result, "with a certificate until" in told) == ("OK", True)
        (tmp_path / "key").write_bytes(CLIENTS.sign("hall").key)
        result, told = _checks(device, 3)["tenant"]
        assert (result, "do not match" in told) == ("FAIL", True)
