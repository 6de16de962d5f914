"""How often each token of a backbone stands in running text, from the public word counts.

Why it is here: in Split-and-Denoise every token gets a noisy vector, punctuation and parts of words
too, so the cloud's posterior and the attacker both need frequencies of tokens. Words are counted in
the shipped table; what is no word is not, and is added here at its usual rate. A device's own text
never enters.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.privacy.running_text import UNSEEN
from sottovoce.models.corpus.frequencies import FrequencyTable

__all__ = ["token_log_prior"]

MARKS: Final = {
    ",": 62.4,
    ".": 49.9,
    '"': 19.0,
    "'": 9.0,
    "-": 12.9,
    ";": 5.3,
    "!": 4.7,
    "?": 4.6,
    ":": 2.8,
    "/": 2.2,
    "(": 1.5,
    ")": 1.5,
    "_": 0.7,
    "=": 0.5,
    "$": 0.5,
    "’": 0.5,
    "*": 0.4,
    "“": 0.3,
    "”": 0.3,
    "&": 0.3,
    "@": 0.2,
    ">": 0.2,
    "<": 0.2,
    "#": 0.1,
    "—": 0.1,
    "%": 0.1,
}
"""Punctuation and signs for every 1,000 words, counted in the web treebank, a textbook, novels and
speeches. The apostrophes of clitics come with the words that hold them."""

NUMBERS: Final = 10.0
"""Tokens of digits for every 1,000 words in the same texts; all such tokens share them."""


def token_log_prior(tokenizer: Any, table: FrequencyTable) -> NDArray[np.float32]:
    """The log of each token's share of running text: Floats1d (tokens,), shares sum to 1.

    Every counted word is cut by the tokenizer and lends its count to its tokens. Half an occurrence
    is added to each token, so none is thought impossible. Special tokens, which no text holds, come
    out as improbable as tokens never met.

    Args:
        tokenizer: a fast `transformers` tokenizer.
        table: public word counts.
    """
    met: dict[str, float] = {}
    for word, clitic, count in zip(
        table.words, table.clitics.tolist(), table.counts.tolist(), strict=True
    ):
        # Most vocabularies write a word apart from the same letters inside or after another.
        form = word if clitic else f" {word}"
        met[form] = met.get(form, 0.0) + count
    thousands = sum(met.values()) / 1_000
    met |= {mark: rate * thousands for mark, rate in MARKS.items()}
    counts = np.full(len(tokenizer), UNSEEN)
    pieces = tokenizer([*met], add_special_tokens=False)["input_ids"]
    for ids, count in zip(pieces, met.values(), strict=True):
        np.add.at(counts, ids, count)
    numbers = [i for token, i in tokenizer.get_vocab().items() if _is_number(token)]
    counts[numbers] += NUMBERS * thousands / max(1, len(numbers))
    log_shares: NDArray[np.float32] = np.log(counts / counts.sum()).astype(np.float32)
    return log_shares


def _is_number(token: str) -> bool:
    return token.lstrip("#Ġ▁").isdecimal()
