"""Attacks on token vectors: `token-embedding.v1`, and the same at the backbone's full width.

Split-and-Denoise does send token vectors to the cloud. The attacks are those on words, but every
token gets noise. This module holds the differences.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.random import Generator

from bench.attacks.bigram import Bigrams
from bench.attacks.channels import Noised
from bench.attacks.costs import Embed
from bench.attacks.interface import Candidates, Floats, Releases, Seen
from bench.attacks.measures import Judged
from bench.attacks.text import Ints, Text
from sottovoce.cloud.models.encoder import PosteriorMean
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.token_embedding import TokenEmbedding
from sottovoce.core.privacy.vectors import unit_rows
from sottovoce.core.text.words import split

__all__ = ["as_sent", "bigrams_of", "judged_tokens", "levels_of", "posterior"]
__all__ += ["released", "to_tokens"]

_COMMON = 5_000


def levels_of(bundle: Bundle) -> list[Noised]:
    """Return the bundle's levels of `token-embedding.v1`."""
    rows = unit_rows(np.asarray(bundle.tokens))
    prior = np.load(bundle.folder / "token_prior.npy", allow_pickle=False)
    log_prior: Floats = prior.astype(np.float32)
    everyone = (Candidates(np.arange(len(rows), dtype=np.int32), log_prior),)
    return [
        Noised(TokenEmbedding.name, level, rows, everyone, stated.eta)
        for level, stated in bundle.manifest.embed.items()
    ]


def to_tokens(text: Text, bundle: Bundle) -> tuple[Ints, Ints]:
    """Return a text's tokens and each token's word: Ints1d (tokens,) twice."""
    ids: list[int] = []
    origin: list[int] = []
    words = (word for each in text.documents for word in split(each, bundle.manifest.clitics))
    for place, word in enumerate(words):
        pieces = bundle.tokenizer.ids(word.text)
        ids += pieces
        origin += [place] * len(pieces)
    return np.array(ids, np.int32), np.array(origin, np.int32)


def judged_tokens(judged: Judged, tokens: Ints, origin: Ints, log_prior: Floats) -> Judged:
    """Return the tokens of judged words; rare are those outside the 5,000 commonest tokens."""
    rank = np.empty(len(log_prior), np.int64)
    rank[np.argsort(-log_prior, kind="stable")] = np.arange(len(log_prior))
    return Judged(
        judged.all[origin],
        judged.all[origin] & (rank[tokens] >= _COMMON),
        judged.names[origin],
        judged.numbers[origin],
        judged.sentence[origin],
    )


def released(channel: Noised, tokens: Ints, sentence: Ints, random: Generator) -> Releases:
    """Release all tokens with fresh noise."""
    group = np.zeros(len(tokens), np.int32)
    vectors = channel.send(tokens, group, random)
    return Releases(Seen(np.full_like(tokens, -1), vectors, group, sentence), tokens)


def bigrams_of(sequences: Iterable[list[str]], tokenizer: Any) -> Bigrams:
    """Return a bigram model of tokens; the tokenizer's separator divides sentences."""
    texts = [" ".join(sequence) for sequence in sequences]
    found = tokenizer(texts, add_special_tokens=True, verbose=False)["input_ids"]
    # Special tokens stand at both ends; one between two texts is enough.
    flat = np.concatenate([np.array(ids[1:], np.int32) for ids in found])
    return Bigrams.of(flat, len(tokenizer))


def posterior(channel: Noised, embeddings: Floats) -> PosteriorMean:
    """Return the cloud's denoised vectors: the mean embedding given each noisy vector.

    Full-width vectors are denoised as well, although the published cloud uses them as received.
    Denoising costs no privacy, and a backbone can hardly use noisy vectors.
    """
    return PosteriorMean(channel.rows, embeddings, channel.candidates[0].log_prior)


def as_sent(channel: Noised, embeddings: Floats, bundle: Bundle) -> Embed:
    """Return the means over each document's tokens of the denoised vectors."""
    means = posterior(channel, embeddings)

    def embed(text: Text, random: Generator) -> Floats:
        ids, origin = to_tokens(text, bundle)
        sent = channel.send(ids, np.zeros(len(ids), np.int32), random)
        found = means(sent, channel.eta).numpy()
        document = text.sentence[origin]
        sums = np.zeros((len(text.documents), found.shape[1]), np.float32)
        np.add.at(sums, document, found)
        times = np.bincount(document, minlength=len(sums))
        sums /= np.maximum(1, times)[:, None].astype(np.float32)
        return sums

    return embed
