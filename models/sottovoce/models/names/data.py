"""Reads and makes the sentences the name finder learns from, in one form.

Why it is here: three sources say three different things. Universal NER and WNUT mark spans with
kinds. The treebanks mark proper nouns without saying of what: such a word is allowed any kind of
name. Sentences made up around lists of names are marked where the names were put. Whatever the
source, words are cut as the device cuts them, and what a source does not say is left open.
"""

import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from numpy.random import Generator

from sottovoce.core.errors import InvalidInput
from sottovoce.core.text.names import KINDS
from sottovoce.core.text.words import Kind, Word, split
from sottovoce.models.corpus import language
from sottovoce.models.corpus.treebanks import TAG_ID, Sentence, read_conllu, read_masc
from sottovoce.models.names.mentions import Mention, Mentions

__all__ = [
    "ANY",
    "NONE",
    "Marked",
    "changed",
    "made_up",
    "read_treebank",
    "read_uner",
    "read_wnut",
]

NONE: Final = 1
"""Allowed kinds of a word that names nothing; kinds are bits, bit i for `KINDS[i]`."""
ANY: Final = (1 << len(KINDS)) - 1
"""Allowed kinds where nothing is known; such a word adds nothing to the loss."""
_NAME: Final = ANY & ~NONE
_BIT: Final = {kind: 1 << number for number, kind in enumerate(KINDS)} | {"": NONE, "?": ANY}
_UNER: Final = {"PER": "PERSON", "LOC": "PLACE", "ORG": "ORGANISATION"}
_WNUT: Final = {
    "person": "PERSON",
    "location": "PLACE",
    "corporation": "ORGANISATION",
    "group": "ORGANISATION",
    "product": "OTHER",
    "creative-work": "OTHER",
}
_TIMES: Final = frozenset(
    (
        *("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
        *("mon", "tue", "wed", "thu", "fri", "sat", "sun", "christmas", "easter"),
        *("january", "february", "march", "april", "may", "june", "july", "august"),
        *("september", "october", "november", "december", "jan", "feb", "mar", "apr"),
        *("jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec"),
    )
)
"""Proper nouns that are no person, place or organisation."""
_SMALL: Final = frozenset(
    ("of", "and", "the", "for", "in", "on", "at", "to", "de", "la", "a", "an", "or", "with", "by")
)
"""Words that may stay where they stand within a name: "Bank of America"."""
_CLITICS: Final = language.load("en").clitics
_PROPN: Final = 1 << TAG_ID["PROPN"]
_LEFT_OPEN: Final = (1 << TAG_ID["X"]) | (1 << TAG_ID["SYM"])


@dataclass(frozen=True, slots=True)
class Marked:
    """Words of one or more sentences with the kinds each may name, and their document."""

    words: tuple[Word, ...]
    allowed: tuple[int, ...]
    """For each word a set of kinds as bits."""
    document: str
    spans: tuple[tuple[int, int, str], ...] = ()
    """Names whose kind and ends are known: first word, end, kind."""


def read_treebank(sentences: Iterable[Sentence]) -> list[Marked]:
    """Sentences of a treebank: a proper noun may be any name, a day or month is an OTHER one."""
    return [
        _marked(
            zip(sentence.words, map(_of_tags, sentence.words, sentence.allowed), strict=True),
            sentence.document,
        )
        for sentence in sentences
    ]


def read_masc_and_web(data: Path) -> list[Marked]:
    """The training part of ud_ewt, and MASC."""
    web = data / "ud_ewt" / "train.conllu.gz"
    return read_treebank([*read_conllu(web), *read_masc(data / "pos_masc" / "all.jsonl.gz", web)])


def read_uner(path: Path, treebank: Path) -> list[Marked]:
    """Universal NER over the same sentences of a treebank, whose other proper nouns are OTHER."""
    found = []
    tagged = {sentence.words: sentence for sentence in read_conllu(treebank)}
    for entry in _lines(path):  # the sentences in another order
        sentence = tagged.get(tuple(entry["tokens"]))
        if sentence is None:  # a contraction that the treebank's reader takes as one word
            continue
        tags = [
            _BIT["OTHER"] if allowed == _NAME else allowed
            for allowed in map(_of_tags, sentence.words, sentence.allowed)
        ]
        found.append(_spans(entry, _UNER, tags, sentence.document))
    return sorted(found, key=lambda each: each.document)


def read_wnut(path: Path) -> list[Marked]:
    """WNUT 2017; what it does not mark names nothing."""
    return [
        _spans(entry, _WNUT, [NONE] * len(entry["tokens"]), f"{path.name}:{number}")
        for number, entry in enumerate(_lines(path))
    ]


def made_up(mentions: Mentions, document: str) -> Marked:
    """A sentence of our own, see `mentions`."""
    return _cut_pieces(mentions.sentence(), document)


def _of_tags(word: str, tags: int) -> int:
    if tags == _PROPN:
        return _BIT["OTHER"] if word.lower().rstrip(".") in _TIMES else _NAME
    return ANY if tags & (_LEFT_OPEN | _PROPN) else NONE


def _spans(
    entry: dict[str, list[str]], kinds: dict[str, str], others: Sequence[int], document: str
) -> Marked:
    allowed = list(others)
    begun: list[tuple[int, int, str]] = []
    for place, tag in enumerate(entry["ner_tags"]):
        mark, _, kind = tag.partition("-")
        if mark == "O":
            continue
        if mark == "I" and begun and begun[-1][1] == place and begun[-1][2] == kinds[kind]:
            begun[-1] = (begun[-1][0], place + 1, kinds[kind])
        else:
            begun.append((place, place + 1, kinds[kind]))
        allowed[place] = _BIT[kinds[kind]]
    return _marked(zip(entry["tokens"], allowed, strict=True), document, begun)


def _marked(
    pairs: Iterable[tuple[str, int]], document: str, spans: Sequence[tuple[int, int, str]] = ()
) -> Marked:
    words: list[Word] = []
    allowed: list[int] = []
    places = [0]
    for token, bits in pairs:
        pieces = split(token, _CLITICS)
        words += pieces
        allowed += [_open(piece, bits) for piece in pieces]
        places.append(len(words))
    moved = tuple((places[first], places[end], kind) for first, end, kind in spans)
    return Marked(tuple(words), tuple(allowed), document, moved)


def _open(word: Word, bits: int) -> int:
    """Marks and identifiers have treatments of their own; small words in a name may stay."""
    if word.kind is not Kind.WORD or (bits != NONE and (word.clitic or word.text in _SMALL)):
        return ANY
    return bits


def _cut_pieces(pieces: Sequence[Mention], document: str) -> Marked:
    """The words of a text whose pieces say what they name."""
    text = "".join(piece for piece, _ in pieces)
    ends: list[tuple[int, int]] = []
    done = 0
    for piece, kind in pieces:
        done += len(piece)
        ends.append((done, _BIT[kind]))
    words = split(text, _CLITICS)
    allowed = []
    at = 0
    for word in words:
        while ends[at][0] <= word.start:
            at += 1
        allowed.append(_open(word, ends[at][1]))
    return Marked(tuple(words), tuple(allowed), document)


def changed(
    sentence: Marked, random: Generator, renamed: Callable[[str], str] | None = None
) -> Marked:
    """The sentence as somebody else might have typed it.

    Args:
        sentence: as read.
        random: where the choices come from.
        renamed: gives another name of a kind, for spans whose ends are known.
    """
    words, allowed = list(sentence.words), list(sentence.allowed)
    if renamed:
        for first, end, kind in reversed(sentence.spans):
            if kind != "OTHER" and random.random() < _RENAMED:
                other = _cut_pieces([(renamed(kind), kind)], "")
                words[first:end], allowed[first:end] = other.words, other.allowed
    if random.random() < _NO_FULL_STOP and len(words) > 1 and words[-1].kind is Kind.PUNCTUATION:
        words.pop()
        allowed.pop()
    chance = random.random()
    for way, share in _CASES:
        if chance < share:
            words = [word._replace(text=way(word.text)) for word in words]
            break
        chance -= share
    return Marked(tuple(words), tuple(allowed), sentence.document)


_RENAMED: Final = 0.4
_NO_FULL_STOP: Final = 0.15
_CASES: Final[tuple[tuple[Callable[[str], str], float], ...]] = (
    (str.lower, 0.2),
    (str.upper, 0.03),
    (str.capitalize, 0.02),
)


def _lines(path: Path) -> Iterator[dict[str, list[str]]]:
    if not path.is_file():
        raise InvalidInput(
            f"no marked text at {path}",
            fix="name the data folder with --data; the model card says what it holds",
            subject="data",
        )
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)
