"""Bundles altered as a dishonest provider would alter them: every hash fits again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.manifest import sha256


def change_manifest(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Has `change` alter the manifest's JSON in place, after its hashes were made to fit."""
    file = folder / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest.pop("checksum", None)  # which nobody must give
    for path, stored in manifest["files"].items():
        stored["bytes"] = (folder / path).stat().st_size
        stored["sha256"] = sha256(folder / path)
    change(manifest)
    file.write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")


def change_array(
    folder: Path, path: str, change: Callable[[NDArray[Any]], NDArray[np.generic]]
) -> None:
    """Puts what `change` makes of an array in its place, and mends the hashes."""
    np.save(folder / path, change(np.load(folder / path)))
    change_manifest(folder, lambda manifest: None)


def add_file(folder: Path, path: str, data: bytes) -> None:
    """Puts a file into a bundle, or another in its place, and names it in the manifest."""
    (folder / path).parent.mkdir(exist_ok=True)
    (folder / path).write_bytes(data)
    stored = {"bytes": len(data), "sha256": sha256(folder / path)}
    change_manifest(folder, lambda manifest: manifest["files"].update({path: stored}))
