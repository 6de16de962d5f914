"""Texts are found by what they are called, and read as their sources wrote them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from sottovoce.core.errors import InvalidInput
from sottovoce.models.corpus import sources

TREE = "1\tHaus\t_\tNOUN\t_\t_\t_\t_\t_\t_\n\n"


def test_any_folder_with_treebanks_and_texts_will_do(tmp_path: Path) -> None:
    (tmp_path / "news").mkdir()
    (tmp_path / "a.conllu").write_text(TREE, encoding="utf-8")
    (tmp_path / "news" / "b.conllu.gz").write_bytes(gzip.compress(TREE.encode()))
    (tmp_path / "c.txt").write_text("Ein Absatz.\n\n  Noch einer. \n", encoding="utf-8")
    (tmp_path / "news" / "d.txt.gz").write_bytes(gzip.compress("Schön.\n".encode()))
    (tmp_path / "notes.md").write_text("not read", encoding="utf-8")

    found = sources.find(tmp_path)

    assert list(found.treebanks) == ["a", "news/b"]
    assert list(found.texts) == ["c", "news/d"]
    for read in found.treebanks.values():
        assert [sentence.words for sentence in read()] == [("Haus",)]
    assert found.texts["c"]() == ["Ein Absatz.", "Noch einer."]
    assert found.texts["news/d"]() == ["Schön."]


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--data"):
        sources.find(tmp_path)


def test_a_missing_part_of_the_shipped_tables_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "ud_ewt").mkdir()
    found = sources.find(tmp_path)
    assert len(found.treebanks) == 2
    with pytest.raises(InvalidInput, match="us-presidential"):
        found.texts["us-presidential"]()
