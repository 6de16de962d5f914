"""Which share of the words of public texts does a bundle list?

Words that a bundle does not list are drawn under every policy but `personal`. A word counts as
listed if the device accepts the bundle's reading of the word. So the share holds for what happens
on the device.

    python -m bench.utility.words --bundle build/words-60000
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from bench import console, data
from bench.console import Figures
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.trust import TrustedWords
from sottovoce.core.privacy.vectors import Vectors
from sottovoce.core.text.word_classes import READINGS, UNLISTED, look_up
from sottovoce.core.text.words import Kind, split

__all__ = ["SETS", "listed"]

_MOST: Final = 200_000
"""Words read of each set."""
_ALL: Final = (*READINGS, UNLISTED)


def _lines(file: Path) -> Iterator[str]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        yield from lines


def _rows(file: Path) -> Iterator[str]:
    return (row["text"] for row in data.rows(file))


def _turns(file: Path) -> Iterator[str]:
    return (turn for line in _lines(file) for turn in json.loads(line)["turns"])


SETS: Final[dict[str, tuple[str, Callable[[Path], Iterable[str]]]]] = {
    "SST-2": ("sst2/train.tsv.gz", _rows),
    "TREC": ("trec/train.tsv.gz", _rows),
    "AG News": ("agnews/train.tsv.gz", _rows),
    "prompts": ("prompts/arena_hard_v2.jsonl.gz", _turns),
    "textbook": ("text/openstax-introduction-business.txt.gz", _lines),
    "addresses": ("text/us-presidential.txt.gz", _lines),
    "novels": ("text/novels-sample.txt.gz", _lines),
    "Wikipedia": ("text/wikitext2-valid.txt.gz", _lines),
}
"""The file of each set, and its reader."""


def listed(bundle: Bundle, texts: Iterable[str]) -> Figures:
    """Return the number of words, and the shares in percent of listed and of unlisted words.

    Unlisted words with a capital are mostly names. Clitics, marks and identifiers do not count.
    """
    trusted = TrustedWords.of(bundle)
    vectors = Vectors(bundle)
    found = (
        word.text
        for text in texts
        for word in split(text, trusted.clitics)
        if word.kind is Kind.WORD and not word.clitic
    )
    words = list(islice(found, _MOST))
    ids = vectors.ids([vectors.normal_form(word) for word in words])
    unlisted = look_up(trusted.readings, ids) == _ALL.index(UNLISTED)
    small = np.array([word == word.lower() for word in words])
    return {
        "words": len(words),
        "listed": 100 * float((~unlisted).mean()),
        "unlisted_small": 100 * float((unlisted & small).mean()),
        "unlisted_capital": 100 * float((unlisted & ~small).mean()),
    }


def main() -> None:
    parser = console.parser("utility.words", __doc__, data="the sets")
    arguments = parser.parse_args()
    data.require(parser, arguments.data, *(file for file, _ in SETS.values()))
    bundle = Bundle.open(arguments.bundle)
    found = {
        name: listed(bundle, read(arguments.data / file)) for name, (file, read) in SETS.items()
    }
    figures: Figures = {
        "bundle": bundle.id,
        "words": bundle.manifest.words,
        "bytes": sum(file.bytes for file in bundle.manifest.files.values()),
        "refused": TrustedWords.of(bundle).changed,
        "sets": found,
    }
    shown = console.table(
        f"Listed words in percent: {figures['words']:,} words in {figures['bytes'] / 1e6:.1f} MB,"
        f" {figures['refused']} of them refused by the device",
        ("text",),
        ("words read", "listed", "unlisted, small letters", "unlisted, capital"),
        [
            (name, f"{each['words']:,}", *(f"{each[key]:.1f}" for key in list(each)[1:]))
            for name, each in found.items()
        ],
    )
    console.publish(arguments, figures, shown)


if __name__ == "__main__":
    main()
