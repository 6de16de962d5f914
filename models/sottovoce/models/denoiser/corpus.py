"""Reads public text and cuts it into the passages the denoiser is trained on.

Why it is here: the weights ship, so they may only come from text that allows it, and they should
know the kinds of text people write. The default set is the part of the project's data folder that
its README marks as usable; a provider names files of its own users' language instead.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from sottovoce.core.errors import InvalidInput

__all__ = ["USABLE", "passages", "read"]

USABLE: Final = {
    "ud_ewt/train.conllu.gz": 20_000,
    "pos_masc/all.jsonl.gz": 40_000,
    "wnut17/train.jsonl.gz": 20_000,
    "text/openstax-introduction-anthropology.txt.gz": 20_000,
    "text/openstax-introduction-business.txt.gz": 20_000,
    "text/openstax-principles-economics-bundle.txt.gz": 20_000,
    "text/us-presidential.txt.gz": 20_000,
    "text/wikitext2-valid.txt.gz": 20_000,
    "text/wikitext2-test.txt.gz": 20_000,
    "text/novels-sample.txt.gz": 30_000,
}
"""Files of the project's data folder that may train weights, and the most sentences each lends.
Its film reviews may as well, but then no figure on the film sentences of SST-2 would be honest."""

_END: Final = re.compile(r"(?<=[.!?])[\"'”’)]*\s+(?=[\"'“‘(]?[A-Z0-9])")
_LETTER: Final = re.compile(r"[^\W\d_]")
_BEFORE_MARK: Final = re.compile(r" (?=[,.;:!?%)\]]|n't\b|'(?:s|re|ve|ll|d|m)\b)")


def read(paths: Sequence[Path]) -> list[list[str]]:
    """Sentences of each document in turn, without those met before.

    Args:
        paths: the project's data folder, or files: ``.txt`` (a paragraph a line), ``.tsv`` (column
            ``text``), ``.jsonl`` (``text`` or ``tokens``), ``.conllu``; each may end in ``.gz``.

    Raises:
        InvalidInput: a file is missing, of another kind, or none holds any sentence.
    """
    files: list[tuple[Path, int]] = []
    for path in paths:
        if path.is_dir():
            files += [(path / name, most) for name, most in USABLE.items()]
        else:
            files.append((path, 1 << 62))
    met: set[str] = set()
    documents = []
    for path, most in files:
        everything = [*_paragraphs(path)]
        sentences = sum(len(paragraph) for paragraph in everything)
        # Of a long file a part from every place, not its beginning.
        keep = min(1.0, most / max(1, sentences))
        for place, paragraph in enumerate(everything):
            if int(place * keep) == int((place + 1) * keep):
                continue
            fresh = [sentence for sentence in paragraph if sentence not in met]
            met.update(fresh)
            if fresh:
                documents.append(fresh)
    if not documents:
        raise InvalidInput(
            "there are no sentences in the data", fix="name text files with --data", subject="data"
        )
    return documents


def passages(documents: Sequence[Sequence[str]], seed: int = 0) -> list[str]:
    """Single sentences for the most part, some followed by the next ones, in random order."""
    random = np.random.default_rng(seed)
    found = []
    for sentences in documents:
        place = 0
        while place < len(sentences):
            together = 1 if random.random() < 0.85 else int(random.integers(2, 6))
            found.append(" ".join(sentences[place : place + together]))
            place += together
    return [found[i] for i in random.permutation(len(found))]


def _paragraphs(path: Path) -> Iterator[list[str]]:
    kind = "".join(path.suffixes).removesuffix(".gz")
    if not path.is_file():
        raise InvalidInput(f"no text at {path}", fix="check --data", subject="data")
    if kind not in _READERS:
        raise InvalidInput(
            f"{path.name} is of no kind this command reads",
            fix=f"use files ending in {', '.join(_READERS)}, or any of them with .gz",
            subject="data",
        )
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="\n") as lines:
        yield from filter(None, _READERS[kind](lines))


def _text(lines: Iterator[str]) -> Iterator[list[str]]:
    return map(_sentences, lines)


def _columns(lines: Iterator[str]) -> Iterator[list[str]]:
    for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
        yield _sentences(row["text"])


def _json(lines: Iterator[str]) -> Iterator[list[str]]:
    for line in lines:
        entry = json.loads(line)
        joined = entry["text"] if "text" in entry else " ".join(entry["tokens"])
        yield [found] if (found := _tidy(joined)) else []


def _treebank(lines: Iterator[str]) -> Iterator[list[str]]:
    for line in lines:
        if line.startswith("# text = "):
            yield [found] if (found := _tidy(line[9:])) else []


_READERS: Final = {".txt": _text, ".tsv": _columns, ".jsonl": _json, ".conllu": _treebank}


def _sentences(paragraph: str) -> list[str]:
    return [found for piece in _END.split(_tidy(paragraph)) if (found := _tidy(piece))]


def _tidy(text: str) -> str:
    """Without the marks of tokenised corpora, or nothing if there are hardly any letters."""
    for mark in ",.-":
        text = text.replace(f" @{mark}@ ", mark)  # WikiText's "1 @,@ 000"
    text = _BEFORE_MARK.sub("", text.replace("<unk>", " ").replace("( ", "("))
    text = " ".join(text.split())
    return text if len(_LETTER.findall(text)) >= 6 and not text.startswith("=") else ""
