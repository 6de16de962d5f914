"""The bundle: a folder of public data that the builder writes and devices read.

``manifest.json`` names every other file with its size and SHA-256. So the manifest's own hash
identifies the whole bundle, and that hash is the bundle's id. All required files decide privacy, so
opening a bundle reads every byte once and compares the hashes. Optional files have no effect on the
text that leaves the device; their readers check them. Large arrays are memory-mapped and shared
between processes. The cloud's builder writes with this same module, so the two sides cannot
disagree about the format.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.manifest import (
    ENCODER,
    FULL_FINDER,
    MANIFEST,
    Manifest,
    WordClass,
    bundle_id,
    sha256,
)
from sottovoce.core.bundle.signature import SIGNATURE
from sottovoce.core.bundle.word_list import RowFile, WordIds, WordList
from sottovoce.core.errors import BundleMismatch, DataLoss, NotReady, Remedy
from sottovoce.core.platform.memory import map_array
from sottovoce.core.text import onnx_models
from sottovoce.core.text.word_classes import READINGS

if TYPE_CHECKING:
    from sottovoce.core.bundle.tokenizer import Tokenizer

CARDS = "cards"
"""The folder of the model cards, which name licences and sources; no code reads them."""


_Stamp = tuple[int, int, int]
"""Size, time of the last change in ns, and inode of a file."""


class Bundle:
    """An opened bundle. Its arrays are read-only maps.

    ``tokens`` Floats2d (tokens, r) are the projected token embeddings. ``members`` Ints1d are word
    ids, class after class. ``rows`` Floats2d (members, r) are the unit rows of the members. So a
    class is searched where it lies in the file, and no process holds a copy. ``readings`` Ints1d
    (words,) are each word's place in `READINGS`.

    ``space`` Floats2d (words, r) are the rows of the words, and it is the beginning of ``rows``.
    This holds because the first two classes are all free words and all clitics, and clitics come
    last among the words.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        identity: str,
        stamps: Mapping[str, _Stamp] = MappingProxyType({}),
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self.id = identity
        self._stamps = stamps
        r = manifest.dimensions
        # Plain arrays where words are looked up: a slice of a memmap costs ten times as much.
        self.rows: NDArray[np.float32] = np.asarray(self._map("rows.npy", (None, r)))
        self.members: NDArray[np.int32] = np.asarray(self._map("members.npy", (len(self.rows),)))
        self.tokens: NDArray[np.float32] = self._map("tokens.npy", (None, r))
        self.space: NDArray[np.float32] = self.rows[: manifest.words]
        self.readings: NDArray[np.uint8] = np.asarray(self._map("readings.npy", (manifest.words,)))
        if self.readings.dtype != np.uint8 or (self.readings >= len(READINGS)).any():
            raise DataLoss(
                "bundle file readings.npy holds readings that this version does not know",
                fix=Remedy.RESTORE_BUNDLE,
                subject="readings.npy",
            )
        if not np.array_equal(self.members[: manifest.words], np.arange(manifest.words)):
            raise DataLoss(
                "the bundle's classes do not begin with all words in order",
                fix=Remedy.MATCH_VERSIONS,
            )

    @classmethod
    def open(
        cls, folder: Path, *, expected: str | None = None, backbone: str | None = None
    ) -> Bundle:
        """Open the bundle in ``folder`` and check every byte.

        Args:
            expected: the id that the bundle must have, where one was noted; without it, any
                manifest is accepted if the files match it.
            backbone: the name that the owner's configuration requires, if any.

        Raises:
            NotReady: no bundle there.
            DataLoss: a file is missing, truncated or altered, the manifest included.
            BundleMismatch: another format or backbone.
        """
        try:
            # Noted before a file is read, so that a change meanwhile shows.
            stamps = {str(folder / MANIFEST): _stamp(folder / MANIFEST)}
            data = (folder / MANIFEST).read_bytes()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotReady(
                f"no bundle at {folder}", fix=Remedy.GET_BUNDLE, subject="bundle"
            ) from error
        identity = bundle_id(data)
        if expected not in (None, identity):
            raise _damaged(MANIFEST, "was altered")
        manifest = Manifest.from_json(data)
        if backbone and manifest.backbone.name != backbone:
            raise BundleMismatch(
                f"the bundle is for backbone {manifest.backbone.name!r}, not {backbone!r}",
                fix="pull the right bundle, or change bundle.backbone in the configuration",
                subject="bundle",
            )
        inside = folder.resolve()
        for path, stored in manifest.files.items():
            file = folder / path
            if not file.resolve().is_relative_to(inside):
                raise _damaged(path, "is a link out of the bundle's folder")
            if not file.is_file() or file.stat().st_size != stored.bytes:
                raise _damaged(path, "is missing or truncated")
            stamps[str(file)] = _stamp(file)
            if sha256(file) != stored.sha256:
                raise _damaged(path, "was altered")
        for path in _unlisted(folder, manifest):
            raise _damaged(path, "is not one that the manifest lists: remove it")
        return cls(folder, manifest, identity, stamps)

    def changed(self) -> bool:
        """Return whether any file changed since its check, by size, time and inode."""
        try:
            return any(_stamp(file) != noted for file, noted in self._stamps.items())
        except OSError:
            return True

    def _map(self, path: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
        try:
            array: NDArray[Any] = map_array(self.folder / path)
        except (ValueError, OSError) as error:
            raise DataLoss(
                f"bundle file {path} is not an array", fix=Remedy.RESTORE_BUNDLE
            ) from error
        if array.ndim != len(shape) or any(
            want is not None and want != have for want, have in zip(shape, array.shape, strict=True)
        ):
            raise DataLoss(f"bundle file {path} has the wrong shape", fix=Remedy.RESTORE_BUNDLE)
        return array

    def warm(self) -> None:
        """Map every page of the space, so that the first texts are not slower than others.

        The rows of classes are read once, when their search is opened.
        """
        self.space[:: max(1, mmap.PAGESIZE // self.space.strides[0]), 0].sum()

    @property
    def space_id(self) -> str:
        """The hash of the file of word vectors, which identifies them among all bundles."""
        return self.manifest.files["rows.npy"].sha256

    @property
    def token_space_id(self) -> str:
        """The hash of the file of token vectors."""
        return self.manifest.files["tokens.npy"].sha256

    @cached_property
    def token_rows(self) -> RowFile:
        """``tokens``, for callers that need only a few rows."""
        return RowFile(self.folder / "tokens.npy")

    @cached_property
    def words(self) -> WordList:
        """The word list; a word's id is its place."""
        try:
            words = WordList(self.folder / "words.txt")
        except (OSError, ValueError) as error:
            raise DataLoss("words.txt is unreadable", fix=Remedy.RESTORE_BUNDLE) from error
        if len(words) != self.manifest.words:
            raise DataLoss("words.txt has the wrong length", fix=Remedy.RESTORE_BUNDLE)
        return words

    @cached_property
    def word_ids(self) -> WordIds:
        """The map from word to id."""
        try:
            return WordIds(self.words)
        except UnicodeDecodeError as error:
            raise DataLoss("words.txt is not UTF-8", fix=Remedy.RESTORE_BUNDLE) from error

    def class_members(self, name: str) -> NDArray[np.int32]:
        """Return the ids of the words in a class, ascending."""
        word_class = self.manifest.classes[name]
        return self.members[word_class.offset : word_class.offset + word_class.words]

    def class_rows(self, name: str) -> NDArray[np.float32]:
        """Return the rows of a class's words, in the order of `class_members`: Floats2d (n, r)."""
        word_class = self.manifest.classes[name]
        return self.rows[word_class.offset : word_class.offset + word_class.words]

    @property
    def tokenizer_file(self) -> Path:
        """The backbone's tokenizer file, in the format of the `tokenizers` library."""
        return self.folder / "tokenizer.json"

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The backbone's tokenizer, opened once.

        Raises:
            DataLoss: it cannot be read.
        """
        from sottovoce.core.bundle.tokenizer import open_tokenizer  # most commands never cut a word

        return open_tokenizer(self.tokenizer_file)

    @property
    def tagger_folder(self) -> Path:
        """The folder with ``tagger.onnx`` and ``tagger.json``."""
        return self.folder / "tagger"

    @property
    def names_folder(self) -> Path:
        """The folder with the name finder, see `core.text.names`; some languages have none."""
        return self.folder / "names"

    @property
    def denoiser_folder(self) -> Path:
        """The folder with the denoiser, see `core.privacy.denoiser`; some bundles have none."""
        return self.folder / "denoisers"

    @property
    def encoder_folder(self) -> Path:
        """The folder with the device's encoder, see `core.bundle.encoder`, where it was fetched."""
        return self.folder / ENCODER

    @property
    def has_full_finder(self) -> bool:
        """Whether the finder `full` came with the encoder, see `core.bundle.full_finder`."""
        return (self.encoder_folder / FULL_FINDER).is_file()


def _unlisted(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Return the files that a reader would open although the manifest does not list them.

    Names that begin with a dot are never read, and the reader of the encoder's files checks them.
    """
    own = {MANIFEST, SIGNATURE, *manifest.files}
    for file in folder.rglob("*"):
        path = file.relative_to(folder)
        read = path.parts[0] != ENCODER and not any(part.startswith(".") for part in path.parts)
        if read and path.as_posix() not in own and not file.is_dir():
            yield path.as_posix()


def _stamp(file: str | Path) -> _Stamp:
    found = os.stat(file)
    return found.st_size, found.st_mtime_ns, found.st_ino


def _damaged(path: str, what: str) -> DataLoss:
    return DataLoss(f"bundle file {path} {what}", fix=Remedy.RESTORE_BUNDLE, subject=path)


_AT_ONCE: Final = 4_096
"""Rows checked together: a few hundred kB, whatever the bundle."""

_OFF_UNIT: Final = 1e-3
"""The tolerance of a row's squared length around 1; the builder's float32 is off by 1e-6."""


def check_bound(bundle: Bundle) -> None:
    """Check that rows, tokens and classes are valid for the mechanisms.

    Every row has length 1, and no number is infinite or NaN. Each class is a list of different
    words, and its rows are the rows of the same words. Each network uses only the operators that a
    device runs.

    Raises:
        BundleMismatch: one of these fails; the bundle must not be used.
    """
    for name, array in (("rows.npy", bundle.rows), ("tokens.npy", bundle.tokens)):
        if array.dtype != np.float32:
            raise unsound(f"{name} holds {array.dtype}, not float32")
    for start in range(0, len(bundle.rows), _AT_ONCE):
        rows = np.asarray(bundle.rows[start : start + _AT_ONCE], np.float64)
        lengths = np.einsum("ij,ij->i", rows, rows)
        # Written so that NaN, which is never close to anything, is refused too.
        if not (np.abs(lengths - 1) <= _OFF_UNIT).all():
            raise unsound("a word of the privacy space does not lie on the unit sphere")
    _check_tokens(bundle)
    for name, word_class in bundle.manifest.classes.items():
        _check_class(bundle, name, word_class)
    for path in bundle.manifest.files:
        if path.endswith(".onnx"):
            check_network(bundle.folder / path)


def check_network(file: Path) -> None:
    """Check that a device can run the network in ``file``, see `onnx_models`.

    Raises:
        BundleMismatch: it is not.
    """
    try:
        onnx_models.check_file(file)
    except (OSError, ValueError) as error:
        raise unsound(f"of the network {file.name}, {error}") from None


def unsound(problem: str) -> BundleMismatch:
    """Return the error of a bundle that is intact, but that a device must not use."""
    return BundleMismatch(
        f"the bundle cannot be trusted: {problem}", fix=Remedy.REPLACE_BUNDLE, subject="bundle"
    )


def _check_tokens(bundle: Bundle) -> None:
    # Read, not mapped, because mapped pages would stay in the daemon's memory.
    columns = bundle.tokens.shape[1]
    with (bundle.folder / "tokens.npy").open("rb") as file:
        file.seek(bundle.tokens.offset)  # type: ignore[attr-defined]
        while len(numbers := np.fromfile(file, np.float32, _AT_ONCE * columns)):
            if not np.isfinite(numbers).all():
                raise unsound("a token of the privacy space has no place in it")


def _check_class(bundle: Bundle, name: str, found: WordClass) -> None:
    if not (found.offset >= 0 and 1 <= found.words <= len(bundle.rows) - found.offset):
        raise unsound(f"the class {name} lies outside the list of members")
    members: NDArray[np.int32] = bundle.class_members(name)
    if members.min() < 0 or members.max() >= bundle.manifest.words or (np.diff(members) <= 0).any():
        raise unsound(f"the class {name} is no ascending list of words")
    rows = bundle.class_rows(name)
    for start in range(0, len(members), _AT_ONCE):
        chunk = slice(start, start + _AT_ONCE)
        if not np.array_equal(rows[chunk], bundle.space[members[chunk]]):
            raise unsound(f"the class {name} has words in other places than the list of all words")
