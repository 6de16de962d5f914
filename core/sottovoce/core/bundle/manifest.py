"""The format of ``manifest.json``; the hash of the file's bytes is the bundle's id.

The manifest names every other file with its size and SHA-256, so the id identifies the whole
bundle. It also holds its own checksum. The server of a bundle has no id to compare with, and
without the checksum it would sign a manifest that its disk had damaged. The cloud's builder writes
the manifest with this module and the device reads it with the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final

from sottovoce.core.bundle.levels import EmbedLevel, Level, Share, between, is_target
from sottovoce.core.bundle.signature import SIGNATURE
from sottovoce.core.errors import BundleMismatch, DataLoss, NotFound, Remedy
from sottovoce.core.platform.schema import (
    Longest,
    Malformed,
    Match,
    Range,
    Sha256,
    decode,
    parse_object,
)

FORMAT = "sottovoce.bundle.v2"
MANIFEST = "manifest.json"
ENCODER = "encoder"
"""The folder of the optional files, in a bundle."""
FULL_FINDER = "full_finder.onnx"
"""The graph of `sottovoce.core.bundle.full_finder`, among the optional files."""

REQUIRED: Final = (
    *("members.npy", "readings.npy", "rows.npy", "tokenizer.json", "tokens.npy", "words.txt"),
)
"""The files that every bundle has."""

_CHECKSUM = "checksum"
_LARGEST: Final = 1 << 23
_PART: Final = "[A-Za-z0-9_][A-Za-z0-9_.+=-]*"

Count = Annotated[int, Range(1, 1 << 20)]
Name = Annotated[str, Longest(256)]
Relative = Annotated[
    str, Longest(200), Match(f"{_PART}(/{_PART}){{0,7}}", "a path within the bundle's folder")
]

ANY = "*"
CLITIC = "+clitic"


def class_name(tag: str, clitic: bool) -> str:
    """Return the name of a word class: a tag (or ``ANY``), clitics apart from free words.

    Clitics ("n't", "'s") are attached to the word before them. They are replaced only by each
    other, so that spacing does not show which word was a clitic.
    """
    return tag + CLITIC if clitic else tag


@dataclass(frozen=True, slots=True)
class Backbone:
    """The model behind the embeddings of the privacy space."""

    name: Annotated[str, Longest(4_096)]
    sha256: Sha256
    hidden_size: Count


@dataclass(frozen=True, slots=True)
class WordClass:
    """A list of words that replace one another.

    ``offset`` and ``words`` slice ``members.npy`` and ``rows.npy``. ``ef`` is the effort of a
    search over a graph that the device builds, 0 where a comparison with every word is always
    faster. ``from_eta`` is the least eta at which the graph is searched. With more noise every word
    is compared.
    ``recall`` is recall@1 by mechanism and level, "pct2t.v1/strong" (1.0 for exact search).
    ``kept_difference`` is the share of words released unchanged, minus the same share under exact
    search (0.0). ``index`` was the path of a graph in the bundle; it stays for devices that ask for
    it.
    """

    offset: Annotated[int, Range(0, 1 << 26)]
    words: Count
    ef: Annotated[int, Range(0, 1_000)]
    recall: dict[Name, Share]
    kept_difference: dict[Name, Share] = field(default_factory=dict)
    index: None = None
    from_eta: Annotated[float, Range(0, 1e9)] = 0.0


@dataclass(frozen=True, slots=True)
class StoredFile:
    """Size in bytes and SHA-256 of one file."""

    bytes: Annotated[int, Range(0, 1 << 40)]
    sha256: Sha256


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of ``manifest.json``; the annotations are its schema.

    ``curve`` holds, by mechanism, calibration points over a grid of eta, from which any other
    setting is interpolated.
    """

    backbone: Backbone
    language: Name
    dimensions: Annotated[int, Range(1, 4_096)]
    words: Count
    tagset: Annotated[tuple[Name, ...], Longest(255)]
    clitics: Annotated[tuple[Annotated[str, Longest(64, 1)], ...], Longest(1_000)]
    classes: Annotated[dict[Name, WordClass], Longest(1_000)]
    calibration: Annotated[dict[Name, dict[Name, Level]], Longest(100)]
    curve: Annotated[dict[Name, Annotated[tuple[Level, ...], Longest(1_000)]], Longest(100)]
    files: Annotated[dict[Relative, StoredFile], Longest(1_000)]
    embed: Mapping[Name, EmbedLevel] = field(default_factory=dict)
    """Levels of `token-embedding.v1`; empty where the bundle has no denoiser."""
    shares: Mapping[Name, Share] = field(default_factory=dict)
    """Shares of running text, by reading or `UNLISTED`.

    They leave out marks and identifiers, and sum to 1.
    """
    optional: Annotated[Mapping[Relative, StoredFile], Longest(1_000)] = field(default_factory=dict)
    """Files that a device fetches only if its owner wants them, and checks when it opens them."""
    format: str = FORMAT

    def to_json(self) -> bytes:
        """Return canonical bytes with their own checksum: equal manifests give equal ids."""
        told = asdict(self)
        return _canonical({**told, _CHECKSUM: _checksum(told)})

    @classmethod
    def from_json(cls, data: bytes) -> Manifest:
        """Read and check a manifest.

        Raises:
            DataLoss: not JSON, altered, or a field is missing or of the wrong type or size; the
                message names it.
            BundleMismatch: another format version.
        """
        if len(data) > _LARGEST:
            raise _damaged(f"has more than {_LARGEST >> 20} MiB")
        try:
            form, raw = parse_object(data)
        except Malformed as error:
            raise _damaged(f"is unreadable: {error}") from None
        if form != FORMAT:
            raise BundleMismatch(
                f"the bundle has format {form[:60]!r}, this agent reads {FORMAT!r}",
                fix=Remedy.MATCH_VERSIONS,
            )
        raw["format"] = form
        kept = raw.pop(_CHECKSUM, None)
        # Older manifests have none; a damaged one leaves a name that is not ours.
        unknown = raw.keys() - {each.name for each in fields(cls)}
        if kept != _checksum(raw) and (kept is not None or unknown):
            raise DataLoss("the bundle's manifest.json is damaged", fix=Remedy.RESTORE_BUNDLE)
        try:
            found = decode(cls, raw, more=True)
            _check_paths(found)
            _check_classes(found)
        except Malformed as error:
            raise _damaged(f"cannot be used: {error}") from None
        embed = dict(sorted(found.embed.items(), key=lambda item: item[1].eta))
        return replace(found, embed=embed)

    def level(self, mechanism: str, name: str) -> Level:
        """Return a calibrated level, or a target level, see `sottovoce.core.bundle.levels`.

        Raises:
            NotFound: unknown mechanism or level; the fix lists the known ones.
            InvalidInput: a target beyond the curve.
        """
        levels = self.calibration.get(mechanism)
        if levels is None:
            known = ", ".join(sorted(self.calibration))
            raise NotFound(
                "unknown mechanism",
                fix=f"this bundle is calibrated for: {known}",
                subject="mechanism",
            )
        if name in levels:
            return levels[name]
        if is_target(name):
            return between(self.curve.get(mechanism, ()), name)
        known = f"{', '.join(levels)}, or a target such as attack:0.3 or replaced:0.7"
        raise NotFound("unknown level", fix=f"use one of: {known}", subject="level")


def _check_paths(manifest: Manifest) -> None:
    """Check that each file has one name inside its folder, which is no other file's folder."""
    for path in REQUIRED:
        if path not in manifest.files:
            raise Malformed(f"files.{path} is missing")
    for path in manifest.optional:
        if not path.startswith(f"{ENCODER}/"):
            raise Malformed(f"optional.{path} lies outside the folder {ENCODER}")
    folders = {
        folder.as_posix().lower()
        for path in (*manifest.files, *manifest.optional)
        for folder in PurePosixPath(path).parents
    }
    seen = {MANIFEST, SIGNATURE}
    for path in (*manifest.files, *manifest.optional):
        if path.lower() in seen or path.lower() in folders:
            raise Malformed(f"the path {path} stands for two files")
        seen.add(path.lower())
        if path in manifest.files and path.startswith(f"{ENCODER}/"):
            raise Malformed(f"files.{path} lies in the folder of optional files")


def _check_classes(manifest: Manifest) -> None:
    if ANY not in manifest.classes:
        raise Malformed(f"classes.{ANY} is missing")
    for mechanism, points in manifest.curve.items():
        if any(point.classes.keys() != points[0].classes.keys() for point in points):
            raise Malformed(f"curve.{mechanism} has points of different classes")


def _damaged(problem: str) -> DataLoss:
    return DataLoss(
        f"the bundle's manifest.json {problem}", fix=Remedy.RESTORE_BUNDLE, subject=MANIFEST
    )


def _canonical(told: Mapping[str, Any]) -> bytes:
    return (json.dumps(told, indent=1, sort_keys=True) + "\n").encode()


def _checksum(told: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical(told)).hexdigest()


def bundle_id(manifest: bytes) -> str:
    """Return the bundle's id: SHA-256 of the manifest's exact bytes, 16 hex digits."""
    return hashlib.sha256(manifest).hexdigest()[:16]


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
