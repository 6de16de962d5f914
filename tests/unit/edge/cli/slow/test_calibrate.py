"""`sotto calibrate`: the table, a level for a target, and its cost."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import ClassLevel, Level, single_word
from tests.support.agent import running
from tests.support.stub_cloud import stub_cloud
from tests.unit.edge.cli.conftest import Device

CURVE = (
    Level(1.0, 0.97, 0.98, 0.04, 0.02, 0.03),
    Level(8.0, 0.6, 0.7, 0.5, 0.3, 0.45),
    Level(2_000.0, 0.01, 0.02, 0.99, 0.98, 0.98),
)
TEXT = "The doctor saw Anna in the garden."


@pytest.fixture(scope="module")
def curved_bundle(tagged_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles") / "curved"
    shutil.copytree(tagged_bundle, folder)
    curve = dict.fromkeys(("pct2t.v2", "pct2t.v1", "t2t.v1"), CURVE)
    manifest = dataclasses.replace(Bundle.open(folder).manifest, curve=curve)
    (folder / "manifest.json").write_bytes(manifest.to_json())
    return folder


@pytest.fixture
def curved(new_device: Callable[..., Device], curved_bundle: Path) -> Device:
    return new_device(curved_bundle)


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    rows = ["text\tlabel"]
    for place in range(30):
        filler = ("river", "garden", "pond")[place % 3]
        rows.append(f"{filler} fever {filler}\till")
        rows.append(f"{filler} coffee {filler}\twell")
    file = tmp_path / "labelled.tsv"
    file.write_text("\n".join(rows), encoding="utf-8")
    return file


def spent(device: Device) -> float:
    (status,) = device.json("status")
    found: float = status["ledger"]["spent"]
    return found


def test_the_table_is_explained(device: Device) -> None:
    shown = device.sotto("calibrate").stdout
    assert [line.split()[0] for line in shown.splitlines()[3:6]] == ["strong", "balanced", "light"]
    assert "never safe because it was replaced" in shown
    guessed = [f"{line.split()[-1][:-1]} of 100" for line in shown.splitlines()[3:6]]
    said = " ".join(shown.split())
    for name, share in zip(("strong", "balanced", "light"), guessed, strict=True):
        assert (
            f"{name}: An attacker who trained a model on similar text recovers about {share}"
            in said
        )
    assert "-0%" not in shown
    *_, header, strong, balanced, light = shown.splitlines()
    assert header.lower().split() == ["level", "eta", "attack"]
    assert [line.split() for line in (strong, balanced, light)] == [
        ["strong", "4.00", "50%"],
        ["balanced", "15.00", "50%"],
        ["light", "10000.00", "50%"],
    ]
    (told,) = device.json("calibrate", "--mechanism", "t2t.v1")
    assert told["levels"]["strong"]["eta"] == 4.0
    assert told["embed"]["balanced"] == {"eta": 15.0, "map_attack": 0.5}
    assert told["target"] is None
    assert told["example"] is None


def test_every_class_is_shown_with_its_eta(
    curved_bundle: Path, new_device: Callable[..., Device], tmp_path: Path
) -> None:
    folder = tmp_path / "classes"
    shutil.copytree(curved_bundle, folder)
    manifest = Bundle.open(folder).manifest
    levels = {
        name: Level(eta, classes={"=NOUN": ClassLevel(eta, 0.5, 0.25, 0.02)})
        for name, eta in (("light", 30.0), ("strong", 8.5))
    }
    changed = dataclasses.replace(manifest, calibration={"t2t.v1": levels})
    (folder / "manifest.json").write_bytes(changed.to_json())
    device = new_device(folder)
    shown = device.sotto("calibrate", "--mechanism", "t2t.v1").stdout.splitlines()
    assert ["class", "blind", "strong", "light"] in [line.lower().split() for line in shown]
    assert ["=NOUN", "2%", "8.50", "25%", "30.00", "25%"] in [line.split() for line in shown]
    (told,) = device.json("calibrate", "--mechanism", "t2t.v1")
    assert told["levels"]["strong"]["classes"]["=NOUN"]["eta"] == 8.5


def test_the_share_of_all_words_is_told_by_policy(
    curved_bundle: Path, new_device: Callable[..., Device], tmp_path: Path
) -> None:
    folder = tmp_path / "shares"
    shutil.copytree(curved_bundle, folder)
    shares = {"NOUN": 0.5, "GRAMMAR": 0.4, "NAME": 0.1}
    manifest = dataclasses.replace(Bundle.open(folder).manifest, shares=shares)
    (folder / "manifest.json").write_bytes(manifest.to_json())
    device = new_device(folder)
    shown = [line.split() for line in device.sotto("calibrate").stdout.splitlines()]
    (told,) = device.json("calibrate")
    assert told["mechanism"] == "pct2t.v2"
    replaced = manifest.calibration["pct2t.v2"]["strong"].replaced
    assert told["verbatim"]["content"]["strong"] == pytest.approx(0.4 + 0.5 * (1 - replaced))
    assert told["verbatim"]["names"]["light"] == pytest.approx(0.9)
    assert ["names", *["90%"] * len(told["levels"]), "10%"] in shown
    (contextual,) = device.json("calibrate", "--mechanism", "pct2t.v1")
    assert contextual["verbatim"] == {}


def test_a_target_is_a_level_that_everything_takes(curved: Device) -> None:
    (told,) = curved.json("calibrate", "--target-attack", "0.308")
    found = told["target"]
    assert found["level"] == "attack:0.3"
    assert single_word(0.3) - 0.03 < found["map_attack"] < single_word(0.3)
    before, after = told["example"]["before"].split(), told["example"]["after"].split()
    assert len(before) == len(after) == 8
    assert spent(curved) == 0

    (released,) = curved.json("privatize", "--level", "attack:0.3", stdin=TEXT)
    assert released["level"] == "attack:0.3"
    assert released["eta"] == found["eta"]
    by_default = Device(curved.folder, curved.environment | {"SOTTO_PRIVACY_LEVEL": "attack:0.3"})
    (again,) = by_default.json("privatize", stdin=TEXT)
    assert again["text"] == released["text"]

    (told,) = curved.json("calibrate", "--target-replaced", "0.701")
    assert told["target"]["level"] == "replaced:0.71"
    assert told["target"]["replaced"] >= 0.71


def test_an_adapter_is_trained_and_asked_at_a_target(
    new_device: Callable[..., Device], curved_bundle: Path, labelled: Path
) -> None:
    with stub_cloud(curved_bundle) as cloud:
        device = new_device(curved_bundle, SOTTO_CLOUD_ADDRESS=cloud.address)
        with running(device.config):
            device.sotto("customize", "desk", "--input", str(labelled), "--level", "attack:0.6")
            release = cloud.jobs[0].release
            (answer,) = device.json("predict", "desk", TEXT)  # at the adapter's own level
            (released,) = device.json("privatize", "--level", "attack:0.6", stdin=TEXT)
    assert release.level == "attack:0.6"
    assert release.eta == released["eta"]
    assert answer["released_text"] == released["text"]


def test_what_was_found_is_told_in_plain_words(curved: Device) -> None:
    shown = curved.sotto("calibrate", "--target-attack", "0.3").stdout
    (row,) = [line.split() for line in shown.splitlines() if line.startswith("attack:0.3 ")]
    assert "Of 100 protected words people write" in shown
    assert f"The level found is attack:0.3, eta {row[1]}." in shown
    assert "of rare words" in shown
    assert "of names" in shown
    assert "recovers about 29 of 100 protected words" in shown
    assert float(row[-1].rstrip("%")) <= 30
    assert 'level = "attack:0.3" under [privacy]' in shown
    assert "words drawn from the bundle's list" in shown


def test_ones_own_text_is_a_release_like_any_other(curved: Device) -> None:
    asked = ["calibrate", "--target-attack", "0.3", "--text", TEXT]
    (told,) = curved.json(*asked)
    assert told["example"]["before"] == TEXT
    charged = spent(curved)
    assert charged == pytest.approx(2 * told["target"]["eta"])  # doctor, garden
    (again,) = curved.json(*asked)
    (released,) = curved.json("privatize", "--level", "attack:0.3", stdin=TEXT)
    assert told["example"]["after"] == again["example"]["after"] == released["text"]
    assert spent(curved) == charged
    shown = curved.sotto("calibrate", "--text", TEXT).stdout
    assert f"before: {TEXT}\nafter:  " in shown
    assert "on the ledger" in shown


def test_utility_is_estimated_for_nothing_and_once(curved: Device, labelled: Path) -> None:
    asked = ["calibrate", "--mechanism", "t2t.v1", "--target-utility", "0.9", "--labelled"]
    (told,) = curved.json(*asked, str(labelled))
    assert spent(curved) == 0
    found = told["utility"]
    assert found["texts"] == 60
    assert found["guess"] == 0.5
    assert found["clear"] == 1.0
    assert [point["accuracy"] >= 0.9 for point in found["points"]][-1]
    assert told["target"]["level"].startswith("attack:0.")

    (kept,) = (curved.config.bundle.path / "utility").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "fever" not in kept.read_text()
    (again,) = curved.json(*asked, str(labelled))
    assert again["utility"] == found  # though its noise was fresh
    kept.write_text("{}")
    assert json.loads(curved.sotto(*asked, str(labelled), "--json").stdout)["utility"] != {}
    assert "points" in kept.read_text()

    other = labelled.with_name("other.tsv")
    other.write_text(labelled.read_text() + "\npond tea\twell")
    (told,) = curved.json(*asked, str(other))
    assert told["utility"]["texts"] == 61
    shown = curved.sotto(*asked, str(other)).stdout
    assert "unprotected, the upper bound" in shown
    assert "stand-in classifier on 61 labelled texts" in shown


def test_wrong_questions_are_refused(curved: Device, labelled: Path) -> None:
    def refused(*arguments: str, code: int = 2) -> str:
        return curved.sotto("calibrate", *arguments, code=code).stderr

    assert "give one" in refused("--target-replaced", "0.5", "--target-attack", "0.5")
    assert "0.01 to 0.99" in refused("--target-attack", "1.5")
    assert "0.29 to 0.99" in refused("--target-attack", "0.05")
    assert "pct2t.v1" in refused("--mechanism", "x", code=4)
    assert "give both" in refused("--target-utility", "0.8")
    assert "give both" in refused("--labelled", str(labelled))
    labelled.write_text("text\tlabel\n" + "\n".join(f"pond\t{label}" for label in "ab" * 10))
    told = refused("--target-utility", "0.95", "--labelled", str(labelled))
    assert "even unprotected" in told
