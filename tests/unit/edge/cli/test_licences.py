"""`sotto licences`: the cards that a bundle brings."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

from sottovoce.core.bundle.folder import CARDS, Bundle
from sottovoce.core.bundle.manifest import StoredFile, sha256
from tests.support.tampering import change_manifest

from .conftest import Device

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
