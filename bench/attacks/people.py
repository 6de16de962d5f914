"""Attacks on authors and on the people in texts, run against the device's own releases.

`attributes` and `entities` hold the learners. This module privatises their labelled training text,
as the attacker would, and the texts that judge them. As a command, it measures whether a release
reveals the author of a post, or the hidden person in a sentence. The attacker has other texts by
each author or about each person, in clear, and names the nearest candidate.

    python -m bench.attacks.people --quick
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.sparse import csr_array

from bench import console, data
from bench.attacks.attributes import ATTRIBUTES, infer, read_blogs
from bench.attacks.channels import CLEAR, Words
from bench.attacks.entities import Entities, EntityTagger, f1, read_entities
from bench.attacks.interface import Floats
from bench.attacks.public import Public
from bench.attacks.text import Text
from bench.console import Figures, share, span
from bench.resampling import mean
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.policies import Setting

__all__ = ["Candidates", "attributes", "entities", "nearest", "recogniser"]

_FILES: Final = ("blogs/dev.tsv.gz", "wikigold/all.jsonl.gz", "crossner/train.jsonl.gz")
_SETTINGS: Final = {
    "clear": None,
    "personal": Setting(policy="personal"),
    "names, balanced": Setting(policy="names"),
    **{f"content, {level}": Setting(level) for level in ("light", "balanced", "strong")},
}
_QUICK: Final = 400
"""With ``--quick``, about so many texts are asked about."""
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


@dataclass(frozen=True)
class Candidates:
    """Texts by an unknown author or about an unknown person, and the attacker's own texts.

    Attributes:
        asked: texts that leave the device.
        known: texts in clear, of the same candidates.
        who, whose: candidate of each asked and of each known text, Ints1d.
        name: the candidate's name in each asked text; "" where the text does not name him.
    """

    asked: list[str]
    known: list[str]
    who: list[int]
    whose: list[int]
    name: list[str]

    def without_names(self) -> list[str]:
        """Return the asked texts with their candidates' names cut out, and nothing else hidden."""
        pairs = zip(self.asked, self.name, strict=True)
        return [text.replace(name, "") if name else text for text, name in pairs]


def authors(folder: Path) -> Candidates:
    """Return posts of blogs; the attacker knows all but the first post of each author."""
    posts: dict[str, list[str]] = {}
    for row in data.rows(folder / _FILES[0]):
        posts.setdefault(row["author"], []).append(row["text"])
    return _candidates({author: [(each, "") for each in some] for author, some in posts.items()})


def subjects(folder: Path) -> Candidates:
    """Return sentences that name a person; the attacker knows all but the first of each person."""
    about: dict[str, list[tuple[str, str]]] = {}
    for file in _FILES[1:]:
        found = read_entities(folder / file)
        for tokens, labels in zip(found.tokens, found.labels, strict=True):
            text = " ".join(tokens)
            for name in dict.fromkeys(_persons(tokens, labels)):
                if (text, name) not in about.setdefault(name, []):
                    about[name].append((text, name))
    return _candidates(about)


def _persons(tokens: Sequence[str], labels: Sequence[str]) -> Iterator[str]:
    """Return the persons that a sentence names with two words or more."""
    for start, label in enumerate(labels):
        if label == "B-PER":
            end = start + 1
            while end < len(labels) and labels[end] == "I-PER":
                end += 1
            if end - start > 1:
                yield " ".join(tokens[start:end])


def _candidates(texts: dict[str, list[tuple[str, str]]]) -> Candidates:
    found = Candidates([], [], [], [], [])
    for number, some in enumerate(each for each in texts.values() if len(each) > 1):
        (first, name), *others = some
        found.asked.append(first)
        found.who.append(number)
        found.name.append(name)
        found.known.extend(text for text, _ in others)
        found.whose.extend([number] * len(others))
    return found


def nearest(asked: Sequence[str], known: Sequence[str], whose: Sequence[int]) -> list[int]:
    """Return for each text the candidate of the known text with the nearest words (TF-IDF)."""
    places: dict[str, int] = {}
    for text in known:
        for word in _words(text):
            places.setdefault(word, len(places))
    counted = _counts(known, places)
    idf = np.log(len(known) / np.maximum(1, np.bincount(counted.indices, minlength=len(places))))
    rows = [csr_array(each.multiply(idf)) for each in (_counts(asked, places), counted)]
    lengths = np.sqrt(rows[1].multiply(rows[1]).sum(axis=1))
    alike: Floats = (rows[0] @ rows[1].T).toarray() / np.maximum(lengths, 1e-9)
    return [whose[at] for at in alike.argmax(axis=1).tolist()]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _counts(texts: Sequence[str], places: dict[str, int]) -> csr_array:
    """Return the damped counts of known words: Floats2d (texts, words)."""
    rows = [[places[word] for word in _words(text) if word in places] for text in texts]
    at = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    columns = np.array([place for row in rows for place in row], int)
    found = csr_array((np.ones(len(at)), (at, columns)), shape=(len(rows), len(places)))
    found.sum_duplicates()
    return csr_array(found.log1p())


def _identified(
    public: Public, some: Candidates, which: Sequence[int], setting: Setting | None
) -> Figures:
    """Return how often the attacker finds a text's candidate: a share and its 95 % interval."""
    asked = [some.asked[at] for at in which]
    if setting:
        random = np.random.default_rng(13)
        asked = [public.privatizer.release(text, setting, random).text for text in asked]
    return _found(some, which, asked)


def _found(some: Candidates, which: Sequence[int], asked: Sequence[str]) -> Figures:
    guessed = nearest(asked, some.known, some.whose)
    right = np.array([guess == some.who[at] for guess, at in zip(guessed, which, strict=True)])
    told = mean(right[None])
    return {"success": told["mean"], "ci": told["interval"], "asked": len(right)}


def main() -> None:
    """Print the table."""
    parser = console.parser("attacks.people", __doc__, quick="fewer texts", data="the data sets")
    arguments = parser.parse_args()
    data.require(parser, arguments.data, *_FILES)
    public = Public(Bundle.open(arguments.bundle), Path("models"))
    rows: list[Figures] = []
    kinds: dict[str, Callable[[Path], Candidates]] = {"author": authors, "person": subjects}
    for kind, read in kinds.items():
        some = read(arguments.data)
        step = len(some.asked) // _QUICK if arguments.quick else 1
        which = range(0, len(some.asked), max(1, step))
        about = {"sought": kind, "candidates": len(some.asked)}
        for name, setting in console.track(_SETTINGS.items(), kind):
            rows.append({**about, "release": name, **_identified(public, some, which, setting)})
        if any(some.name):
            cut = some.without_names()
            found = _found(some, which, [cut[at] for at in which])
            rows.append({**about, "release": "clear, without the name", **found})
    shown = console.table(
        "texts whose author or subject an attacker with other texts finds",
        ("sought", "release"),
        ("found", "95 %", "texts", "candidates"),
        (
            (
                row["sought"],
                row["release"],
                share(row["success"]),
                span(row["ci"]),
                row["asked"],
                f"{row['candidates']:,}",
            )
            for row in rows
        ),
    )
    console.publish(arguments, {"bundle": public.bundle.id, "rows": rows}, shown)


if __name__ == "__main__":
    main()
