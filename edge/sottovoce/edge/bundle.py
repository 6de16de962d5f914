"""The bundle: a folder of public data that the builder writes and devices read.

``manifest.json`` names every other file with its size and SHA-256, so the
manifest's own hash identifies the whole; that hash is the bundle's id. Large
arrays are memory-mapped and shared between processes. The cloud's builder uses
this same module to write, so the two sides cannot disagree about the format.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.edge.errors import BundleMismatch, DataLoss, NotFound, NotReady
from sottovoce.edge.row_file import RowFile
from sottovoce.edge.word_list import WordIds, WordList

if TYPE_CHECKING:
    from sottovoce.edge.pieces import Pieces

__all__ = [
    "ANY",
    "CLITIC",
    "FORMAT",
    "MANIFEST",
    "Backbone",
    "Bundle",
    "EmbedLevel",
    "Level",
    "Manifest",
    "StoredFile",
    "WordClass",
    "bundle_id",
    "class_name",
    "sha256",
]

FORMAT = "sottovoce.bundle.v1"
MANIFEST = "manifest.json"
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

    ``offset`` and ``words`` slice ``members.npy`` and ``rows.npy``; ``index`` is
    a file path, or None where exact search is used; ``recall`` is recall@1 by mechanism and
    level, "pct2t.v1/strong" (1.0 for exact search), and ``kept_difference`` the
    share of words released as they were, minus that under exact search (0.0).
    """

    offset: int
    words: int
    index: str | None
    ef: int
    recall: dict[str, float]
    kept_difference: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Level:
    """One calibrated protection level of a mechanism.

    Shares are of protected in-vocabulary words on running text: ``replaced``
    overall, ``replaced_rare`` outside the 5,000 commonest, ``replaced_names`` of
    proper nouns. ``map_attack`` is the success of the maximum-a-posteriori
    attacker who sees the noisy vector (an upper bound for one who sees the
    released word, ``map_attack_word``). What was not measured has the worst value.
    """

    eta: float
    replaced: float
    replaced_rare: float
    map_attack: float
    map_attack_rare: float
    map_attack_word: float
    map_attack_word_rare: float = 1.0
    replaced_names: float = 0.0
    map_attack_names: float = 1.0
    map_attack_word_names: float = 1.0


@dataclass(frozen=True, slots=True)
class EmbedLevel:
    """One calibrated level of `token-embedding.v1`.

    ``map_attack`` is the share of the tokens of running text that the maximum-a-posteriori attacker
    on a noisy vector recovers.
    """

    eta: float
    map_attack: float


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
    policies: dict[str, tuple[str, ...]]
    clitics: tuple[str, ...]
    classes: dict[str, WordClass]
    calibration: dict[str, dict[str, Level]]
    curve: dict[str, tuple[Level, ...]]
    files: dict[str, StoredFile]
    embed: Mapping[str, EmbedLevel] = field(default_factory=dict)
    """Levels of `token-embedding.v1`; none where the bundle has no denoiser."""
    format: str = FORMAT

    def to_json(self) -> bytes:
        """Canonical bytes: equal manifests give equal ids."""
        return (json.dumps(asdict(self), indent=1, sort_keys=True) + "\n").encode()

    @classmethod
    def from_json(cls, data: bytes) -> Manifest:
        """Reads and checks a manifest.

        Raises:
            DataLoss: not JSON, or fields missing or of the wrong shape.
            BundleMismatch: another format version.
        """
        try:
            raw = json.loads(data)
            found = raw["format"]
        except (ValueError, KeyError, TypeError) as error:
            raise DataLoss(
                "the bundle's manifest is unreadable", fix="fetch it again with `sotto pull`"
            ) from error
        if found != FORMAT:
            raise BundleMismatch(
                f"the bundle has format {found!r}, this agent reads {FORMAT!r}",
                fix="update sottovoce-edge or pull from a cloud of the same version",
            )
        try:
            return cls._decode(raw)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataLoss(
                "the bundle's manifest is incomplete", fix="fetch it again with `sotto pull`"
            ) from error

    @classmethod
    def _decode(cls, raw: Mapping[str, Any]) -> Manifest:
        for path in raw["files"]:
            if path.startswith(("/", ".")) or ".." in Path(path).parts:
                raise ValueError(path)  # a manifest must not reach outside its folder
        return cls(
            backbone=Backbone(**raw["backbone"]),
            language=raw["language"],
            dimensions=raw["dimensions"],
            words=raw["words"],
            tagset=tuple(raw["tagset"]),
            policies={name: tuple(tags) for name, tags in raw["policies"].items()},
            clitics=tuple(raw["clitics"]),
            classes={name: WordClass(**c) for name, c in raw["classes"].items()},
            calibration={
                mechanism: {name: Level(**level) for name, level in levels.items()}
                for mechanism, levels in raw["calibration"].items()
            },
            curve={
                mechanism: tuple(Level(**point) for point in points)
                for mechanism, points in raw["curve"].items()
            },
            files={path: StoredFile(**stored) for path, stored in raw["files"].items()},
            embed=_by_eta(raw.get("embed", {})),
        )

    def level(self, mechanism: str, name: str) -> Level:
        """A calibrated level, or one between them, see `sottovoce.edge.targets`.

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
        from sottovoce.edge import targets  # it is made of levels

        if targets.is_target(name):
            return targets.between(self.curve.get(mechanism, ()), name)
        known = f"{', '.join(levels)}, or a target such as attack:0.3 or replaced:0.7"
        raise NotFound("unknown level", fix=f"use one of: {known}", subject="level")


def _by_eta(levels: Mapping[str, Any]) -> dict[str, EmbedLevel]:
    found = {name: EmbedLevel(**level) for name, level in levels.items()}
    return dict(sorted(found.items(), key=lambda item: item[1].eta))


def bundle_id(manifest: bytes) -> str:
    """The bundle's id: SHA-256 of the manifest's exact bytes, 16 hex digits."""
    return hashlib.sha256(manifest).hexdigest()[:16]


def sha256(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Bundle:
    """An opened bundle. Arrays are read-only maps:

    ``tokens`` Floats2d (tokens, r), the projected token embeddings; ``members``
    Ints1d, word ids class after class; ``rows`` Floats2d (members, r), the unit
    row of each of them, so that a class is searched where it lies in the file
    and no process holds a copy. The first two classes are all free words and
    all clitics, and clitics come last among the words; hence ``space``,
    Floats2d (words, r), the row of each word, is where ``rows`` begins.
    """

    def __init__(self, folder: Path, manifest: Manifest, identity: str) -> None:
        self.folder = folder
        self.manifest = manifest
        self.id = identity
        r = manifest.dimensions
        self.rows: NDArray[np.float32] = self._map("rows.npy", (None, r))
        self.members: NDArray[np.int32] = self._map("members.npy", (len(self.rows),))
        self.tokens: NDArray[np.float32] = self._map("tokens.npy", (None, r))
        self.space: NDArray[np.float32] = self.rows[: manifest.words]
        if not np.array_equal(self.members[: manifest.words], np.arange(manifest.words)):
            raise DataLoss(
                "the bundle's classes do not begin with all words in order",
                fix="build it again, or pull it from a cloud of the same version",
            )

    @classmethod
    def open(cls, folder: Path, *, verify: bool = False, backbone: str | None = None) -> Bundle:
        """Opens the bundle in ``folder``.

        Sizes are always checked, hashes with ``verify``. ``backbone`` is the
        name the owner's configuration insists on, if any.

        Raises:
            NotReady: no bundle there.
            DataLoss: a file is missing, truncated or altered.
            BundleMismatch: another format or backbone.
        """
        try:
            data = (folder / MANIFEST).read_bytes()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotReady(
                f"no bundle at {folder}", fix="run `sotto pull HOST:PORT`", subject="bundle"
            ) from error
        manifest = Manifest.from_json(data)
        if backbone and manifest.backbone.name != backbone:
            raise BundleMismatch(
                f"the bundle is for backbone {manifest.backbone.name!r}, not {backbone!r}",
                fix="pull the right bundle, or change bundle.backbone in the configuration",
                subject="bundle",
            )
        for path, stored in manifest.files.items():
            file = folder / path
            if not file.is_file() or file.stat().st_size != stored.bytes:
                raise DataLoss(
                    f"bundle file {path} is missing or truncated",
                    fix="fetch it again with `sotto pull`",
                    subject=path,
                )
            if verify and sha256(file) != stored.sha256:
                raise DataLoss(
                    f"bundle file {path} was altered",
                    fix="fetch it again with `sotto pull`",
                    subject=path,
                )
        return cls(folder, manifest, bundle_id(data))

    def _map(self, path: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
        try:
            array: NDArray[Any] = np.load(self.folder / path, mmap_mode="r", allow_pickle=False)
        except (ValueError, OSError) as error:
            raise DataLoss(
                f"bundle file {path} is not an array", fix="fetch it again with `sotto pull`"
            ) from error
        if array.ndim != len(shape) or any(
            want is not None and want != have for want, have in zip(shape, array.shape, strict=True)
        ):
            raise DataLoss(
                f"bundle file {path} has the wrong shape", fix="fetch it again with `sotto pull`"
            )
        return array

    def warm(self) -> None:
        """Maps every page of the rows, so that the first texts need no more time than others."""
        self.rows[:: max(1, mmap.PAGESIZE // self.rows.strides[0]), 0].sum()

    @cached_property
    def token_rows(self) -> RowFile:
        """``tokens``, for those who need a few rows of it."""
        return RowFile(self.folder / "tokens.npy")

    @cached_property
    def words(self) -> WordList:
        """The word list; a word's id is its place."""
        try:
            words = WordList(self.folder / "words.txt")
        except (OSError, ValueError) as error:
            raise DataLoss(
                "words.txt is unreadable", fix="fetch it again with `sotto pull`"
            ) from error
        if len(words) != self.manifest.words:
            raise DataLoss("words.txt has the wrong length", fix="fetch it again with `sotto pull`")
        return words

    @cached_property
    def word_ids(self) -> WordIds:
        """Word to id."""
        try:
            return WordIds(self.words)
        except UnicodeDecodeError as error:
            raise DataLoss(
                "words.txt is not UTF-8", fix="fetch it again with `sotto pull`"
            ) from error

    def class_members(self, name: str) -> NDArray[np.int32]:
        """Ids of the words in a class, ascending."""
        word_class = self.manifest.classes[name]
        return self.members[word_class.offset : word_class.offset + word_class.words]

    def class_rows(self, name: str) -> NDArray[np.float32]:
        """Rows of the words in a class, in the order of `class_members`: Floats2d (n, r)."""
        word_class = self.manifest.classes[name]
        return self.rows[word_class.offset : word_class.offset + word_class.words]

    @property
    def tokenizer_file(self) -> Path:
        """The backbone's tokenizer, as the `tokenizers` library reads it."""
        return self.folder / "tokenizer.json"

    @cached_property
    def tokenizer(self) -> Pieces:
        """That tokenizer, opened once.

        Raises:
            DataLoss: it cannot be read.
        """
        from sottovoce.edge.pieces import open_pieces  # most commands never cut a word

        return open_pieces(self.tokenizer_file)

    @property
    def tagger_folder(self) -> Path:
        """Folder with ``tagger.onnx`` and ``tagger.json``."""
        return self.folder / "tagger"

    @property
    def denoiser_folder(self) -> Path:
        """Folder with the denoiser, see `sottovoce.edge.denoiser`; some bundles have none."""
        return self.folder / "denoisers"
