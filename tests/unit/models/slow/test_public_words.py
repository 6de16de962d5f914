"""The repository's lists make the shipped vocabulary."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.core.errors import InvalidInput
from sottovoce.core.text.vocabulary import pack
from sottovoce.models.public_words import build
from tests.support.paths import ROOT


def test_a_build_gives_the_bytes_that_ship() -> None:
    shipped = ROOT / "core" / "sottovoce" / "core" / "text" / "vocabulary.en.bin"
    assert pack(build(ROOT / "models" / "vocabulary")) == shipped.read_bytes()


def test_a_missing_list_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"english\.txt\.gz"):
        build(tmp_path)
