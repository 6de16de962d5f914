"""The mechanism on token embeddings, `token-embedding.v1`, and its bytes on the wire.

Split-and-Denoise sends vectors, not words, so only the noise protects a token from the cloud. The
cloud decodes the bytes with the same code, and validates everything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import DataLoss, InvalidInput, NotReady, Remedy
from sottovoce.core.privacy import noise, policies
from sottovoce.core.privacy.noise import Floats2d, Random
from sottovoce.core.text.word_classes import READINGS

LONGEST: Final = 254
"""Tokens of one query: 256, the most that sentence encoders of this size were trained for, less the
two special tokens that the cloud adds."""

_LEAST_ETA: Final = 0.1
_LARGEST_ETA: Final = 10_000.0
"""Within these, float16 holds every clipped vector and nothing overflows on the way."""

_FLOAT16: Final = np.dtype("<f2")
_ROUNDING: Final = 1e-3
"""What float16 may add to a length, relative; its numbers have 11 significant bits."""


@dataclass(frozen=True, slots=True)
class TokenEmbedding:
    """Noise of density exp(-eta * ||z||) on every token's unit vector in the privacy space.

    Split-and-Denoise section 3.3, but in r dimensions in place of the backbone's width, where the
    same protection takes shorter noise. The number and order of tokens are visible, and so are the
    times of requests for embeddings.
    """

    eta: float
    name: ClassVar[str] = "token-embedding.v1"

    def __post_init__(self) -> None:
        if not _LEAST_ETA <= self.eta <= _LARGEST_ETA:  # nor is NaN
            raise InvalidInput(
                f"eta must lie between {_LEAST_ETA} and {_LARGEST_ETA}",
                fix="take a level of the bundle",
                subject="eta",
            )

    def charge(self, tokens: int) -> float:
        """eta for each token: budgets add up (sequential composition of d_X-privacy)."""
        return self.eta * tokens

    def perturb(self, vectors: Floats2d, random: Random) -> Floats2d:
        """``vectors`` Floats2d (tokens, r) with noise on each row."""
        tokens, r = vectors.shape
        noisy: Floats2d = vectors + noise.draw(random, tokens, r, self.eta)
        return noisy

    def radius(self, r: int) -> float:
        """The length that vectors are clipped to; public, for it knows only ``r`` and eta.

        A unit vector, and noise of six standard deviations over its mean length: at most one vector
        in 30,000 is longer (by the law of the length, Gamma(r, 1 / eta), r = 8 and more).
        """
        return 1.0 + (r + 6.0 * math.sqrt(r)) / self.eta


def pack(noisy: Floats2d, mechanism: TokenEmbedding) -> bytes:
    """Noisy vectors as they travel: clipped to the radius, float16, little-endian, row by row.

    This is post-processing, so the guarantee stays. One byte a number, with a scale a row, would
    save 14 of 32 bytes a token at r = 16. It would move the cloud's answer to a cosine of 0.9999.
    Beside headers and the answer's 1.5 kB, the saving is too small for a second format. Half a byte
    moves the answer to 0.98, and costs about 0.015 of its cosine to the clean embedding.

    Args:
        noisy: Floats2d (tokens, r).
        mechanism: what made them.

    Returns:
        2 * tokens * r bytes.
    """
    lengths = np.linalg.norm(noisy, axis=1, keepdims=True)
    scale = np.minimum(1.0, mechanism.radius(noisy.shape[1]) / np.maximum(lengths, 1e-30))
    packed: bytes = (noisy * scale).astype(_FLOAT16).tobytes()
    return packed


def unpack(data: bytes, tokens: int, r: int, mechanism: TokenEmbedding) -> Floats2d:
    """Return the noisy vectors that `pack` wrote, from any sender: Floats2d (tokens, r).

    Raises:
        InvalidInput: too few or too many tokens, bytes of another shape or type, numbers that are
            not finite, or vectors `pack` would have clipped; ``subject`` names the field.
    """
    if not 1 <= tokens <= LONGEST:
        raise InvalidInput(
            f"a query has 1 to {LONGEST} tokens", fix="send a text in parts", subject="tokens"
        )
    expected = tokens * r * _FLOAT16.itemsize
    if len(data) != expected:
        raise InvalidInput(
            f"vectors has {len(data)} bytes, {tokens} float16 vectors of {r} numbers {expected}",
            fix="send little-endian float16, row by row",
            subject="vectors",
        )
    with np.errstate(invalid="ignore"):  # NaN and infinity pass on to the maximum
        rows: Floats2d = np.frombuffer(data, _FLOAT16).reshape(tokens, r).astype(np.float32)
        longest = np.linalg.norm(rows, axis=1).max()
    if not longest <= mechanism.radius(r) * (1.0 + _ROUNDING):
        raise InvalidInput(
            "vectors holds numbers that are not finite, or a vector past the clipping radius",
            fix=f"clip every vector to length {mechanism.radius(r):.6g}",
            subject="vectors",
        )
    return rows


DEFAULT_VOCABULARY = 7_630
"""Size of the reconstruction head's vocabulary in RAPT v1 (section 4.1)."""
COUNTS = "class_counts.npy"
"""File of a bundle: Floats1d, how often each row of ``members.npy`` was met in its class."""

_UNSEEN = 0.5
"""Occurrences credited to a word never met, so that it can be drawn as well."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words to draw from: ids Ints1d (n,), and their cumulative probabilities, Floats1d (n,),
    ending in 1."""

    ids: NDArray[np.int32]
    cumulative: NDArray[np.float64]

    def draw(self, n: int, random: Random) -> list[int]:
        """``n`` word ids, independent of one another."""
        places = np.searchsorted(self.cumulative, random.random((n,)), side="right")
        # Rounding may leave the last sum a hair below 1.
        drawn: list[int] = self.ids[np.minimum(places, len(self.ids) - 1)].tolist()
        return drawn


def candidates(bundle: Bundle, policy: str) -> NDArray[np.int32]:
    """Ids, ascending, of the free words that get noise under the policy.

    Raises:
        NotFound: unknown policy.
    """
    free = set(policies.find(policy).with_noise()) - {"CLITIC"}
    readings = [READINGS.index(reading) for reading in free]
    return np.flatnonzero(np.isin(bundle.readings, readings)).astype(np.int32)


def vocabulary(
    bundle: Bundle, policy: str, size: int = 0, *, by_frequency: bool = False
) -> Vocabulary:
    """Return the ``size`` commonest of `candidates`, or all if there are fewer.

    A bundle without word frequencies gives the first words of its list instead, because the
    vocabularies of language models begin with common words.

    Args:
        size: 0 takes `DEFAULT_VOCABULARY`.
        by_frequency: draw words as often as they come in public text, not uniformly.

    Raises:
        NotFound: unknown policy.
        NotReady: ``by_frequency``, and the bundle has no word frequencies.
    """
    ids = candidates(bundle, policy)
    size = min(size or DEFAULT_VOCABULARY, len(ids))
    met = _met(bundle, ids) if by_frequency or size < len(ids) else None
    if by_frequency and met is None:
        raise NotReady(
            "this bundle holds no word frequencies",
            fix="draw plain tokens uniformly, or pull a bundle that was built with frequencies",
            subject="plain_sampling",
        )
    if met is None:
        return Vocabulary(ids[:size], np.arange(1, size + 1) / size)
    kept = np.sort(np.argsort(-met, kind="stable")[:size])
    weights = met[kept] if by_frequency else np.ones(size)
    return Vocabulary(ids[kept], np.cumsum(weights / weights.sum()))


def draw(bundle: Bundle, n: int, policy: str, random: Random) -> list[int]:
    """``n`` word ids, independent and uniform over `candidates`.

    Raises:
        NotFound: unknown policy.
    """
    return vocabulary(bundle, policy, len(bundle.words)).draw(n, random)


def sequences(words: Vocabulary, n: int, kinds: int, random: Random) -> Iterator[list[int]]:
    """The plain tokens of one example after another, without end.

    Args:
        n: length of a sequence.
        kinds: 0 draws a new sequence each time; k draws k of them once, and each example takes
            one of these by chance (RAPT v2, figure 5a).
    """
    if not kinds:
        while True:
            yield words.draw(n, random)
    drawn = [words.draw(n, random) for _ in range(kinds)]
    while True:
        yield drawn[min(int(random.random((1,))[0] * kinds), kinds - 1)]


def _met(bundle: Bundle, ids: NDArray[np.int32]) -> NDArray[np.float64] | None:
    """How often each word was met in public text; None if the bundle does not say."""
    if COUNTS not in bundle.manifest.files:
        return None
    try:
        counts = np.load(bundle.folder / COUNTS, allow_pickle=False).astype(np.float64)
        # The first classes are all words, in order.
        met: NDArray[np.float64] = counts[: len(bundle.words)] + _UNSEEN
    except (OSError, ValueError) as error:
        raise DataLoss(f"bundle file {COUNTS} is unreadable", fix=Remedy.RESTORE_BUNDLE) from error
    return met[ids]
