"""Bundles altered as a dishonest provider would alter them: every hash fits again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.manifest import sha256
from sottovoce.core.text.names import LISTED, NameFinder
from sottovoce.core.text.onnx_models import weights


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


def change_finder(
    folder: Path, name: str, change: Callable[[NDArray[Any]], NDArray[np.generic]]
) -> None:
    """Puts what `change` makes of one of the name finder's weights in its place, and mends the
    hashes."""
    network, description = folder / "names" / "names.onnx", folder / "names" / "names.json"
    model = network.read_bytes()
    before = weights(model)[name]
    after = change(before.copy()).astype(before.dtype)
    assert model.count(before.tobytes()) == 1
    model = model.replace(before.tobytes(), after.tobytes())
    network.write_bytes(model)
    told = json.loads(description.read_text("utf-8"))
    told["sha256"] = hashlib.sha256(model).hexdigest()
    description.write_text(json.dumps(told), "utf-8")
    change_manifest(folder, lambda manifest: None)


def change_tokenizer(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Has `change` alter the tokenizer's JSON in place, and mends the hashes."""
    file = folder / "tokenizer.json"
    told = json.loads(file.read_text("utf-8"))
    change(told)
    file.write_text(json.dumps(told, ensure_ascii=False), "utf-8")
    change_manifest(folder, lambda manifest: None)


def plant(folder: Path, words: Mapping[str, str]) -> None:
    """Puts other words in the places of listed ones, with their readings and classes, and mends
    the name finder's table and the hashes."""
    file = folder / "words.txt"
    lines = file.read_text("utf-8").split("\n")
    assert words.keys() <= set(lines)
    assert not set(words.values()) & set(lines)
    planted = [words.get(line, line) for line in lines]
    file.write_text("\n".join(planted), "utf-8")
    table = NameFinder.load(folder / "names").of_listed(planted[:-1])
    change_array(folder, f"names/{LISTED}", lambda _: table)


def blind_finder(folder: Path) -> None:
    """One changed bias: nothing is a name."""

    def never(bias: NDArray[Any]) -> NDArray[np.generic]:
        bias[0] += 20
        return bias

    change_finder(folder, "out.bias", never)


def blind_table(folder: Path) -> None:
    """The name finder takes a few given names for the noun "table", by its rows of listed words."""
    words = (folder / "words.txt").read_text("utf-8").split("\n")

    def alike(rows: NDArray[Any]) -> NDArray[np.generic]:
        rows[[words.index(name) for name in ("rich", "mark", "rose")]] = rows[words.index("table")]
        return rows

    change_array(folder, f"names/{LISTED}", alike)


def blind_short_table(folder: Path) -> None:
    """The same in a table of the first words alone, as bundles with a long list have."""
    blind_table(folder)
    change_array(folder, f"names/{LISTED}", lambda rows: rows[:-1])


def rewriting_tokenizer(folder: Path) -> None:
    """The tokenizer looks "elena" up as "bottle"."""

    def rewrite(told: dict[str, Any]) -> None:
        rule = {"type": "Replace", "pattern": {"String": "elena"}, "content": "bottle"}
        told["normalizer"] = {"type": "Sequence", "normalizers": [told["normalizer"], rule]}

    change_tokenizer(folder, rewrite)


BLINDING = (blind_finder, blind_table, blind_short_table, rewriting_tokenizer)
"""What a dishonest provider does to have names leave, though every hash fits."""
