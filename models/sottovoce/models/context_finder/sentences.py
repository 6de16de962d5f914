"""Reads marked sentences, and makes up those that they lack: requests, rows, forms, word names.

Requests without a name teach what must pass. Rows, JSON, CSV, SQL, forms and e-mail headers hold
names without a sentence around them. Many names here are also words ("Will", "May", "Long").
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

from numpy.random import Generator

from sottovoce.core.text.context_finder import BREAK
from sottovoce.core.text.vocabulary import Mark, Vocabulary
from sottovoce.core.text.words import Kind, Word, split
from sottovoce.models.corpus import load_language
from sottovoce.models.names_data import (
    ANY,
    BIT,
    NONE,
    SLOT,
    SLOT_KINDS,
    SLOTS,
    SMALL_WORDS,
    Marked,
    Mention,
    Mentions,
    read_entities,
    read_uner,
    read_wnut,
)

__all__ = [
    "Sentences",
    "cut",
    "is_tweet",
    "ordinary_words",
    "own_texts",
    "read_marked",
    "read_written",
    "weakened",
    "written_pieces",
]

_PASSES: Final = BIT["OTHER"] | NONE
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_WEAK: Final = frozenset(
    (
        *("so", "do", "my", "in", "even", "all", "me", "you", "many", "much", "any", "best", "or"),
        *("ah", "ha", "an", "ho", "to", "le", "on", "ma", "he", "no", "only", "must", "might"),
    )
)
"""Function words whose small form says nothing about a name."""
_CLITICS: Final = load_language("en").clitics
_ACRONYM: Final = 4
"""Letters of a public name that is mostly written in capitals."""
_OWN_KINDS: Final = {
    **dict.fromkeys(("who", "odd", "odd_last", "nick"), "PERSON"),
    **dict.fromkeys(("tool", "term", "standard", "work", "eponym"), "passes"),
    **dict.fromkeys(
        (
            *("topic", "style", "role", "day", "month", "language", "code_language", "number"),
            *("greeting", "word", "Word", "rare", "Rare", "camel", "abbr", "ABBR", "letter"),
        ),
        "",
    ),
}


class Sentences:
    """Draws marked sentences.

    Args:
        mentions: draws names.
        words: ordinary words in small letters.
        random: the source of all choices.
        rare: more ordinary words in small letters, seldom used ones among them.
        foreign: ordinary words of other languages, a list for each.
    """

    def __init__(
        self,
        mentions: Mentions,
        words: Sequence[str],
        random: Generator,
        rare: Sequence[str] = (),
        foreign: Sequence[Sequence[str]] = (),
    ) -> None:
        self._own = _lists() | {"public": _public_names()}
        self._mentions = mentions
        self._words = words
        self._rare = rare or words
        self._foreign = foreign
        self._random = random

    def request(self) -> Marked:
        """Return a request without a name."""
        lists = ("ask", "ask", "ask", "foreign", "code", "plain", "plain")
        name = self._pick(lists)
        if name == "foreign" and self._foreign and self._chance(0.6):
            words = self._foreign[int(self._random.integers(len(self._foreign)))]
            text = " ".join(self._pick(words) for _ in range(2 + self._upto(12)))
            return cut([(text if self._chance(0.3) else text.capitalize() + ".", "")])
        most = 6 if name == "code" else 3
        return self._passing([name] * self._upto(most))

    def _passing(self, lists: Sequence[str]) -> Marked:
        """Return patterns of these lists, sometimes all in capitals or as a title."""
        found = _joined([cut(self._filled(self._one(name))) for name in lists], self._random)
        chance = self._random.random()
        if chance < 0.12:
            way = str.upper if chance < 0.05 else str.capitalize
            words = tuple(word._replace(text=way(word.text)) for word in found.words)
            return Marked(words, found.allowed, found.document)
        return found

    def mention(self) -> Marked:
        """Return a sentence with a name, sometimes together with a request."""
        parts = [cut(self._filled(self._one("say")))]
        if self._chance(0.4):
            parts.insert(int(self._random.integers(2)), cut(self._filled(self._one("ask"))))
        return _joined(parts, self._random)

    def record(self) -> Marked:
        """Return rows, a form, JSON, CSV, SQL, HTML or a table."""
        named = self._chance(0.65)
        fields = self._fields(named)
        rows = [[self._value(kind) for _, kind in fields] for _ in range(self._upto(3))]
        keys = [key for key, _ in fields]
        form: Callable[[list[str], list[list[Mention]]], list[Mention]] = (
            self._json,
            self._csv,
            self._sql,
            self._form,
            self._html,
            self._table,
            self._bare,
        )[int(self._random.integers(7))]
        return cut(form(keys, rows))

    def _fields(self, named: bool) -> list[tuple[str, str]]:
        fields = [(self._one("plain_key"), "plain") for _ in range(self._upto(3))]
        if named:
            who = [(self._one("name_key"), "who")]
            if self._chance(0.6):
                who = [(self._one("given_key"), "given"), (self._one("family_key"), "family")]
                if self._chance(0.5):
                    who.reverse()
            if self._chance(0.25):
                who.append((self._one("org_key"), "org"))
            if self._chance(0.25):
                who.append((self._one("place_key"), "city"))
            at = int(self._random.integers(len(fields) + 1))
            fields[at:at] = who
        if self._chance(0.5):
            fields.insert(0, ("id", "number"))
        return fields

    def _value(self, kind: str) -> Mention:
        if kind == "who":
            return self._piece("who")
        if kind == "given":
            return self._piece("odd" if self._chance(0.4) else "first")
        if kind == "family":
            return self._piece("odd_last" if self._chance(0.4) else "last")
        if kind in ("org", "city"):
            return self._piece(kind)
        if kind == "number" or self._chance(0.25):
            return self._number(), ""
        choices = (
            "colour",
            "colour",
            "tool",
            "language",
            "standard",
            "topic",
            "word",
            "phrase",
            "rare",
        )
        return self._piece(choices[int(self._random.integers(len(choices)))])

    def _number(self) -> str:
        n = self._random.integers
        forms = (
            str(int(n(1, 5000))),
            f"{int(n(1940, 2026))}-{int(n(1, 13)):02d}-{int(n(1, 29)):02d}",
            f"{int(n(1, 900))}.{int(n(100)):02d}",
        )
        return forms[int(n(len(forms)))]

    def _json(self, keys: list[str], rows: list[list[Mention]]) -> list[Mention]:
        quote, line = self._pick(('"', '"', "'")), self._pick((" ", "\n", ""))
        found: list[Mention] = []
        for row in rows:
            found.append(("{" + line, ""))
            for place, (key, value) in enumerate(zip(keys, row, strict=True)):
                comma = "," if place < len(keys) - 1 else ""
                found += [(f"{quote}{key}{quote}: {quote}", ""), value]
                found.append((f"{quote}{comma}{line}", ""))
            found.append(("}\n", ""))
        return found

    def _csv(self, keys: list[str], rows: list[list[Mention]]) -> list[Mention]:
        comma = self._pick((",", ", ", ";", "\t", " | "))
        head = [(comma.join(keys) + "\n", "")] if self._chance(0.6) else []
        return [*head, *_lines(rows, "", comma, "\n")]

    def _sql(self, keys: list[str], rows: list[list[Mention]]) -> list[Mention]:
        comma, quote = self._pick((",", ", ")), "'"
        columns = f" ({', '.join(keys)})" if self._chance(0.5) else ""
        head = f"INSERT INTO {self._one('table')}{columns} VALUES " if self._chance(0.7) else ""
        body = _lines(rows, f"({quote}", f"{quote}{comma}{quote}", f"{quote})\n")
        return [(head, ""), *body]

    def _form(self, keys: list[str], rows: list[list[Mention]]) -> list[Mention]:
        sign, end = self._pick((": ", ": ", " = ", ":\t", ":")), self._pick(("\n", "\n", ", "))
        titled = self._chance(0.5)
        found: list[Mention] = []
        for row in rows:
            for key, value in zip(keys, row, strict=True):
                name = key.replace("_", " ").capitalize() if titled else key
                found += [(name + sign, ""), value, (end, "")]
        return found

    def _html(self, _: list[str], rows: list[list[Mention]]) -> list[Mention]:
        return _lines(rows, "<tr><td>", "</td><td>", "</td></tr>\n")

    def _table(self, keys: list[str], rows: list[list[Mention]]) -> list[Mention]:
        head = f"| {' | '.join(keys)} |\n|{'---|' * len(keys)}\n"
        return [(head, ""), *_lines(rows, "| ", " | ", " |\n")]

    def _bare(self, _: list[str], rows: list[list[Mention]]) -> list[Mention]:
        return _lines(rows, self._pick(("", "- ", "* ")), self._pick((" ", "\n", ", ")), "\n")

    def _filled(self, template: str) -> list[Mention]:
        pieces: list[Mention] = []
        done = 0
        template = template.replace("\\n", "\n")
        for slot in SLOT.finditer(template):
            pieces += [(template[done : slot.start()], ""), self._piece(slot[1])]
            done = slot.end()
        return [*pieces, (template[done:], "")]

    def _piece(self, slot: str) -> Mention:
        if slot == "who":
            forms = ("{full}", "{first}", "{last}", "{odd} {last}", "{first} {odd_last}")
            form = self._pick((*forms, "{odd} {odd_last}", "{odd}", "{full}", "{invented}"))
            return "".join(text for text, _ in self._filled(form)), "PERSON"
        if slot == "odd":
            return self._one("word_given"), "PERSON"
        if slot == "odd_last":
            return self._one("word_family"), "PERSON"
        if slot == "nick":
            return self._one("nickname"), "PERSON"
        if slot == "invented":
            return "".join(map(self._one, ("start", "middle", "end"))), "PERSON"
        if slot == "FULL":
            return self._mentions.draw("full").upper(), "PERSON"
        if slot == "public":
            return self._cased(self._one("public")), "passes"
        if slot == "Titled":
            words = [self._plain_word("Word") for _ in range(1 + self._upto(3))]
            return " ".join(words), ""
        if slot.lower() in ("word", "rare", "abbr", "camel", "letter"):
            return self._plain_word(slot), ""
        if slot == "phrase":
            return " ".join(self._piece("word")[0] for _ in range(self._upto(4))), ""
        if slot in self._own:
            return self._one(slot), _OWN_KINDS.get(slot, "")
        return self._mentions.draw(slot), SLOT_KINDS.get(slot, _OWN_KINDS.get(slot, ""))

    def _plain_word(self, slot: str) -> str:
        """Return a word, or a placeholder for a word in code and formulas."""
        if slot == "camel":
            return "".join(self._pick(self._words).capitalize() for _ in range(self._upto(3)))
        if slot == "letter":
            return self._pick(_LETTERS)
        if slot.lower() == "abbr":
            text = "".join(self._pick(_LETTERS) for _ in range(1 + self._upto(3)))
            return text if slot == "ABBR" else text.lower()
        word = self._pick(self._words if slot.lower() == "word" else self._rare)
        return word if slot.islower() else word.capitalize()

    def _cased(self, name: str) -> str:
        """Return a public name in one of the cases that people write it in."""
        if len(name) <= _ACRONYM and self._chance(0.7):
            return name.upper()
        return name.capitalize() if self._chance(0.65) else name

    def _one(self, name: str) -> str:
        return self._pick(self._own[name])

    def _pick(self, these: Sequence[str]) -> str:
        return these[int(self._random.integers(len(these)))]

    def _upto(self, most: int) -> int:
        return int(self._random.integers(1, most + 1))

    def _chance(self, share: float) -> bool:
        return bool(self._random.random() < share)


def own_texts() -> Iterator[str]:
    """Yield all patterns and words that sentences are made of."""
    for texts in _lists().values():
        yield from texts


def _lists() -> dict[str, list[str]]:
    told = resources.files("sottovoce.models.context_finder").joinpath("sentences.json")
    found: dict[str, list[str]] = json.loads(told.read_text("utf-8"))
    return found


@cache
def _public_names() -> list[str]:
    """Return products, companies, tools and terms of the public vocabulary, in small letters."""
    public = Mark.PUBLIC
    others = Mark.DATE | Mark.PLACE | Mark.TITLE | Mark.UNIT
    return [
        word
        for word, marks in Vocabulary.shipped().items()
        if marks & public and not marks & others and len(word) > 1 and word[0].isalpha()
    ]


def cut(pieces: Sequence[Mention]) -> Marked:
    """Return the words of a text with its line breaks; each word gets the kind of its piece.

    Everything outside a name is marked as no name: numbers, code and punctuation too.
    """
    text = "".join(piece for piece, _ in pieces)
    kinds: list[str] = []
    for piece, kind in pieces:
        kinds += [kind] * len(piece)
    words: list[Word] = []
    allowed: list[int] = []
    done = 0
    for word in split(text, _CLITICS):
        if "\n" in text[done : word.start]:
            words.append(Word(BREAK, word.start, word.start, Kind.PUNCTUATION))
            allowed.append(NONE)
        done = word.end
        kind = next(filter(None, kinds[word.start : word.end]), "")
        words.append(word)
        if kind == "passes":
            allowed.append(_PASSES)
        elif kind and (word.kind is not Kind.WORD or word.clitic or word.text in SMALL_WORDS):
            allowed.append(ANY)
        else:
            allowed.append(BIT[kind])
    return Marked(tuple(words), tuple(allowed), "")


def weakened(sentence: Marked) -> Marked:
    """Return the sentence with small function words that were names left open."""
    allowed = [
        ANY if bits != NONE and word.text in _WEAK else bits
        for word, bits in zip(sentence.words, sentence.allowed, strict=True)
    ]
    return Marked(sentence.words, tuple(allowed), sentence.document)


def _lines(rows: list[list[Mention]], start: str, between: str, end: str) -> list[Mention]:
    found: list[Mention] = []
    for row in rows:
        found.append((start, ""))
        for place, value in enumerate(row):
            found += [(between, "")] * (place > 0) + [value]
        found.append((end, ""))
    return found


def _joined(parts: Sequence[Marked], random: Generator) -> Marked:
    words: list[Word] = []
    allowed: list[int] = []
    for place, part in enumerate(parts):
        if place and random.random() < 0.4:
            words.append(Word(BREAK, 0, 0, Kind.PUNCTUATION))
            allowed.append(NONE)
        words += part.words
        allowed += part.allowed
    return Marked(tuple(words), tuple(allowed), "")


_WRITTEN: Final = {"p": "PERSON", "l": "PLACE", "o": "ORGANISATION", "x": "passes"}
_MARK: Final = re.compile(r"⟦([plox]):([^⟦⟧]+)⟧")
_TWEETS: Final = ("btc", "train.jsonl.gz")
_OFTEN: Final = 3
"""Times that a small word must occur in the treebanks to count as an ordinary one."""


def read_marked(data: Path) -> list[Marked]:
    """Return the sentences marked with kinds that weights may learn from."""
    return [
        *read_wnut(data / "wnut17" / "train.jsonl.gz"),
        *read_uner(data / "uner_ewt" / "dev.jsonl.gz", data / "ud_ewt" / "dev.conllu.gz"),
        *read_entities(data / "btc" / "train.jsonl.gz", others=False),
        *read_entities(data / "wikigold" / "all.jsonl.gz", others=True),
        *read_entities(data / "crossner" / "train.jsonl.gz", others=True),
        *read_entities(data / "sec_filings" / "train.jsonl.gz", others=False),
    ]


def read_written() -> list[Marked]:
    """Return the texts that were written and marked for this finder, a line of `written.txt` each.

    A name stands as ``⟦p:Tom Boyle⟧``, where the letter is a key of `_WRITTEN`. ``\\n`` is a line
    break.
    """
    told = resources.files("sottovoce.models.context_finder").joinpath("written.txt")
    lines = told.read_text("utf-8").splitlines()
    return [_written(line, f"written:{number}") for number, line in enumerate(lines, 1)]


def written_pieces(line: str) -> list[Mention]:
    """Return the pieces of a line of `read_written`, with the kind of each piece.

    Raises:
        ValueError: a mark has no end, or is of no kind.
    """
    pieces: list[Mention] = []
    done = 0
    line = line.replace("\\n", "\n")
    for mark in _MARK.finditer(line):
        pieces += [(line[done : mark.start()], ""), (mark[2], _WRITTEN[mark[1]])]
        done = mark.end()
    pieces.append((line[done:], ""))
    if any(sign in piece for piece, _ in pieces for sign in "⟦⟧"):
        raise ValueError("a mark has no end, or is of no kind")
    return pieces


def _written(line: str, document: str) -> Marked:
    pieces = written_pieces(line)
    found = cut(pieces)
    return replace(found, document=document, spans=tuple(_ends(found, pieces)))


def _ends(found: Marked, pieces: Sequence[Mention]) -> Iterator[tuple[int, int, str]]:
    """Yield the first word, the end and the kind of each piece that names something private."""
    starts = [word.start for word in found.words]
    done = 0
    for piece, kind in pieces:
        first, end = bisect_left(starts, done), bisect_left(starts, done + len(piece))
        if kind in SLOTS and first < end:  # no word begins in a name that is part of a link
            yield first + (found.words[first].text == BREAK), end, kind
        done += len(piece)


def ordinary_words(treebanks: Sequence[Marked]) -> list[str]:
    """Return the small words that the treebanks often show as no name."""
    count = Counter(
        word.text
        for sentence in treebanks
        for word, bits in zip(sentence.words, sentence.allowed, strict=True)
        if bits == NONE and word.text.isalpha() and word.text.islower()
    )
    return sorted(word for word, times in count.items() if times >= _OFTEN)


def is_tweet(sentence: Marked) -> bool:
    """Return whether `read_marked` read the sentence from a set of tweets."""
    return sentence.document.split(":")[0] in _TWEETS
