"""What ``manifest.json`` says of a bundle; the hash of its bytes is the bundle's id.

It names every other file with its size and SHA-256, so the id identifies the whole, and carries one
of itself: who serves it knows no id to hold it to, and would sign what a disk made of it. The
cloud's builder writes it with this module and the device reads it with the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from sottovoce.core.bundle.levels import EmbedLevel, Level, between, by_eta, is_target
from sottovoce.core.errors import BundleMismatch, DataLoss, NotFound

__all__ = [
    "ANY",
    "CLITIC",
    "ENCODER",
    "FORMAT",
    "MANIFEST",
    "Backbone",
    "Manifest",
    "StoredFile",
    "WordClass",
    "bundle_id",
    "class_name",
    "sha256",
]


FORMAT = "sottovoce.bundle.v2"
MANIFEST = "manifest.json"
ENCODER = "encoder"
"""The folder of the optional files, in a bundle."""

_CHECKSUM = "checksum"

ANY = "*"
CLITIC = "+clitic"


def class_name(tag: str, clitic: bool) -> str:
    """Name of a word class: a tag (or ``ANY``), clitics apart from free words.

    Clitics ("n't", "'s") hang on the word before them; exchanging them only
    among themselves keeps spacing from telling which word was one.
    """
    return tag + CLITIC if clitic else tag


@dataclass(frozen=True, slots=True)
class Backbone:
    """The model whose embeddings the privacy space was made from."""

    name: str
    sha256: str
    hidden_size: int


@dataclass(frozen=True, slots=True)
class WordClass:
    """A list of words that replace one another.

    ``offset`` and ``words`` slice ``members.npy`` and ``rows.npy``. ``ef`` is the effort of a
    search over a graph that the device builds, 0 where comparing with every word is faster.
    ``recall`` is recall@1 by mechanism and level, "pct2t.v1/strong" (1.0 for exact search), and
    ``kept_difference`` the share of words released as they were, minus that under exact search
    (0.0). ``index`` was the path of a graph in the bundle; it stays for devices that ask for it.
    """

    offset: int
    words: int
    ef: int
    recall: dict[str, float]
    kept_difference: dict[str, float] = field(default_factory=dict)
    index: None = None


@dataclass(frozen=True, slots=True)
class StoredFile:
    """Size in bytes and SHA-256 of one file."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What ``manifest.json`` says. ``curve`` holds, by mechanism, calibration
    points over a grid of eta, from which any other setting is interpolated."""

    backbone: Backbone
    language: str
    dimensions: int
    words: int
    tagset: tuple[str, ...]
    clitics: tuple[str, ...]
    classes: dict[str, WordClass]
    calibration: dict[str, dict[str, Level]]
    curve: dict[str, tuple[Level, ...]]
    files: dict[str, StoredFile]
    embed: Mapping[str, EmbedLevel] = field(default_factory=dict)
    """Levels of `token-embedding.v1`; none where the bundle has no denoiser."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Of running text, by reading or `UNLISTED`, marks and identifiers left out; they sum to 1."""
    optional: Mapping[str, StoredFile] = field(default_factory=dict)
    """Files that a device fetches only if its owner wants them, and checks when it opens them."""
    format: str = FORMAT

    def to_json(self) -> bytes:
        """Canonical bytes, which carry their own checksum: equal manifests give equal ids."""
        told = asdict(self)
        return _canonical({**told, _CHECKSUM: _checksum(told)})

    @classmethod
    def from_json(cls, data: bytes) -> Manifest:
        """Reads and checks a manifest.

        Raises:
            DataLoss: not JSON, altered, or fields missing or of the wrong shape.
            BundleMismatch: another format version.
        """
        try:
            raw = json.loads(data)
            found = raw["format"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataLoss(
                "the bundle's manifest is unreadable", fix="fetch it again with `sotto pull`"
            ) from error
        if found != FORMAT:
            raise BundleMismatch(
                f"the bundle has format {found!r}, this agent reads {FORMAT!r}",
                fix="update sottovoce-edge or pull from a cloud of the same version",
            )
        kept = raw.pop(_CHECKSUM, None)
        # None was written once; what is left where one was damaged is no name of ours.
        unknown = raw.keys() - {each.name for each in fields(cls)}
        if kept != _checksum(raw) and (kept is not None or unknown):
            raise DataLoss(
                "the bundle's manifest.json is damaged",
                fix="fetch it again with `sotto pull`; a provider, build it again or bring it back",
            )
        try:
            return cls._decode(raw)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataLoss(
                "the bundle's manifest is incomplete", fix="fetch it again with `sotto pull`"
            ) from error

    @classmethod
    def _decode(cls, raw: Mapping[str, Any]) -> Manifest:
        optional = raw.get("optional", {})
        for path in (*raw["files"], *optional):
            if path.startswith(("/", ".")) or ".." in Path(path).parts:
                raise ValueError(path)  # a manifest must not reach outside its folder
        if any(Path(path).parts[:1] != (ENCODER,) for path in optional):
            raise ValueError(ENCODER)  # what is fetched beside the rest is one folder
        return cls(
            backbone=Backbone(**raw["backbone"]),
            language=raw["language"],
            dimensions=raw["dimensions"],
            words=raw["words"],
            tagset=tuple(raw["tagset"]),
            clitics=tuple(raw["clitics"]),
            classes={name: WordClass(**c) for name, c in raw["classes"].items()},
            calibration={
                mechanism: {name: Level.decode(level) for name, level in levels.items()}
                for mechanism, levels in raw["calibration"].items()
            },
            curve={
                mechanism: tuple(Level.decode(point) for point in points)
                for mechanism, points in raw["curve"].items()
            },
            files={path: StoredFile(**stored) for path, stored in raw["files"].items()},
            embed=by_eta(raw.get("embed", {})),
            shares={name: float(share) for name, share in raw.get("shares", {}).items()},
            optional={path: StoredFile(**stored) for path, stored in optional.items()},
        )

    def level(self, mechanism: str, name: str) -> Level:
        """A calibrated level, or one between them, see `sottovoce.core.bundle.levels`.

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


def _canonical(told: Mapping[str, Any]) -> bytes:
    return (json.dumps(told, indent=1, sort_keys=True) + "\n").encode()


def _checksum(told: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical(told)).hexdigest()


def bundle_id(manifest: bytes) -> str:
    """The bundle's id: SHA-256 of the manifest's exact bytes, 16 hex digits."""
    return hashlib.sha256(manifest).hexdigest()[:16]


def sha256(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
