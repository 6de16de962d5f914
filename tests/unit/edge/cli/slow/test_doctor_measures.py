"""`sotto doctor` measures a bundle's claims, over the built bundle."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.tampering import change_manifest, plant
from tests.unit.edge.cli.conftest import Device
from tests.unit.edge.cli.test_doctor import _checks


def test_what_a_bundle_claims_is_measured(
    new_device: Callable[..., Device], bundle_folder: Path, tmp_path: Path
) -> None:
    tampered = Path(shutil.copytree(bundle_folder, tmp_path / "tampered"))
    device = new_device(tampered)
    result, told = _checks(device, 3)["claims"]  # the daemon does not run
    assert result == "OK"
    assert re.search(r"strong \d% \(said \d%\), balanced [45]\d%", told)

    def louder(manifest: dict[str, Any]) -> None:
        level = manifest["calibration"][device.config.privacy.mechanism]["balanced"]
        for each in (level, *level["classes"].values()):
            each["eta"] = 1e6

    change_manifest(tampered, louder)
    result, told = _checks(device, 3)["claims"]
    assert result == "FAIL"
    assert "guesses 100% here" in told
    assert "ask the provider" in told


def test_names_planted_among_the_words_are_told_and_drawn(
    new_device: Callable[..., Device], bundle_folder: Path, tmp_path: Path
) -> None:
    tampered = Path(shutil.copytree(bundle_folder, tmp_path / "tampered"))
    plant(tampered, {"whoever": "zelenka", "algae": "quillfeather"})
    device = new_device(tampered)
    result, told = _checks(device, 3)["claims"]
    assert result == "OK"
    assert "2 words" in told
    for policy in ("names", "content"):
        released = device.sotto(
            "privatize", "--level", "light", "--policy", policy, stdin="to zelenka, quillfeather"
        ).stdout
        assert not {"zelenka", "quillfeather"} & set(re.findall(r"\w+", released))
