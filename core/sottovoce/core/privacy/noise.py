"""Repeatable randomness: uniform numbers derived from a device's secret key and their purpose.

Fresh noise on repeated text averages out. A memory of releases would grow without end, and would
still miss near copies. So the noise of a word is a pseudorandom function of a secret key, the
strength, the word and the word before it. Equal text gives equal bytes, and equal parts of two
texts get equal noise. Without the key, the noise cannot be told from fresh noise.

The function is SHAKE-128 (FIPS 202) with a derived key in front, because a sponge needs no HMAC.
The streams here are frozen, as a release must never change unnoticed. To change a stream, give its
purpose a new version.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice, pairwise
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

Floats2d = NDArray[np.float32]
"""Rows of vectors; the shape stands beside each use, as in ``Floats2d (n_words, r)``."""


class Random(Protocol):
    """A stream of uniform numbers; tests pass a seeded ``numpy.random.Generator``."""

    def random(self, size: tuple[int, ...]) -> NDArray[np.float64]:
        """Independent and uniform on [0, 1), with 53 bits."""


class SecureRandom:
    """Uniform numbers straight from the operating system's generator (getrandom(2)).

    The kernel's ChaCha20 erases its key after every answer. So there is no key to change between
    documents, to guard, or to inherit over a fork. It also saves the 12 MB of a library of
    generators.
    """

    def random(self, size: tuple[int, ...]) -> NDArray[np.float64]:
        """See `Random.random`."""
        bits = np.frombuffer(os.urandom(8 * math.prod(size)), np.uint64).reshape(size)
        return (bits >> np.uint64(11)) * np.float64(2.0**-53)


def draw(random: Random, n: int, r: int, eta: float | NDArray[np.float64]) -> Floats2d:
    """``n`` independent vectors of density proportional to ``exp(-eta * ||z||)``.

    RAPT v1 section 3.1 and RAPT v2 section III-A1: ``z = l * v`` with the length ``l`` from
    Gamma(r, 1/eta), the sum of r exponentials, and the direction ``v`` uniform on the unit sphere,
    a normalised Gaussian (Box and Muller's).

    Args:
        random: where the bits come from; `SecureRandom` outside of tests.
        n: how many vectors.
        r: their dimension, that of the privacy space.
        eta: the privacy parameter, in units of 1 / distance, one for all or Floats1d (n,); the mean
            length is ``r / eta``.

    Returns:
        Floats2d (n, r); drawn in float64 and rounded once.
    """
    # 1 - u is never 0, so no logarithm is infinite.
    length = np.log1p(-random.random((n, r))).sum(axis=1, keepdims=True)
    length /= -np.reshape(eta, (-1, 1))
    pairs = (r + 1) // 2
    spread = np.sqrt(-2.0 * np.log1p(-random.random((n, pairs))))
    angle = 2.0 * np.pi * random.random((n, pairs))
    direction = np.empty((n, 2 * pairs))
    np.multiply(spread, np.cos(angle), out=direction[:, :pairs])
    np.multiply(spread, np.sin(angle), out=direction[:, pairs:])
    direction = direction[:, :r]
    direction *= length / np.sqrt((direction * direction).sum(axis=1, keepdims=True))
    return direction.astype(np.float32)


_BYTES: Final = 32
_BLOCK: Final = 32
"""Uniform numbers from one call of the hash: enough for a word's noise in 16 dimensions."""

_NOISE: Final = "word noise v1"
_TOKENS: Final = "token noise v1"
_SURROGATE: Final = "surrogate v1"


class Draws(Protocol):
    """The source of randomness for one release."""

    def noise(self, etas: Sequence[float], words: Sequence[str], before: Sequence[str]) -> Random:
        """Return a stream of ``len(words)`` rows, one for the noise of each word.

        Args:
            etas: strength, by word.
            words: normal forms.
            before: the context before each word, see `sottovoce.core.text.words`.
        """

    def surrogate(self, *what: str) -> Random:
        """Return a stream for one surrogate, named by its kind and the text it replaces."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """Fresh randomness for each call: for measurements, and for tests with a seeded stream."""

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
        ValueError: the secret has another length.
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if len(secret) != _BYTES:
            raise ValueError(f"a key has {_BYTES} bytes")
        self._secret = secret

    def __repr__(self) -> str:
        return "Key(...)"  # never in a log

    def derived(self, *purpose: str) -> Key:
        """Return the key for one purpose. It reveals nothing about this key or any other."""
        return Key(hmac.digest(self._secret, b"".join(map(_framed, purpose)), "sha256"))

    def name(self, *what: str) -> bytes:
        """Return 16 bytes for ``what`` that reveal nothing about it without the key."""
        return self.derived("name v1", *what)._secret[:16]

    def rows(self, messages: Iterable[bytes]) -> KeyedRows:
        """Return a stream with a row for each of ``messages``."""
        return KeyedRows(self._secret, messages)

    def stream(self) -> KeyedStream:
        """Return the stream of this key itself."""
        return KeyedStream(self._secret)

    def token_noise(self, space: str, eta: float, ids: Sequence[int]) -> KeyedRows:
        """Return a row for the noise of each token, from the token and the token before it.

        Args:
            space, eta: as with words; see `draws` and `Keyed.noise`.
            ids: of the tokens, in order.
        """
        key = self.derived(_TOKENS, space, repr(float(eta)))
        return key.rows(f"{left} {own}".encode() for left, own in pairwise(("", *ids)))

    def draws(self, space: str, *scope: str) -> Keyed:
        """Return the randomness of releases in one privacy space.

        Args:
            space: identifies the space. The same noise on other vectors of the same words would
                reveal the words.
            scope: names the conversation or document in which equal names get equal surrogates.
        """
        return Keyed(self.derived(_NOISE, space), self.derived(_SURROGATE, *scope))


@dataclass(frozen=True, slots=True)
class Keyed:
    """The randomness of releases under one key; see `Key.draws`."""

    _noise: Key
    _surrogates: Key

    def noise(self, etas: Sequence[float], words: Sequence[str], before: Sequence[str]) -> Random:
        """See `Draws.noise`. Each eta has a separate stream.

        With one draw at two strengths, the difference of two releases would reveal the noise.
        """
        shown = {eta: repr(float(eta)) for eta in set(etas)}
        return self._noise.rows(
            f"{shown[eta]} {len(word)} {word}{left}".encode()
            for eta, word, left in zip(etas, words, before, strict=True)
        )

    def surrogate(self, *what: str) -> Random:
        """See `Draws.surrogate`."""
        return self._surrogates.derived(*what).stream()


class KeyedRows:
    """Independent streams side by side: a `Random` with the rows as its first axis.

    Args:
        secret: 32 bytes.
        messages: one for each row; equal messages get equal rows.
    """

    def __init__(self, secret: bytes, messages: Iterable[bytes]) -> None:
        self._messages = [*messages]
        self._secret = secret
        self._drawn: NDArray[np.float64] | None = None
        self._used = self._blocks = 0

    def random(self, size: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the next ``size[1:]`` of every row; ``size[0]`` is the number of rows.

        Raises:
            ValueError: ``size[0]`` is not the number of rows.
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
        """Return the next `_BLOCK` numbers of every row."""
        start = self._secret + self._blocks.to_bytes(4, "big")
        self._blocks += 1
        blocks = [
            hashlib.shake_128(start + message).digest(8 * _BLOCK) for message in self._messages
        ]
        bits = np.frombuffer(b"".join(blocks), "<u8").reshape(-1, _BLOCK)
        return (bits >> np.uint64(11)) * np.float64(2.0**-53)


class KeyedStream:
    """The stream of the empty message: a `Random` of any shape.

    Args:
        secret: 32 bytes.
    """

    def __init__(self, secret: bytes) -> None:
        self._numbers = _numbers(secret)

    def random(self, size: tuple[int, ...]) -> NDArray[np.float64]:
        """See `Random.random`."""
        return np.array([*islice(self._numbers, math.prod(size))]).reshape(size)


def _numbers(secret: bytes) -> Iterator[float]:
    """Yield the numbers of `KeyedRows` one by one, which for a few is 3 times faster than NumPy."""
    for block in count():
        digest = hashlib.shake_128(secret + block.to_bytes(4, "big")).digest(8 * _BLOCK)
        for bits in struct.unpack(f"<{_BLOCK}Q", digest):
            yield (bits >> 11) * 2.0**-53


_LENGTH: Final = struct.Struct(">Q").pack


def _framed(part: str) -> bytes:
    """Return ``part`` with its length in front, so that no two lists of parts look equal."""
    data = part.encode("utf-8", "surrogatepass")
    return _LENGTH(len(data)) + data
