"""A manifest in raw JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sottovoce.core.bundle.manifest import Manifest

FILE = {"bytes": 1, "sha256": "0" * 64}


@pytest.fixture(scope="module")
def raw(small_bundle_folder: Path) -> dict[str, Any]:
    """The small bundle's manifest, with one of each kind of thing that it lacks."""
    found: dict[str, Any] = json.loads((small_bundle_folder / "manifest.json").read_bytes())
    found.pop("checksum")
    of_class = {"eta": 4.0, "replaced": 0.5, "map_attack": 0.5, "blind": 0.1}
    for mechanism in ("pct2t.v2", "pct2t.v1"):
        found["calibration"][mechanism]["strong"]["classes"] = {"NOUN": of_class}
    found["classes"]["NOUN"] |= {"recall": {"t2t.v1/x": 1.0}, "kept_difference": {"t2t.v1/x": 0}}
    found["shares"] = {"NOUN": 0.5, "VERB": 0.5}
    found["optional"] = {"encoder/encoder.onnx": FILE}
    assert Manifest.from_json(json.dumps(found).encode())
    return found
