"""A new mechanism is one module and one line: nothing else on the device knows any by name.

This file is the module; the line is in `registered`.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import Level
from sottovoce.core.bundle.manifest import ANY, class_name
from sottovoce.core.privacy import mechanisms
from sottovoce.core.privacy.mechanisms.spherical import SphericalNoise
from sottovoce.core.privacy.policies import Setting, Treatment
from sottovoce.core.privacy.privatizer import Privatizer
from tests.unit.edge.cli.conftest import Device

TEXT = "Anna was in the garden by the pond"
ETA = 0.5


@dataclass(frozen=True, slots=True)
class Nouns(SphericalNoise):
    """Nouns become any word, at three times the price."""

    name: ClassVar[str] = "nouns.v1"
    contextual: ClassVar[bool] = False

    @classmethod
    def of(cls, level: Level, readings: tuple[str, ...]) -> Self:
        return cls(level.eta)

    @property
    def tags(self) -> None:
        return None

    def protects(self, tag: str) -> bool:
        return tag == "NOUN"

    def word_class(self, tag: str, clitic: bool) -> str:
        return class_name(ANY, clitic)

    def charge(self, classes: Sequence[str]) -> float:
        return 3 * self.eta * len(classes)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(mechanisms.MECHANISMS, Nouns.name, f"{__name__}:Nouns")


@pytest.fixture
def calibrated(tagged_bundle: Path, tmp_path: Path) -> Path:
    """Return a bundle calibrated for the mechanism."""
    folder = tmp_path / "calibrated"
    shutil.copytree(tagged_bundle, folder)
    manifest = Bundle.open(folder).manifest
    level = dataclasses.replace(manifest.calibration["t2t.v1"]["strong"], eta=ETA)
    levels = {**manifest.calibration, Nouns.name: {"balanced": level}}
    changed = dataclasses.replace(manifest, calibration=levels)
    (folder / "manifest.json").write_bytes(changed.to_json())
    return folder


@pytest.mark.usefixtures("registered")
def test_the_privatizer_asks_it_what_to_cover_and_what_that_costs(calibrated: Path) -> None:
    privatizer = Privatizer(Bundle.open(calibrated))
    setting = Setting("balanced", Nouns.name)
    assert privatizer.mechanism(setting) == Nouns(ETA)
    release = privatizer.release(TEXT, setting, np.random.default_rng(0))
    noisy = [
        TEXT[word.start : word.end] for word in release.words if word.treatment is Treatment.NOISE
    ]
    assert noisy == ["garden", "pond"]
    assert (release.eta, release.charge) == (ETA, 3 * ETA * 2)
    assert len(privatizer.release_plain_tokens([1, 2, 3], setting)) == 3


@pytest.mark.usefixtures("registered")
def test_the_agent_charges_what_it_says_and_reports_its_name(
    calibrated: Path, new_device: Callable[..., Device]
) -> None:
    device = new_device(calibrated, SOTTO_PRIVACY_MECHANISM=Nouns.name)
    (told,) = device.json("privatize", stdin=TEXT)
    assert (told["mechanism"], told["eta"]) == (Nouns.name, ETA)
    noisy = [word for word in told["words"] if word["treatment"] == "NOISE"]
    assert {word["tag"] for word in noisy} == {"NOUN"}
    (status,) = device.json("status")
    assert status["default_mechanism"] == Nouns.name
    assert status["ledger"]["spent"] == 3 * ETA * len(noisy)
    assert [level["name"] for level in status["levels"]] == ["balanced"]


def test_without_the_line_it_is_unknown(
    calibrated: Path, new_device: Callable[..., Device]
) -> None:
    result = new_device(calibrated).sotto(
        "privatize", "--mechanism", Nouns.name, stdin=TEXT, code=4
    )
    assert "use one of: pct2t.v2, pct2t.v1, t2t.v1" in result.stderr
