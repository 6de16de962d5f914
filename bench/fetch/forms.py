"""From the form in which a data set is published to that which the benches read.

A converter takes the bytes that were fetched and gives those of a file of the data folder, before
gzip: TSV with a header line and no quoting, JSON lines, or CoNLL-U as it is.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Final

from sottovoce.core.errors import DataLoss

__all__ = ["Form", "as_published", "cola", "entities", "glue", "trec"]

Form = Callable[[bytes], bytes]


def as_published(data: bytes) -> bytes:
    """CoNLL-U; what is none is refused."""
    if not any(line.startswith(b"1\t") for line in data.splitlines()[:200]):
        raise _other("CoNLL-U")
    return data


def trec(data: bytes) -> bytes:
    """Lines "LABEL:fine question", in Latin-1."""
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
    """Of a zip, the file ``name``: source, label, the author's mark, sentence; no header."""

    def form(data: bytes) -> bytes:
        rows = [line.split("\t") for line in _member(data, name).split("\n") if line]
        if any(len(row) != _COLA for row in rows):
            raise _other("CoLA")
        return _table(("text", "label", "source"), [(row[3], row[1], row[0]) for row in rows])

    return form


def glue(name: str, columns: Sequence[str], header: Sequence[str]) -> Form:
    """Of a zip, the columns of the TSV ``name``, called as in ``header``."""

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


def entities(token: int, tag: int) -> Form:
    """Blocks of lines with a token and its label in IOB2 in those columns; remarks begin "# "."""

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
        if not made:
            raise _other("entities")
        return "".join(f"{line}\n" for line in made).encode()

    return form


_COLA: Final = 4
_NO_NAME: Final = ("OTH",)
"""Universal NER's rest, which the folder's files do not have."""


def _label(label: str) -> str:
    if label != "O" and label[:2] not in ("B-", "I-"):
        raise _other("entities")
    return "O" if label[2:] in _NO_NAME else label


def _read(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _other("entities") from error


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
