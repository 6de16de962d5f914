"""Reads the two treebanks the tagger may learn from, in one form.

The English Web Treebank names universal parts of speech. MASC names Penn tags only, and some of
those stand for several universal ones (IN: "of the house", "if it rains"). Such a word is kept with
the set of tags it may have, as counted in the first treebank; the loss asks for any of the set, and
the network settles the rest from what it learnt where the answer is known.
"""

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from sottovoce.core.errors import InvalidInput
from sottovoce.core.text.tagger import UPOS

TAG_ID: Final = {tag: position for position, tag in enumerate(UPOS)}
ANY: Final = (1 << len(UPOS)) - 1

_SEEN_OFTEN: Final = 3
_WORTH_COUNTING: Final = 0.03
# Where Penn as used in MASC differs from the tags of the web treebank.
_PENN: Final = {
    **dict.fromkeys(("(", ")", "-", "...", '"', "'", "--", ";"), ("PUNCT",)),
    "TO": ("PART", "ADP"),
    "#": ("SYM",),
    "SYM": ("SYM", "PUNCT"),
    "FW": ("X", "NOUN", "PROPN"),
    "LS": ("NUM", "X", "PUNCT"),
    "PP": ("PRON",),
}


@dataclass(frozen=True, slots=True)
class Sentence:
    """Words in order with the tags each may have, and the document they come from."""

    words: tuple[str, ...]
    allowed: tuple[int, ...]
    """For each word a set of tags as bits: bit i stands for `UPOS[i]`."""
    document: str


@dataclass(frozen=True, slots=True)
class _Token:
    form: str
    upos: str
    xpos: str


def read_conllu(path: Path) -> list[Sentence]:
    """Sentences of a CoNLL-U file, gzip or not, one tag a word.

    A contraction that is more than its words put together ("im" for "in dem") counts as one word,
    with the tag of the first.

    Raises:
        InvalidInput: there is no such file.
    """
    return [
        Sentence(
            tuple(token.form for token in tokens),
            tuple(1 << TAG_ID[token.upos] for token in tokens),
            document,
        )
        for document, tokens in _conllu(path)
    ]


def read_masc(path: Path, reference: Path) -> list[Sentence]:
    """Sentences of MASC (gzip JSON lines), with the tags `reference` (CoNLL-U) shows possible."""
    of_word, of_tag = _count_meanings(reference)
    found = []
    for line in _lines(path):
        entry = json.loads(line)
        allowed = [
            # What MASC says of signs without letters is often wrong ("[" a noun): not asked.
            (of_word.get((xpos, form.lower())) or of_tag.get(xpos, ANY))
            if any(map(str.isalnum, form)) or xpos in _PENN
            else ANY
            for form, xpos in zip(entry["tokens"], entry["xpos"], strict=True)
        ]
        found.append(Sentence(tuple(entry["tokens"]), tuple(allowed), entry["doc"]))
    return found


def _count_meanings(reference: Path) -> tuple[Mapping[tuple[str, str], int], Mapping[str, int]]:
    by_word: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    by_tag: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for _, tokens in _conllu(reference):
        for token in tokens:
            if token.xpos not in _PENN:
                by_word[token.xpos, token.form.lower()][token.upos] += 1
                by_tag[token.xpos][token.upos] += 1
    of_word = {
        key: _worth_keeping(counts)
        for key, counts in by_word.items()
        if counts.total() >= _SEEN_OFTEN
    }
    of_tag = {key: _worth_keeping(counts) for key, counts in by_tag.items()}
    return of_word, of_tag | {penn: _bits(tags) for penn, tags in _PENN.items()}


def _worth_keeping(counts: Counter[str]) -> int:
    least = _WORTH_COUNTING * counts.total()
    return _bits(tag for tag, count in counts.items() if count >= least)


def _bits(tags: Iterable[str]) -> int:
    return sum(1 << TAG_ID[tag] for tag in tags)


def _conllu(path: Path) -> Iterator[tuple[str, Sequence[_Token]]]:
    document, tokens = "", list[_Token]()
    contraction, begin, end = "", 0, ""
    for line in _lines(path):
        if line.startswith("# newdoc"):
            document = line.partition("=")[2].strip()
        elif not line and tokens:
            yield document, tokens
            tokens = []
        elif line and line[0] != "#":
            fields = line.split("\t")
            number, _, last = fields[0].partition("-")
            if last:  # "1-2" holds a contraction whose words follow
                contraction, begin, end = fields[1], len(tokens), last
            elif number.isdigit():  # "1.1" is a word that was left out
                tokens.append(_Token(fields[1], fields[3], fields[4]))
            if number == end:
                if "".join(token.form for token in tokens[begin:]) != contraction:
                    tokens[begin:] = [replace(tokens[begin], form=contraction)]
                end = ""
    if tokens:
        yield document, tokens


def _lines(path: Path) -> Iterator[str]:
    if not path.is_file():
        raise InvalidInput(
            f"no treebank at {path}",
            fix="name the data folder with --data; the model card says what it holds",
            subject="data",
        )
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n")
