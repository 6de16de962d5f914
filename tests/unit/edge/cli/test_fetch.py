"""`sotto fetch`, and `sotto predict --where` afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sottovoce.cloud.api.models_service import stays_here
from sottovoce.core.bundle.encoder import Encoder
from sottovoce.core.bundle.folder import ENCODER, Bundle
from sottovoce.core.errors import DataLoss
from sottovoce.edge.tasks import local_inference as homes
from tests.support.agent import running
from tests.support.encoder_bundle import with_some_files
from tests.support.plain_encoder import PlainEncoder
from tests.support.stub_cloud import StubCloud, stub_cloud
from tests.support.waiting import until

from .conftest import Device


@pytest.fixture
def trained(linked: Device, monkeypatch: pytest.MonkeyPatch) -> Device:
    monkeypatch.setattr(homes, "_open_encoder", PlainEncoder)
    train(linked, "wet", "dry")
    return linked


def train(device: Device, first: str, second: str) -> None:
    rows = [f"river\t{first}", f"stone\t{second}"] * 5
    file = device.folder / "train.tsv"
    file.write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    with running(device.config):
        device.sotto("customize", "desk", "--input", str(file), "--level", "light", "--replace")


def test_what_was_fetched_answers_with_the_cloud_gone(trained: Device, cloud: StubCloud) -> None:
    assert "desk is at home" in trained.sotto("fetch", "desk").stdout
    assert "up to date" in trained.sotto("fetch", "desk").stdout
    cloud.stop()
    asked = ("predict", "desk", "--where", "device")
    (answer,) = trained.json(*asked, "the river")
    assert (answer["label"], answer["answered"], answer["released_text"]) == ("wet", "device", "")
    with running(trained.config):  # and so does a daemon over the same state
        assert trained.json(*asked, "the river") == [answer]
    cloud.start()
    (answer,) = trained.json("predict", "desk", "--where", "cloud", "the river")
    assert answer["answered"] == "cloud"


def or_stand_in(bundle: Bundle) -> PlainEncoder:
    """Open a stand-in if all of the encoder's files are here; they hold no graph."""
    try:
        Encoder.load(bundle)
    except DataLoss:
        assert {each.name for each in bundle.encoder_folder.iterdir()} == {
            Path(path).name for path in bundle.manifest.optional
        }
    return PlainEncoder(bundle)


@pytest.fixture
def offering(tagged_bundle: Path, tmp_path: Path) -> Iterator[StubCloud]:
    """Run a cloud with an encoder in its bundle."""
    with stub_cloud(with_some_files(tagged_bundle, tmp_path / "served")) as server:
        yield server


@pytest.fixture
def pulled(
    new_device: Callable[..., Device], offering: StubCloud, monkeypatch: pytest.MonkeyPatch
) -> Device:
    """A device that pulled the bundle without the encoder, and had an adapter trained."""
    monkeypatch.setattr(homes, "_open_encoder", or_stand_in)
    device = new_device(SOTTO_CLOUD_ADDRESS=offering.address)
    device.sotto("pull")
    train(device, "wet", "dry")
    assert not (device.config.bundle.current / ENCODER).exists()
    return device


def lose_encoder(device: Device) -> None:
    shutil.rmtree(device.config.bundle.current.resolve() / ENCODER)


def test_the_first_adapter_brings_the_encoder(pulled: Device, offering: StubCloud) -> None:
    shown = pulled.sotto("fetch", "desk").stdout
    assert "encoder" in shown
    assert "desk is at home" in shown
    asked = ("predict", "desk", "--where", "device")
    assert pulled.json(*asked, "the river")[0]["label"] == "wet"
    offering.fetched.clear()
    assert pulled.json("fetch", "desk")[0]["encoder_bytes"] == 0
    assert offering.fetched.total() == 0


def test_a_lost_encoder_comes_again_for_an_adapter_that_is_here(
    pulled: Device, offering: StubCloud
) -> None:
    pulled.sotto("fetch", "desk")
    lose_encoder(pulled)
    assert "`sotto pull --encoder`" in pulled.sotto("pull").stderr
    (told,) = pulled.json("fetch", "desk")
    assert told["up_to_date"]
    files = (offering.bundle / ENCODER).iterdir()
    assert told["encoder_bytes"] == sum(file.stat().st_size for file in files)
    pulled.sotto("predict", "desk", "--where", "device", "the river")


def test_a_provider_who_keeps_adapters_costs_no_encoder(
    pulled: Device, offering: StubCloud
) -> None:
    offering.refuses["GetAdapter"] = stays_here()
    pulled.sotto("fetch", "desk", code=3)
    assert not (pulled.config.bundle.current / ENCODER).exists()


def test_an_adapter_whose_encoder_does_not_arrive_leaves_the_earlier_one_in_use(
    pulled: Device, offering: StubCloud
) -> None:
    offering.altered = f"{ENCODER}/encoder.onnx"
    refused = pulled.sotto("fetch", "desk", code=8)
    assert "altered" in refused.stderr
    assert "at home" not in refused.stdout
    assert pulled.json("predict", "desk", "the river")[0]["answered"] == "cloud"
    offering.altered = ""
    (first,) = pulled.json("fetch", "desk")
    train(pulled, "blue", "grey")
    lose_encoder(pulled)
    offering.altered = f"{ENCODER}/encoder.onnx"
    pulled.sotto("fetch", "desk", code=8)
    (listed,) = pulled.json("fetch", "desk", "--versions")
    assert listed["versions"] == [{"version": first["version"], "in_use": True}]


def test_a_followed_version_whose_encoder_does_not_arrive_changes_nothing(
    pulled: Device, offering: StubCloud, caplog: pytest.LogCaptureFixture
) -> None:
    (first,) = pulled.json("fetch", "desk", "--follow")
    lose_encoder(pulled)
    offering.altered = f"{ENCODER}/encoder.onnx"
    train(pulled, "blue", "grey")
    caplog.clear()
    with running(pulled.config):
        until(lambda: "following adapters" in caplog.text)
    assert "DataLoss" in caplog.text
    (listed,) = pulled.json("fetch", "desk", "--versions")
    assert listed["versions"] == [{"version": first["version"], "in_use": True}]


def test_a_bundle_without_an_encoder_is_refused_before_anything_is_fetched(
    linked: Device, cloud: StubCloud
) -> None:
    train(linked, "wet", "dry")
    told = linked.sotto("fetch", "desk", code=3)
    assert "build-bundle --encoder" in told.stderr
    assert "--where cloud" in told.stderr
    assert not told.stdout
    assert cloud.fetched["adapter"] == 0
    assert linked.json("predict", "desk", "the river")[0]["answered"] == "cloud"


def test_a_bundle_that_was_linked_by_hand_stays_the_owners(
    new_device: Callable[..., Device], offering: StubCloud, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    shutil.copytree(offering.bundle, own)
    shutil.rmtree(own / ENCODER)
    device = new_device(own, SOTTO_CLOUD_ADDRESS=offering.address)
    train(device, "wet", "dry")
    before = device.config.bundle.current.resolve()
    assert str(own / ENCODER) in device.sotto("fetch", "desk", code=3).stderr
    assert device.config.bundle.current.resolve() == before
    assert offering.fetched["adapter"] == 0


def test_versions_are_listed_and_taken_back(trained: Device) -> None:
    (first,) = trained.json("fetch", "desk")
    assert "earlier version" in trained.sotto("fetch", "desk", "--roll-back", code=3).stderr
    train(trained, "blue", "grey")
    (second,) = trained.json("fetch", "desk")
    assert (second["up_to_date"], first["version"] == second["version"]) == (False, False)
    (listed,) = trained.json("fetch", "desk", "--versions")
    assert [v["version"] for v in listed["versions"]] == [second["version"], first["version"]]
    assert [v["in_use"] for v in listed["versions"]] == [True, False]
    assert trained.json("fetch", "desk", "--roll-back") == [{"version": first["version"]}]
    marked = trained.sotto("fetch", "desk", "--versions").stdout.splitlines()
    assert [line[0] for line in marked] == [" ", "*"]
    trained.sotto("fetch", "desk", "--versions", "--roll-back", code=2)


def test_following_ends_with_the_cloud_gone_and_is_not_ignored(
    trained: Device, cloud: StubCloud
) -> None:
    trained.sotto("fetch", "desk", "--follow")
    (marker,) = trained.folder.glob("**/followed")
    for other in ("--versions", "--roll-back"):
        for follow in ("--follow", "--no-follow"):
            assert "give one" in trained.sotto("fetch", "desk", other, follow, code=2).stderr
    cloud.stop()
    assert "no longer" in trained.sotto("fetch", "desk", "--no-follow").stdout
    assert not marker.exists()
    assert trained.json("fetch", "desk", "--no-follow") == [{"followed": False}]


def test_a_command_that_is_told_device_sends_nothing_whatever_the_agent_was_told(
    trained: Device, cloud: StubCloud
) -> None:
    with running(trained.config):
        trained.environment["SOTTO_PREDICT_WHERE"] = "device"
        refused = trained.sotto("predict", "desk", "the river", code=3)
        assert "sotto fetch" in refused.stderr
        refused = trained.sotto("predict", "desk", "--where", "cloud", "the river", code=3)
        assert "lets nobody else answer" in refused.stderr
    assert cloud.received["PredictStream"] == []
