"""`sotto pull`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import ENCODER, FULL_FINDER
from sottovoce.edge.state.adapters import ADAPTERS, AdapterFolder
from tests.support.encoder_bundle import offered, with_some_files
from tests.support.stub_cloud import StubCloud, stub_cloud

from .conftest import Device


def test_a_new_device_pulls_and_privatises(
    new_device: Callable[..., Device], cloud: StubCloud
) -> None:
    device = new_device()
    (pulled,) = device.json("pull", cloud.address)
    bundle = Bundle.open(device.config.bundle.current)
    assert (pulled["bundle_id"], pulled["up_to_date"]) == (bundle.id, False)
    assert device.sotto("privatize", stdin="the pond").stdout
    assert "up to date" in device.sotto("pull", cloud.address).stdout


def test_who_holds_adapters_is_told_that_their_encoder_is_missing(linked: Device) -> None:
    assert "encoder" not in linked.sotto("pull").stderr
    folder = AdapterFolder(linked.config.agent.state / ADAPTERS, "desk")
    with folder.alone():
        folder.begun("ab" * 32).write_bytes(b"x")
        assert "encoder" not in linked.sotto("pull").stderr  # it has not arrived
        folder.install(folder.begun("ab" * 32), "ab" * 32)
    assert "build-bundle --encoder" in linked.sotto("pull").stderr  # this bundle has none


def test_who_pulls_no_encoder_learns_that_names_are_found_better_with_it(
    new_device: Callable[..., Device], tagged_bundle: Path, tmp_path: Path
) -> None:
    bundle = with_some_files(tagged_bundle, tmp_path / "served")
    folder = bundle / ENCODER
    (folder / FULL_FINDER).write_bytes((folder / "encoder.onnx").read_bytes())
    with stub_cloud(offered(bundle)) as server:
        device = new_device()
        assert "sotto pull --encoder" in device.sotto("pull", server.address).stdout
        assert "--encoder" not in device.sotto("pull", server.address, "--encoder").stdout


def test_the_configured_cloud_is_the_default(linked: Device) -> None:
    linked.config.bundle.current.unlink()
    assert "is in place" in linked.sotto("pull").stdout


def test_another_key_is_taken_on_the_owners_word_only(linked: Device, cloud: StubCloud) -> None:
    linked.config.bundle.current.unlink()
    assert "signed by ed25519:" in linked.sotto("pull").stdout
    cloud.key = Ed25519PrivateKey.generate()
    error = json.loads(linked.sotto("pull", "--json", code=3).stderr)["error"]
    assert error["subject"] == "bundle.key"
    (new,) = re.findall(r"ed25519:\S{43}", error["fix"])
    (pulled,) = linked.json("pull", "--key", new)
    assert pulled["key"] == new
    assert linked.sotto("privatize", stdin="the pond").stdout
    assert "not a public key" in linked.sotto("pull", "--key", "ssh-rsa", code=2).stderr


def test_what_goes_wrong_is_told(new_device: Callable[..., Device], cloud: StubCloud) -> None:
    device = new_device()
    assert "no cloud is configured" in device.sotto("pull", code=3).stderr
    assert "is not an address" in device.sotto("pull", "http://x", code=78).stderr
    cloud.altered = "words.txt"
    error = json.loads(device.sotto("pull", cloud.address, "--json", code=8).stderr)["error"]
    assert error["subject"] == "words.txt"
    cloud.stop()
    assert "does not answer" in device.sotto("pull", cloud.address, code=6).stderr
