"""The counts that ship with the device."""

from __future__ import annotations

import gzip
from collections import Counter
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from sottovoce.core.errors import DataLoss
from sottovoce.core.text import frequencies
from sottovoce.core.text.frequencies import PublicCounts, PublicReadings, commonest, normal_form
from sottovoce.core.text.tagger import UPOS
from sottovoce.core.text.word_classes import READINGS, UNLISTED


@pytest.fixture(scope="module")
def english() -> PublicCounts:
    found = PublicCounts.shipped("en")
    assert found is not None
    return found


def test_it_is_small_and_says_what_words_are(english: PublicCounts) -> None:
    file = resources.files("sottovoce.core.text") / "counts.en.tsv.gz"
    assert len(file.read_bytes()) < 70_000
    assert len(set(english.words)) > 7_000
    where = {(w, t): n for w, t, n in zip(english.words, english.tags, english.counts, strict=True)}
    assert where["the", UPOS.index("DET")] > 100_000
    assert where["house", UPOS.index("NOUN")] > where["house", UPOS.index("VERB")]
    assert english.clitics[english.words.index("n't")]
    assert english.language == "en"
    assert 1 < english.tail < 30
    kinds = {"FACT", "ORIGIN", "NUMBER", "REFERENCE"}
    assert set(english.listed.values()) == kinds < set(READINGS)
    assert english.listed["pregnant"] == "FACT"
    assert english.listed["muslim"] == "ORIGIN"
    assert english.listed["how"] == "REFERENCE"


def test_it_survives_the_file(english: PublicCounts) -> None:
    packed = english.pack()
    again = PublicCounts.unpack(packed)
    assert again.pack() == packed
    assert (again.words, again.tail, again.listed) == (english.words, english.tail, english.listed)
    np.testing.assert_array_equal(again.clitics, english.clitics)
    np.testing.assert_array_equal(again.counts, english.counts)
    np.testing.assert_array_equal(again.tags, english.tags)


@pytest.mark.parametrize("language", ["de", "", "../en", "en.tsv"])
def test_no_other_language_ships(language: str) -> None:
    assert PublicCounts.shipped(language) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no gzip",
        gzip.compress(b""),
        gzip.compress(b'{"format": "device-counts.v9"}'),
        gzip.compress(b'{"format": "device-counts.v1"}'),
        gzip.compress(b'{"format": "device-counts.v1"}\nword\t0\tNOUN'),
    ],
    ids=["empty", "no gzip", "nothing in it", "another format", "no words", "no count"],
)
def test_a_damaged_table_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    (tmp_path / "counts.en.tsv.gz").write_bytes(data)
    monkeypatch.setattr(frequencies.resources, "files", lambda _: tmp_path)
    with pytest.raises(DataLoss, match="word counts"):
        PublicCounts.shipped("en")


def test_normal_forms_drop_what_the_language_drops() -> None:
    assert normal_form("Naïve’s", accents=False) == "naive's"
    assert normal_form("Na\u0131\u0308ve", accents=True) != "naive"
    assert normal_form("STRASSE", accents=True) == "strasse"


def test_the_commonest_words_are_read_without_the_table() -> None:
    found = commonest("en", 200)
    assert len(found) == 200
    assert {"the", "people", "said", "one"} <= found
    assert not {"patient", "anna"} & found
    table = PublicCounts.shipped("en")
    assert table is not None
    counts: Counter[str] = Counter()
    for word, count in zip(table.words, table.counts, strict=True):
        counts[word] += int(count)
    least = min(counts[word] for word in found)
    assert max(count for word, count in counts.items() if word not in found) <= least
    assert commonest("xx", 200) == commonest("../en", 200) == frozenset()


def _shipped() -> PublicReadings:
    found = PublicReadings.shipped("en")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("word", "reading"),
    [
        ("house", "NOUN"),
        ("House", "NOUN"),
        ("whoever", "REFERENCE"),
        ("the", "GRAMMAR"),
        ("pregnant", "FACT"),
        ("n’t", "CLITIC"),
        ("anna", UNLISTED),  # a name, which is drawn as well
        ("qzx", UNLISTED),
        ("", UNLISTED),
    ],
)
def test_words_read_as_public_text_has_them(word: str, reading: str) -> None:
    (found,) = _shipped().of([word])
    assert (*READINGS, UNLISTED)[found] == reading


def test_the_endings_are_the_languages() -> None:
    assert _shipped().clitics == {"n't", "'s", "'ll", "'re", "'ve", "'d", "'m"}


@pytest.mark.parametrize("language", ["de", "", "../en", "en.tsv"])
def test_there_is_none_for_other_languages(language: str) -> None:
    assert PublicReadings.shipped(language) is None


def test_what_is_packed_is_unpacked() -> None:
    found = PublicReadings("xx", True, {"NOUN": "haus tür", "CLITIC": ""})
    again = PublicReadings.unpack(found.pack())
    assert again == found
    assert again.clitics == frozenset()
    assert again.of(["Tür", "tur"]).tolist() == [READINGS.index("NOUN"), len(READINGS)]


@pytest.mark.parametrize(
    "data",
    [b"", b"x", gzip.compress(b""), gzip.compress(b'{"format": "device-readings.v9"}')],
    ids=["empty", "no archive", "nothing packed", "an unknown format"],
)
def test_damage_is_told(data: bytes) -> None:
    with pytest.raises((OSError, EOFError, ValueError, KeyError, TypeError)):
        PublicReadings.unpack(data)
