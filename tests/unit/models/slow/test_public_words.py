"""The repository's lists make the shipped vocabulary."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.phrases import PHRASES_FILE
from sottovoce.core.text.vocabulary import pack
from sottovoce.models import public_phrases
from sottovoce.models.public_words import build
from tests.support.paths import ROOT

_SHIPPED = ROOT / "core" / "sottovoce" / "core" / "text"
_LISTS = ROOT / "models" / "vocabulary"


def test_a_build_gives_the_bytes_that_ship() -> None:
    assert pack(build(_LISTS)) == (_SHIPPED / "vocabulary.en.bin").read_bytes()
    assert pack(public_phrases.build(_LISTS)) == (_SHIPPED / PHRASES_FILE).read_bytes()


def test_a_missing_list_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"english\.txt\.gz"):
        build(tmp_path)
