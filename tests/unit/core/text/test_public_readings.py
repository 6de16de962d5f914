"""The device's own readings of public words."""

from __future__ import annotations

import gzip

import pytest

from sottovoce.core.text.public_readings import PublicReadings
from sottovoce.core.text.word_classes import READINGS, UNLISTED


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
