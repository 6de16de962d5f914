"""`sotto fetch` and what `sotto predict --where` makes of it."""

from __future__ import annotations

import pytest

from sottovoce.edge.tasks import local_inference as homes
from tests.support.agent import running
from tests.support.fake_cloud import FakeCloud
from tests.support.plain_encoder import PlainEncoder

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


def test_what_was_fetched_answers_with_the_cloud_gone(trained: Device, cloud: FakeCloud) -> None:
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


def test_an_adapter_without_an_encoder_is_told_at_once(linked: Device) -> None:
    train(linked, "wet", "dry")
    before = linked.config.bundle.current.resolve()
    told = linked.sotto("fetch", "desk").stderr
    assert "cannot answer with desk yet" in told
    assert "build-bundle --encoder" in told
    assert "--where cloud" in told
    assert linked.json("predict", "desk", "--where", "cloud", "the river")[0]["label"] == "wet"
    assert linked.config.bundle.current.resolve() == before, "the owner's link stays"


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
    trained: Device, cloud: FakeCloud
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


def test_what_is_missing_is_named(trained: Device) -> None:
    refused = trained.sotto("predict", "desk", "--where", "device", "the river", code=3)
    assert "sotto fetch" in refused.stderr
    assert "no such adapter" in trained.sotto("fetch", "nobody", code=4).stderr
    assert "predict.where" in refused_by_configuration(trained)


def test_a_command_that_is_told_device_sends_nothing_whatever_the_agent_was_told(
    trained: Device, cloud: FakeCloud
) -> None:
    with running(trained.config):
        trained.environment["SOTTO_PREDICT_WHERE"] = "device"
        refused = trained.sotto("predict", "desk", "the river", code=3)
        assert "sotto fetch" in refused.stderr
        refused = trained.sotto("predict", "desk", "--where", "cloud", "the river", code=3)
        assert "lets nobody else answer" in refused.stderr
    assert cloud.predictions == []


def refused_by_configuration(device: Device) -> str:
    device.environment["SOTTO_PREDICT_WHERE"] = "home"
    return str(device.sotto("predict", "desk", "the river", code=78).stderr)
