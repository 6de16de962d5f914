"""Finds the public texts in which words are counted.

Why it is here: which files hold text, and what has to be undone in them, is a matter of the sources
and not of counting. The table that ships was counted in a known set; for any other language a
folder of treebanks and plain texts will do.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, cast

from sottovoce.core.errors import InvalidInput
from sottovoce.models.corpus.treebanks import Sentence, read_conllu, read_masc

__all__ = ["Sources", "find"]

_TEXTBOOKS: Final = (
    *("introduction-anthropology", "introduction-business", "principles-economics-bundle"),
)


@dataclass(frozen=True)
class Sources:
    """What there is, by name; each is read when it is called."""

    treebanks: Mapping[str, Callable[[], list[Sentence]]]
    """Sentences with the tags that people gave the words."""
    texts: Mapping[str, Callable[[], list[str]]]
    """Paragraphs whose words nobody has tagged."""


def find(data: Path) -> Sources:
    """The sources of the shipped table where ``data`` is the folder that holds them; else every
    treebank (``*.conllu``) and text (``*.txt``, a paragraph a line) in it, gzip or not.

    Raises:
        InvalidInput: there are none, or one of the shipped table's is missing.
    """
    if (data / "ud_ewt").is_dir():
        return _of_the_shipped_table(data)
    found = Sources(
        {name: partial(read_conllu, path) for name, path in _files(data, ".conllu")},
        {name: partial(_paragraphs, path) for name, path in _files(data, ".txt")},
    )
    if not found.treebanks and not found.texts:
        raise _missing(data)
    return found


def _files(data: Path, ending: str) -> Iterator[tuple[str, Path]]:
    for path in sorted((*data.rglob(f"*{ending}"), *data.rglob(f"*{ending}.gz"))):
        yield path.relative_to(data).as_posix().removesuffix(".gz").removesuffix(ending), path


def _of_the_shipped_table(data: Path) -> Sources:
    text, web = data / "text", data / "ud_ewt" / "train.conllu.gz"
    plain = {
        "openstax": [text / f"openstax-{book}.txt.gz" for book in _TEXTBOOKS],
        "us-presidential": [text / "us-presidential.txt.gz"],
        "novels-sample": [text / "novels-sample.txt.gz"],
    }
    wiki = [text / f"wikitext2-{part}.txt.gz" for part in ("test", "valid")]
    return Sources(
        {
            "ud_ewt": partial(read_conllu, web),
            "pos_masc": partial(read_masc, data / "pos_masc" / "all.jsonl.gz", web),
        },
        {
            **{name: partial(_paragraphs, *paths) for name, paths in plain.items()},
            "wikitext2": lambda: [_untokenised(line) for line in _paragraphs(*wiki)],
            "movie_reviews": partial(_reviews, data / "movie_reviews" / "train.tsv.gz"),
            "wnut17": partial(_messages, data / "wnut17" / "train.jsonl.gz"),
        },
    )


def _paragraphs(*paths: Path) -> list[str]:
    found: list[str] = []
    for path in paths:
        with _open(path) as file:
            found += filter(None, map(str.strip, file))
    return found


def _reviews(path: Path) -> list[str]:
    with _open(path) as file:
        return [row["text"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def _messages(path: Path) -> list[str]:
    with _open(path) as file:
        return [" ".join(json.loads(line)["tokens"]) for line in file]


def _untokenised(line: str) -> str:
    """WikiText marks inner punctuation and hides rare words: "1 @,@ 000 <unk>"."""
    for mark in ",.-":
        line = line.replace(f" @{mark}@ ", mark)
    return line.replace("<unk>", " ")


def _open(path: Path) -> io.TextIOBase:
    if not path.is_file():
        raise _missing(path)
    if path.suffix == ".gz":
        return cast(io.TextIOBase, gzip.open(path, "rt", encoding="utf-8", newline="\n"))
    return path.open(encoding="utf-8", newline="\n")


def _missing(path: Path) -> InvalidInput:
    return InvalidInput(
        f"no text at {path}",
        fix="name a folder with treebanks (*.conllu) or texts (*.txt) with --data",
        subject="data",
    )
