"""Signed bundles with false figures or a blind finder are refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sottovoce.core.errors import BundleMismatch
from tests.support.tampering import BLINDING, change_manifest
from tests.unit.edge.client.test_pull import _pair, _pull


def test_a_level_that_is_not_what_it_claims_is_refused_though_it_is_signed(
    tmp_path: Path, bundle_folder: Path
) -> None:
    with _pair(tmp_path, bundle_folder) as (server, config):
        before = _pull(config)
        tampered = Path(shutil.copytree(bundle_folder, tmp_path / "tampered"))

        def louder(manifest: dict[str, Any]) -> None:
            manifest["calibration"]["pct2t.v1"]["balanced"]["eta"] = 1e6

        change_manifest(tampered, louder)
        server.bundle = tampered
        with pytest.raises(BundleMismatch, match=r"balanced.*guesses 100% here"):
            _pull(config)
        assert config.bundle.current.resolve() == before.folder


@pytest.mark.parametrize("tamper", BLINDING)
def test_a_bundle_that_blinds_the_device_is_refused_though_it_is_signed(
    tmp_path: Path, bundle_folder: Path, tamper: Callable[[Path], None]
) -> None:
    tampered = Path(shutil.copytree(bundle_folder, tmp_path / "tampered"))
    tamper(tampered)
    with (
        _pair(tmp_path, tampered) as (_, config),
        pytest.raises(BundleMismatch, match="cannot be trusted"),
    ):
        _pull(config)
    assert not config.bundle.current.exists()
