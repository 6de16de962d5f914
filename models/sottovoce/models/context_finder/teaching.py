"""Opinions of the finder `full` on text, from which the small finder learns beside the marks.

The teacher reads sentences as they were written. The small finder reads them in other cases too,
so it learns what only the capitals told the teacher. Public text has no marks, only opinions.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor, nn

from sottovoce.core.text.names import KINDS
from sottovoce.core.text.words import split
from sottovoce.models.context_finder.full import FullNetwork, padded
from sottovoce.models.corpus import load_language
from sottovoce.models.names_data import ANY, Marked
from sottovoce.models.tagger import Progress

__all__ = ["Taught", "apart", "opinions", "read_public"]

Taught = tuple[Marked, NDArray[np.float16]]
"""A sentence, and the teacher's probabilities: Floats2d (n_words, kinds). Zeros are no opinion."""

_PUBLIC: Final = (
    *("openstax-introduction-anthropology", "openstax-introduction-business"),
    *("openstax-principles-economics-bundle", "us-presidential", "novels-sample"),
    *("wikitext2-valid", "wikitext2-test"),
)
_LONGEST: Final = 60
"""Words of a passage."""
_TOKENS: Final = 2_048
"""Word pieces, with padding, that the teacher reads at once."""
_CLITICS: Final = load_language("en").clitics


def read_public(data: Path, words: int, random: Generator) -> list[Marked]:
    """Return passages of public text without marks, about ``words`` words of each source.

    Raises:
        FileNotFoundError: a text is missing.
    """
    found: list[Marked] = []
    for lines in _sources(data):
        seen = 0
        for at in random.permutation(len(lines)):
            pieces = split(lines[at], _CLITICS)
            start = int(random.integers(max(1, len(pieces) - _LONGEST)))
            passage = tuple(pieces[start : start + _LONGEST])
            if len(passage) > 2:
                found.append(Marked(passage, (ANY,) * len(passage), ""))
                seen += len(passage)
            if seen >= words:
                break
    return found


def apart(scores: Tensor, told: Tensor, allowed: Tensor, named: float) -> Tensor:
    """Return the mean divergence of scores from the teacher's probabilities.

    Marks win: where the teacher's likeliest kind is not allowed, its opinion does not count.

    Args:
        scores: (B, T, kinds).
        told: (B, T, kinds), the teacher's; zeros are no opinion.
        allowed: (B, T), see `Marked.allowed`.
        named: weight of words that the teacher takes for names.
    """
    best = told.argmax(-1)
    agreed = (told.sum(-1) > 0) & ((allowed >> best) & 1 == 1)
    weights = agreed * torch.where(best > 0, named, 1.0)
    each = nn.functional.kl_div(scores.log_softmax(-1), told, reduction="none").sum(-1)
    return (each * weights).sum() / weights.sum().clamp(min=1.0)


def _sources(data: Path) -> Iterator[list[str]]:
    for name in _PUBLIC:
        with gzip.open(data / "text" / f"{name}.txt.gz", "rt", encoding="utf-8") as file:
            # What wikitext left out is no word, and its signs stand apart.
            lines = (line.replace(" @-@ ", "-").replace(" @,@ ", ",") for line in file)
            yield [line for line in lines if "<unk>" not in line and line.strip()[:1] not in "="]
    with gzip.open(data / "movie_reviews" / "train.tsv.gz", "rt", encoding="utf-8") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        yield [sentence for row in rows for sentence in row["text"].split(" . ")]


def opinions(
    teacher: FullNetwork, sentences: Sequence[Marked], progress: Progress | None = None
) -> list[Taught]:
    """Return the sentences with the teacher's probabilities.

    A word has those of its piece that is the likeliest a name. Words beyond the longest passage
    that the teacher reads have none.
    """
    reader = deepcopy(teacher).to(torch.bfloat16).eval()
    read = [reader.pieces([word.text for word in sentence.words]) for sentence in sentences]
    found: list[NDArray[np.float16]] = [
        np.zeros((len(sentence.words), len(KINDS)), np.float16) for sentence in sentences
    ]
    order = sorted(range(len(read)), key=lambda at: len(read[at][0]))
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and len(read[order[end]][0]) * (end + 1 - start) <= _TOKENS:
            end += 1
        batch = order[start:end]
        with torch.inference_mode():
            scores = reader(*padded([read[at] for at in batch])).float()
            likely = scores.softmax(-1).numpy()
        for row, at in enumerate(batch):
            ids, _, first = read[at]
            known = [place for place, piece in enumerate(first) if piece]
            edges = [*(first[place] for place in known), len(ids) - 1]
            for place, begin, stop in zip(known, edges, edges[1:], strict=False):
                pieces = likely[row, begin:stop]
                found[at][place] = pieces[pieces[:, 1:4].sum(axis=1).argmax()]
        start = end
        if progress:
            progress("teacher's opinions", start, len(order))
    return list(zip(sentences, found, strict=True))
