"""Chance that one device can draw again: uniform numbers from its secret key, by what they are for.

Why it is here: fresh noise on what is said twice averages out, and a memory of releases grows
without end yet misses the near copy. So the noise of a word is a pseudorandom function of a secret
key, the strength, the word and the word before it: equal text gives equal bytes, and texts share
what they share. To who has not the key it is noise like any other.

The function is SHAKE-128 (FIPS 202) with a derived key in front: a sponge needs no HMAC. What is
frozen here is frozen for good, as a release must never change unnoticed: whoever alters a stream
gives its purpose another version.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice, pairwise
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.privacy.noise import Random

__all__ = ["Draws", "Fresh", "Key", "Keyed", "KeyedRows", "KeyedStream"]

_BYTES: Final = 32
_BLOCK: Final = 32
"""Uniform numbers of one call of the hash: what the noise of a word takes at 16 dimensions."""

_NOISE: Final = "word noise v1"
_TOKENS: Final = "token noise v1"
_SURROGATE: Final = "surrogate v1"


class Draws(Protocol):
    """Where one release takes its chance from."""

    def noise(self, etas: Sequence[float], words: Sequence[str], before: Sequence[str]) -> Random:
        """A stream of ``len(words)`` rows, one for the noise of each word.

        Args:
            etas: strength, by word.
            words: normal forms.
            before: for each what stands before it, see `sottovoce.core.text.context`.
        """

    def surrogate(self, *what: str) -> Random:
        """A stream for one surrogate, named by its kind and what it stands for."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """Never the same twice: for measurements, and with a seeded stream for tests."""

    random: Random

    def noise(self, etas: Sequence[float], words: Sequence[str], before: Sequence[str]) -> Random:
        """See `Draws.noise`."""
        return self.random

    def surrogate(self, *what: str) -> Random:
        """See `Draws.surrogate`."""
        return self.random


class Key:
    """A secret of 32 bytes, and the secrets derived from it.

    Raises:
        ValueError: it has another length.
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if len(secret) != _BYTES:
            raise ValueError(f"a key has {_BYTES} bytes")
        self._secret = secret

    def __repr__(self) -> str:
        return "Key(...)"  # never in a log

    def derived(self, *purpose: str) -> Key:
        """The key for one purpose; tells nothing of this one nor of any other."""
        return Key(hmac.digest(self._secret, b"".join(map(_framed, purpose)), "sha256"))

    def name(self, *what: str) -> bytes:
        """16 bytes that stand for ``what``, and tell nothing of it without the key."""
        return self.derived("name v1", *what)._secret[:16]

    def rows(self, messages: Iterable[bytes]) -> KeyedRows:
        """A stream with a row for each of ``messages``."""
        return KeyedRows(self._secret, messages)

    def stream(self) -> KeyedStream:
        """The stream of this key itself."""
        return KeyedStream(self._secret)

    def token_noise(self, space: str, eta: float, ids: Sequence[int]) -> KeyedRows:
        """A row for the noise of each token, by the token and the one before it.

        Args:
            space, eta: as with words; see `draws` and `Keyed.noise`.
            ids: of the tokens, in order.
        """
        key = self.derived(_TOKENS, space, repr(float(eta)))
        return key.rows(f"{left} {own}".encode() for left, own in pairwise(("", *ids)))

    def draws(self, space: str, *scope: str) -> Keyed:
        """The chance of releases in one privacy space.

        Args:
            space: what tells it from any other. The same noise on other vectors of the same words
                would tell them apart.
            scope: what names the conversation, or the document, in which equal names get equal
                surrogates.
        """
        return Keyed(self.derived(_NOISE, space), self.derived(_SURROGATE, *scope))


@dataclass(frozen=True, slots=True)
class Keyed:
    """The chance of releases under one key; see `Key.draws`."""

    _noise: Key
    _surrogates: Key

    def noise(self, etas: Sequence[float], words: Sequence[str], before: Sequence[str]) -> Random:
        """See `Draws.noise`. Another eta is another stream: one draw at two strengths would be
        the difference of two releases."""
        shown = {eta: repr(float(eta)) for eta in set(etas)}
        return self._noise.rows(
            f"{shown[eta]} {len(word)} {word}{left}".encode()
            for eta, word, left in zip(etas, words, before, strict=True)
        )

    def surrogate(self, *what: str) -> Random:
        """See `Draws.surrogate`."""
        return self._surrogates.derived(*what).stream()


class KeyedRows:
    """Independent streams side by side: a `Random` whose first axis is the rows.

    Args:
        secret: 32 bytes.
        messages: one for each row; equal ones get equal rows.
    """

    def __init__(self, secret: bytes, messages: Iterable[bytes]) -> None:
        self._messages = [*messages]
        self._secret = secret
        self._drawn: NDArray[np.float64] | None = None
        self._used = self._blocks = 0

    def random(self, size: tuple[int, ...]) -> NDArray[np.float64]:
        """The next ``size[1:]`` of every row; ``size[0]`` is the number of rows.

        Raises:
            ValueError: it is not.
        """
        n, *rest = size
        if n != len(self._messages):
            raise ValueError(f"{n} rows were asked of a stream of {len(self._messages)}")
        end = self._used + math.prod(rest)
        if self._drawn is None:
            self._drawn = self._block()
        missing = math.ceil((end - self._drawn.shape[1]) / _BLOCK)
        if missing > 0:
            self._drawn = np.hstack([self._drawn, *(self._block() for _ in range(missing))])
        found = self._drawn[:, self._used : end].reshape(size)
        self._used = end
        return found

    def _block(self) -> NDArray[np.float64]:
        """The next `_BLOCK` numbers of every row."""
        start = self._secret + self._blocks.to_bytes(4, "big")
        self._blocks += 1
        blocks = [
            hashlib.shake_128(start + message).digest(8 * _BLOCK) for message in self._messages
        ]
        bits = np.frombuffer(b"".join(blocks), "<u8").reshape(-1, _BLOCK)
        return (bits >> np.uint64(11)) * np.float64(2.0**-53)


class KeyedStream:
    """One such stream, that of the message without a byte: a `Random` of any shape.

    Args:
        secret: 32 bytes.
    """

    def __init__(self, secret: bytes) -> None:
        self._numbers = _numbers(secret)

    def random(self, size: tuple[int, ...]) -> NDArray[np.float64]:
        """See `Random.random`."""
        return np.array([*islice(self._numbers, math.prod(size))], np.float64).reshape(size)


def _numbers(secret: bytes) -> Iterator[float]:
    """What `KeyedRows` draws, one by one: NumPy takes three times as long for a few."""
    for block in count():
        digest = hashlib.shake_128(secret + block.to_bytes(4, "big")).digest(8 * _BLOCK)
        for bits in struct.unpack(f"<{_BLOCK}Q", digest):
            yield (bits >> 11) * 2.0**-53


def _framed(part: str) -> bytes:
    """``part`` with its length in front, so that no two lists of parts read alike."""
    data = part.encode("utf-8", "surrogatepass")
    return len(data).to_bytes(8, "big") + data
