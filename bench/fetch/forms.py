"""Converters from published forms of data sets to the form that the benches read.

A converter takes the fetched bytes, and returns the bytes of a file in the data folder before
gzip. The forms are TSV with a header line and no quoting, JSON lines, and unchanged CoNLL-U.
"""

from __future__ import annotations

import csv
import io
import json
import random
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Final

from sottovoce.core.errors import DataLoss

__all__ = [
    "Form",
    "as_published",
    "cola",
    "drawn",
    "entities",
    "glue",
    "paraphrases",
    "reviews",
    "trec",
    "turns",
]

Form = Callable[[bytes], bytes]


def as_published(data: bytes) -> bytes:
    """Return CoNLL-U unchanged; refuse other data."""
    if not any(line.startswith(b"1\t") for line in data.splitlines()[:200]):
        raise _other("CoNLL-U")
    return data


def trec(data: bytes) -> bytes:
    """Convert lines "LABEL:fine question" in Latin-1."""
    rows = []
    for line in data.decode("latin-1").split("\n"):
        if line.strip():
            fine, _, question = line.strip().partition(" ")
            label, colon, _ = fine.partition(":")
            if not (colon and question):
                raise _other("TREC")
            rows.append((question, label, fine))
    return _table(("text", "label", "fine_label"), rows)


def cola(name: str) -> Form:
    """Convert the file ``name`` of a zip: source, label, author's mark, sentence; no header."""

    def form(data: bytes) -> bytes:
        rows = [line.split("\t") for line in _member(data, name).split("\n") if line]
        if any(len(row) != _COLA for row in rows):
            raise _other("CoLA")
        return _table(("text", "label", "source"), [(row[3], row[1], row[0]) for row in rows])

    return form


def glue(name: str, columns: Sequence[str], header: Sequence[str]) -> Form:
    """Convert ``columns`` of the TSV ``name`` in a zip, renamed as in ``header``."""

    def form(data: bytes) -> bytes:
        first, *lines = _member(data, name).split("\n")
        known = first.rstrip("\r").split("\t")
        if not set(columns) <= set(known):
            raise _other(name)
        places = [known.index(column) for column in columns]
        rows = [line.rstrip("\r").split("\t") for line in lines if line.strip()]
        if any(len(row) != len(known) for row in rows):
            raise _other(name)
        return _table(header, [[row[place].strip() for place in places] for row in rows])

    return form


def paraphrases(data: bytes) -> bytes:
    """Convert MRPC: quality, two numbers, two sentences; a header, and no quoting."""
    try:
        lines = data.decode("utf-8-sig").splitlines()[1:]
    except UnicodeDecodeError as error:
        raise _other("MRPC") from error
    rows = [line.split("\t") for line in lines if line]
    if not rows or any(len(row) != _MRPC or row[0] not in ("0", "1") for row in rows):
        raise _other("MRPC")
    return _table(("text_a", "text_b", "label"), [(row[3], row[4], row[0]) for row in rows])


def drawn(name: str, each: int, seed: int, classes: Sequence[str] = ()) -> Form:
    """Draw random rows from the CSV ``name`` (class, title, text) in a tar.gz.

    Args:
        name: the file in the archive.
        each: rows of each class.
        seed: the same seed gives the same rows.
        classes: their names, from class 1. Without names, the numbers are kept, and the text is
            written in small letters.
    """

    def form(data: bytes) -> bytes:
        found: dict[str, list[str]] = {}
        for row in csv.reader(io.StringIO(_packed(data, name), newline="")):
            if len(row) != _CSV or not row[0].isdigit():
                raise _other(name)
            found.setdefault(row[0], []).append(" ".join(row[2].split()))
        if any(len(texts) < each for texts in found.values()) or not found:
            raise _other(name)
        chance = random.Random(seed)
        rows = [
            (text, classes[int(label) - 1]) if classes else (text.lower(), label)
            for label in sorted(found, key=int)
            for text in chance.sample(found[label], each)
        ]
        chance.shuffle(rows)
        return _table(("text", "label"), rows)

    return form


def reviews(folds: range) -> Form:
    """Convert the reviews with a number in ``folds``, from NLTK's zip of film reviews."""

    def form(data: bytes) -> bytes:
        rows = []
        for label, opinion in enumerate(("neg", "pos")):
            for name in sorted(_names(data)):
                _, found, number = name.rpartition(f"/{opinion}/cv")
                if found and int(number[:3]) in folds:
                    rows.append((" ".join(_member(data, name).split()), str(label), number[:3]))
        if not rows:
            raise _other("film reviews")
        return _table(("text", "label", "cv"), rows)

    return form


def turns(prefix: str) -> Form:
    """Convert JSON lines of prompts, with one text as ``prompt`` or several as ``turns``."""

    def form(data: bytes) -> bytes:
        made = []
        try:
            for number, line in enumerate(_read(data).splitlines()):
                row = json.loads(line)
                said = row["turns"] if "turns" in row else [row["prompt"]]
                row = {"id": f"{prefix}-{number}", "turns": said}
                made.append(json.dumps(row, ensure_ascii=False))
        except (ValueError, KeyError, TypeError) as error:
            raise _other("prompts") from error
        if not made:
            raise _other("prompts")
        return "".join(f"{line}\n" for line in made).encode()

    return form


def entities(token: int, tag: int, start: int = 0) -> Form:
    """Convert blocks of lines with a token and its IOB2 label in the given columns.

    Comments begin with "# ". Blocks before number ``start`` are left out.
    """

    def form(data: bytes) -> bytes:
        made: list[str] = []
        for filled, block in groupby(_read(data).split("\n"), lambda line: bool(line.strip())):
            lines = [line for line in block if "\t" in line and not line.startswith("# ")]
            rows = [line.rstrip("\r").split("\t") for line in lines]
            if not filled or not rows:
                continue
            if any(len(row) <= max(token, tag) for row in rows):
                raise _other("entities")
            labels = [_label(row[tag]) for row in rows]
            made.append(
                json.dumps(
                    {"tokens": [row[token] for row in rows], "ner_tags": labels}, ensure_ascii=False
                )
            )
        if not made[start:]:
            raise _other("entities")
        return "".join(f"{line}\n" for line in made[start:]).encode()

    return form


_COLA: Final = 4
_MRPC: Final = 5
_CSV: Final = 3
_NO_NAME: Final = ("OTH", "O")
"""Labels without an entity: Universal NER's "OTH", absent from our files, and a slip: "B-O"."""


def _label(label: str) -> str:
    if label != "O" and label[:2] not in ("B-", "I-"):
        raise _other("entities")
    return "O" if label[2:] in _NO_NAME else label


def _read(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _other("entities") from error


def _names(data: bytes) -> list[str]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return archive.namelist()
    except zipfile.BadZipFile as error:
        raise _other("zip file") from error


def _packed(data: bytes, name: str) -> str:
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
            file = archive.extractfile(name)
            return file.read().decode("utf-8") if file else ""
    except (KeyError, ValueError, OSError, EOFError, tarfile.TarError) as error:
        raise _other(name) from error


def _member(data: bytes, name: str) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return archive.read(name).decode("utf-8")
    except (KeyError, ValueError, zipfile.BadZipFile) as error:
        raise _other(name) from error


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    return "".join("\t".join(row) + "\n" for row in (header, *rows)).encode()


def _other(what: str) -> DataLoss:
    return DataLoss(
        f"what came is no {what}", fix="look what its makers publish there now", subject="form"
    )
