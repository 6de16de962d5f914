"""Attacks on authors and on the people in texts, run against the device's own releases.

`attributes` and `entities` hold the learners. This module privatises their labelled training text,
as the attacker would, and the texts that judge them.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from bench.attacks.attributes import ATTRIBUTES, infer, read_blogs
from bench.attacks.channels import CLEAR, Words
from bench.attacks.entities import Entities, EntityTagger, f1, read_entities
from bench.attacks.public import Public
from bench.attacks.text import Text
from sottovoce.core.privacy.setting import Setting

__all__ = ["attributes", "entities", "recogniser"]

_CLOSER = 3.0
"""Factor for vectors, because length 1 is too short beside the hashed forms."""


def attributes(
    public: Public, data: Path, posts: tuple[int, int], setting: Setting
) -> list[dict[str, Any]]:
    """Infer gender and age group from released blogs of unknown authors."""
    train, test = (
        read_blogs(data / "blogs" / f"{name}.tsv.gz", n)
        for name, n in zip(("train", "dev"), posts, strict=True)
    )
    clitics, channel = public.bundle.manifest.clitics, Words(public, setting)
    random = np.random.default_rng(11)
    released = []
    for each in (train, test):
        text = Text.of(each.texts, public.lexicon, clitics)
        starts = np.searchsorted(text.sentence, np.arange(1, len(text.documents)))
        released.append(np.split(channel.release(text, random).seen.symbols, starts))
    return [
        _row(
            channel,
            name,
            infer(released[0], train.labels[name], released[1], test.labels[name], channel.rows),
        )
        for name in ATTRIBUTES
    ]


def entities(public: Public, data: Path, messages: int, setting: Setting) -> list[dict[str, Any]]:
    """Return the F1 of entities in released messages, by a tagger trained on released messages."""
    train = read_entities(data / "wnut17" / "train.jsonl.gz", messages)
    test = read_entities(data / "wnut17" / "dev.jsonl.gz")
    channel, random = Words(public, setting), np.random.default_rng(12)
    known, private = (_released(each, channel, random) for each in (train, test))
    found = f1(recogniser(public, known).tag(private.tokens), test.labels)
    return [_row(channel, "NER, F1", found)]


def _row(channel: Words, attack: str, found: dict[str, Any]) -> dict[str, Any]:
    names = {"mechanism": channel.mechanism, "level": channel.level, "attack": attack}
    none = {"rare": None, "names": None, "numbers": None}
    return {**names, "sees": "word", **found, **none}


def recogniser(public: Public, text: Entities) -> EntityTagger:
    """Return a tagger trained on ``text``."""
    numbers = {word: number for number, word in enumerate(public.bundle.words)}
    rows = np.asarray(public.bundle.space, np.float32) * np.float32(_CLOSER)
    return EntityTagger.fit(text, rows, numbers)


def _released(text: Entities, channel: Words, random: np.random.Generator) -> Entities:
    """Release the tokens; the labels stay."""
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
