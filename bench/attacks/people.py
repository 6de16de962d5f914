"""Attacks on who wrote and on whom they wrote of, run against the device's own releases.

Why it is here: `attributes` and `entities` know how to learn; this module privatises the labelled
text they learn from, as the attacker would, and the text they are judged on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from bench.attacks.attributes import ATTRIBUTES, infer, read_blogs
from bench.attacks.channels import CLEAR, Public, Words
from bench.attacks.entities import Entities, EntityTagger, f1, read_entities
from bench.attacks.text import Text
from sottovoce.edge.release import Setting

__all__ = ["attributes", "entities", "recogniser"]

_CLOSER = 3.0
"""Vectors of length 1 are too short beside the hashed forms."""


def attributes(
    public: Public,
    data: Path,
    posts: tuple[int, int],
    settings: list[Setting],
    tell: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Gender and age group from released blogs, of authors the attacker has not met."""
    train, test = (
        read_blogs(data / "blogs" / f"{name}.tsv.gz", n)
        for name, n in zip(("train", "dev"), posts, strict=True)
    )
    clitics, rows = public.bundle.manifest.clitics, []
    known, private = (Text.of(each.texts, public.lexicon, clitics) for each in (train, test))
    for setting in settings:
        channel = Words(public, setting)
        tell(f"{channel.mechanism} {channel.level}: attributes")
        random = np.random.default_rng(11)
        released = [
            np.split(
                channel.release(text, random).seen.symbols,
                np.searchsorted(text.sentence, np.arange(1, len(text.documents))),
            )
            for text in (known, private)
        ]
        for name in ATTRIBUTES:
            found = infer(
                released[0], train.labels[name], released[1], test.labels[name], channel.rows
            )
            rows.append(
                {
                    "mechanism": channel.mechanism,
                    "level": channel.level,
                    "attack": name,
                    "sees": "word",
                    **found,
                    "rare": None,
                    "names": None,
                    "numbers": None,
                }
            )
    return rows


def entities(
    public: Public,
    data: Path,
    messages: int,
    settings: list[Setting],
    tell: Callable[[str], None],
) -> list[dict[str, Any]]:
    """F1 of entities in released messages, by a tagger trained on released messages."""
    train = read_entities(data / "wnut17" / "train.jsonl.gz", messages)
    test = read_entities(data / "wnut17" / "dev.jsonl.gz")
    rows = []
    for setting in settings:
        channel = Words(public, setting)
        tell(f"{channel.mechanism} {channel.level}: entities")
        random = np.random.default_rng(12)
        known, private = (_released(each, channel, random) for each in (train, test))
        found = f1(recogniser(public, known).tag(private.tokens), test.labels)
        rows.append(
            {
                "mechanism": channel.mechanism,
                "level": channel.level,
                "attack": "NER, F1",
                "sees": "word",
                **found,
                "rare": None,
                "names": None,
                "numbers": None,
            }
        )
    return rows


def recogniser(public: Public, text: Entities) -> EntityTagger:
    """A tagger trained on ``text``."""
    numbers = {word: number for number, word in enumerate(public.bundle.words)}
    rows = np.asarray(public.bundle.space, np.float32) * np.float32(_CLOSER)
    return EntityTagger.fit(text, rows, numbers)


def _released(text: Entities, channel: Words, random: np.random.Generator) -> Entities:
    """The same labels on what the device makes of the tokens."""
    if channel.setting is CLEAR:
        return text
    found = []
    for tokens in text.tokens:
        document = " ".join(tokens)
        ends = [*accumulate(len(token) + 1 for token in tokens)]
        release = channel.public.privatizer.release(document, channel.setting, random)
        pieces = [""] * len(tokens)
        for word in release.each_word():
            place = bisect_right(ends, word.start)
            pieces[place] += release.text[word.released_start : word.released_end]
        found.append(tuple(pieces))
    return Entities(tuple(found), text.labels)
