"""What is released is read word by word, and a refusal says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.leaks.released import DRAW, PASS, RefusedError, released

TEXTS = ("Call 555-0199 or write to ann@example.org .", "The kettle , though .")


def test_every_word_has_its_fate(bundle_folder: Path) -> None:
    told = []
    found = released(bundle_folder, TEXTS, "strong", "names", lambda: told.append(1))
    assert len(told) == len(found) == len(TEXTS)
    for text, fates in zip(TEXTS, found, strict=True):
        assert "".join(text[fate.start : fate.end] for fate in fates) == text.replace(" ", "")
    by_word = {TEXTS[0][fate.start : fate.end]: fate for fate in found[0]}
    for identifier in ("555-0199", "ann@example.org"):
        assert by_word[identifier].treatment == DRAW
        assert by_word[identifier].after not in ("", identifier)
    assert by_word["."].treatment == PASS
    assert by_word["."].after == "."


def test_a_level_that_is_none_is_refused_with_what_there_is(bundle_folder: Path) -> None:
    with pytest.raises(RefusedError, match="balanced"):
        released(bundle_folder, TEXTS, "no such level", "names")
