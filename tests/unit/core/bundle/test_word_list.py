"""The word list reads as a list and a dictionary would."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.bundle.word_list import WordIds, WordList

lines = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("words") / "words.txt"


@given(words=st.lists(lines, min_size=1, unique=True), other=lines)
def test_it_is_the_list_that_was_written(path: Path, words: list[str], other: str) -> None:
    path.unlink(missing_ok=True)  # a mapped file must not be written over
    path.write_bytes("".join(f"{word}\n" for word in words).encode())
    found = WordList(path)
    ids = WordIds(found)
    assert list(found) == words
    assert len(found) == len(ids) == len(words)
    assert [found[-1], found[0], found[1:3]] == [words[-1], words[0], words[1:3]]
    assert found.take(range(len(words))) == words
    assert [ids[word] for word in words] == list(range(len(words)))
    assert ids.of([*words, other, *words]).tolist() == [
        *range(len(words)),
        words.index(other) if other in words else -1,
        *range(len(words)),
    ]
    assert ids.get(other) == (words.index(other) if other in words else None)
    assert (other in ids) == (other in words)


def test_places_beyond_the_ends_and_unknown_words(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.write_text("eins\nzwei\neins\n")
    words = WordList(path)
    ids = WordIds(words)
    for place in (3, -4):
        with pytest.raises(IndexError):
            words[place]
    with pytest.raises(KeyError):
        ids["drei"]
    assert ids["eins"] == 0  # the first
    assert ids.of(["eins", "drei", "zwei"]).tolist() == [0, -1, 1]
    assert np.isin(words, ["zwei"]).tolist() == [False, True, False]
