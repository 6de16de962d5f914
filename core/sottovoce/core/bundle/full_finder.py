"""Finds names with the language model on the device: the finder `full` of the policy `personal`.

`sottovoce.core.text.context_finder` is the small finder, which ships with the device. `full` is
the bundle's encoder with an adapter, a vector for the case of each word, and a head. Its graph is
too large for the device's package, so it comes with a bundle. The package holds the SHA-256 of
every file that the finder reads, and the finder refuses all others. So a provider can withhold this
finder, and cannot alter it.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.encoder import TABLE, token_rows
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import FULL_FINDER, sha256
from sottovoce.core.bundle.tokenizer import VOCABULARY, Tokenizer, bert_tokenizer
from sottovoce.core.bundle.word_list import RowFile
from sottovoce.core.errors import DataLoss, NotReady, Remedy
from sottovoce.core.platform.schema import Range, Sha256, decode, parse_object
from sottovoce.core.text.context_finder import BREAK, NAMED
from sottovoce.core.text.names import KINDS
from sottovoce.core.text.onnx_models import Session, session
from sottovoce.core.text.tagger import shape

_FORMAT: Final = "full_finder.v1"
PINS: Final = "full_finder.json"
"""The file in this package with the hashes of what the finder reads."""
CASES: Final = ("", "x", "X", "Xx", "XX", "Xx+", "x+", "0")
"""Cases of a word: none, small, one capital, capitalised, capitals, mixed with either start,
digits."""
LONGEST: Final = 160
"""The most word pieces in one run, special ones included, as in training."""
REACH: Final = 64
"""Words on either side that a caller should show with the words that it asks about."""
_BESIDE: Final = 32
"""The most pieces before and after a window's own, whose results are not used."""
_OF_A_WORD: Final = 16
"""The most pieces of one word that are read."""
_KEPT: Final = 256
"""Runs whose results are kept: less than 1 MB."""


@dataclass(frozen=True, slots=True)
class Pins:
    """SHA-256 of each file that the finder reads, and ids of the special tokens."""

    network: Sha256
    table: Sha256
    vocabulary: Sha256
    before: Annotated[int, Range(0, 1 << 20)]
    after: Annotated[int, Range(0, 1 << 20)]

    @classmethod
    @cache
    def shipped(cls) -> Self:
        """Return the pins of this package."""
        data = (resources.files(__package__) / PINS).read_bytes()
        return decode(cls, parse_object(data)[1])

    @classmethod
    def of(cls, folder: Path, vocabulary: Path, before: int, after: int) -> Self:
        """Return the pins for files that a builder wrote.

        Args:
            folder: holds the graph and the token table.
            vocabulary: the tokens.
            before, after: ids of the tokens around a text.
        """
        return cls(
            sha256(folder / FULL_FINDER),
            sha256(folder / TABLE),
            sha256(vocabulary),
            before,
            after,
        )

    def to_json(self) -> str:
        """Return the content of `PINS`."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, indent=2) + "\n"


class FullFinder:
    """The finder `full`. Safe to share between threads. No word of a text is kept.

    Each turn of a conversation sends all turns before it again. So results of the last runs of
    conversations are kept under keyed hashes of name and input. Another app cannot tell from the
    time that a text takes whether it was read before, unless it knows the conversation's name.

    Args:
        tokenizer: of the encoder.
        table: its token embeddings.
        network: gives the probabilities of word pieces.
        around: ids of the tokens before and after a text.
    """

    reach = REACH

    def __init__(
        self, tokenizer: Tokenizer, table: RowFile, network: Session, around: tuple[int, int]
    ) -> None:
        self._tokenizer = tokenizer
        self._table = table
        self._network = network
        self._before, self._after = around
        self._secret = secrets.token_bytes(32)
        self._kept: OrderedDict[bytes, NDArray[np.float32]] = OrderedDict()
        self._lock = threading.Lock()

    @classmethod
    def load(cls, bundle: Bundle) -> Self:
        """Open the finder that came with ``bundle``.

        Raises:
            NotReady: the bundle has none, or the device did not fetch it.
            DataLoss: a file is missing, or is not the one that this package accepts.
        """
        if not any(Path(path).name == FULL_FINDER for path in bundle.manifest.optional):
            raise NotReady(
                "this bundle has no finder 'full'",
                fix=Remedy.BUILD_FULL_FINDER,
                subject="privacy.finder",
            )
        if not bundle.has_full_finder:
            raise NotReady(
                "the bundle's finder 'full' is not on this device",
                fix=Remedy.GET_FULL_FINDER,
                subject="privacy.finder",
            )
        return cls.open(bundle.encoder_folder, bundle.folder / VOCABULARY)

    @classmethod
    def open(cls, folder: Path, vocabulary: Path) -> Self:
        """Open the graph and the token table in ``folder``.

        Each file is opened once. So the hashed file is the used one, even if another takes its
        name.

        Raises:
            DataLoss: a file is missing, or is not the one that this package accepts.
        """
        pins, name = Pins.shipped(), VOCABULARY
        try:
            with vocabulary.open("rb") as file:
                _vouch(hashlib.file_digest(file, "sha256").hexdigest(), pins.vocabulary)
                tokenizer = bert_tokenizer(Path(f"/proc/self/fd/{file.fileno()}"))
            name = TABLE
            table = RowFile(folder / TABLE)
            _vouch(table.sha256(), pins.table)
            name = FULL_FINDER
            with (folder / FULL_FINDER).open("rb") as file:
                _vouch(hashlib.file_digest(file, "sha256").hexdigest(), pins.network)
                network = session(f"/proc/self/fd/{file.fileno()}", name=FULL_FINDER)
        except (OSError, ValueError, KeyError) as error:
            raise DataLoss(
                f"the finder 'full' cannot be used: {name} is not the file that this version knows",
                fix=Remedy.RESTORE_FULL_FINDER,
                subject="privacy.finder",
            ) from error
        return cls(tokenizer, table, network, (pins.before, pins.after))

    def find(self, words: Sequence[str], session: str = "") -> NDArray[np.float32]:
        """Return for each word the probability that it belongs to a name of each kind.

        The word's piece that is the likeliest a person, place or organisation decides.
        Texts of more than `LONGEST` pieces are read in windows that overlap. Words without a letter
        get zeros.

        Args:
            words: texts of consecutive words, with `BREAK` where a line ends.
            session: the conversation; without one, nothing is kept.

        Returns:
            Floats2d (n_words, `NAMED`), 0 to 1. A row's sum is at most 1; the rest is no name.
        """
        found = np.zeros((len(words), len(NAMED)), np.float32)
        pieces = [self._pieces(word) for word in words]
        cases = [CASES.index(case_of(word)) for word in words]
        for window in windows([*map(len, pieces)], LONGEST - 2):
            ids, case, starts = [self._before], [0], [1]
            for place in range(window.first, window.last):
                ids += pieces[place]
                case += [cases[place]] * len(pieces[place])
                starts.append(len(ids))
            likely = self._recalled([*ids, self._after], [*case, 0], session)
            hidden = likely[:, 1:4].sum(axis=1)
            for place in range(window.start, window.end):
                start, end = starts[place - window.first : place - window.first + 2]
                found[place] = likely[start + hidden[start:end].argmax(), 1:]
        # Written so that a result that is no number counts as a name.
        np.nan_to_num(found, copy=False, nan=1.0)
        found[[not any(map(str.isalpha, word)) for word in words]] = 0
        return found

    def _pieces(self, word: str) -> list[int]:
        """Return ids of at least one and at most `_OF_A_WORD` pieces."""
        ids = [self._after] if word == BREAK else self._tokenizer.ids(word)[:_OF_A_WORD]
        return ids or [self._after]

    def _recalled(
        self, ids: Sequence[int], cases: Sequence[int], session: str
    ) -> NDArray[np.float32]:
        """Return the result of `_likely`, from an earlier run if one was kept."""
        if not session:
            return self._likely(ids, cases)
        told = json.dumps([session, ids, cases]).encode()
        name = hashlib.blake2b(told, key=self._secret, digest_size=32).digest()
        with self._lock:
            kept = self._kept.pop(name, None)
        likely = self._likely(ids, cases) if kept is None else kept
        with self._lock:
            self._kept[name] = likely
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return likely

    def _likely(self, ids: Sequence[int], cases: Sequence[int]) -> NDArray[np.float32]:
        """Return the probabilities of all kinds, and of none, for each piece."""
        feed = {
            "embeddings": token_rows(self._table, ids),
            "cases": np.array(cases, np.int64),
        }
        likely: NDArray[np.float32] = self._network.run(["likely"], feed)[0]
        if likely.shape != (len(ids), len(KINDS)):
            raise DataLoss(
                "the finder 'full' gives results of another size",
                fix=Remedy.RESTORE_FULL_FINDER,
                subject="privacy.finder",
            )
        return likely


class Window(NamedTuple):
    """Words ``start`` to ``end`` are decided from the words ``first`` to ``last``."""

    start: int
    end: int
    first: int
    last: int


def windows(lengths: Sequence[int], most: int) -> Iterator[Window]:
    """Yield windows that together decide each word once.

    Args:
        lengths: pieces of each word, at most `_OF_A_WORD`.
        most: pieces of a window, with the words around.
    """
    room = most if sum(lengths) <= most else most - 2 * _BESIDE
    start = 0
    while start < len(lengths):
        end = _reached(lengths, range(start, len(lengths)), room)
        first = _reached(lengths, range(start - 1, -1, -1), _BESIDE) + 1
        last = _reached(lengths, range(end, len(lengths)), _BESIDE)
        yield Window(start, end, first, last)
        start = end


def _reached(lengths: Sequence[int], places: range, room: int) -> int:
    """Return the first of the places that no longer fits."""
    for place in places:
        room -= lengths[place]
        if room < 0:
            return place
    return places.stop


def case_of(word: str) -> str:
    """Return which of `CASES` a word has."""
    if not any(map(str.isalpha, word)):
        return "0" if any(map(str.isdigit, word)) else ""
    pattern = shape(word)
    if set(pattern) == {"x"} or pattern == "X":
        return pattern[:1]
    if set(pattern) == {"X"}:
        return "XX"
    if pattern[0] == "X":
        return "Xx" if set(pattern[1:]) == {"x"} else "Xx+"
    return "x+"


def _vouch(found: str, known: str) -> None:
    if found != known:
        raise ValueError("another SHA-256")
