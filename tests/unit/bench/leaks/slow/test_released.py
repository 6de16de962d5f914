"""A release is read word by word, and a command that fails says why."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.leaks.presidio import Presidio
from bench.leaks.released import DRAW, PASS, ReleaseError, release

TEXTS = ("Call 117-4471 or write to ann@example.org .", "The kettle , though .")


def test_every_word_has_its_fate(bundle_folder: Path) -> None:
    told = []
    released = release(bundle_folder, TEXTS, "strong", "names", lambda: told.append(1))
    assert len(told) == len(released) == len(TEXTS)
    for text, fates in zip(TEXTS, released, strict=True):
        assert "".join(text[fate.start : fate.end] for fate in fates) == text.replace(" ", "")
    by_word = {TEXTS[0][fate.start : fate.end]: fate for fate in released[0]}
    for identifier in ("117-4471", "ann@example.org"):
        assert by_word[identifier].treatment == DRAW
        assert by_word[identifier].after not in ("", identifier)
    assert by_word["."].treatment == PASS
    assert by_word["."].after == "."


def test_a_level_that_is_none_is_told(bundle_folder: Path) -> None:
    with pytest.raises(ReleaseError, match="unknown level"):
        release(bundle_folder, TEXTS, "no such level", "names")


def test_where_presidio_is_not_installed_it_is_said_how(tmp_path: Path) -> None:
    presidio = Presidio(Path(sys.executable), "", ("'s",))
    with pytest.raises(ReleaseError, match="pip install presidio-analyzer"):
        presidio.release(TEXTS)


def test_what_presidio_finds_is_gone(tmp_path: Path) -> None:
    stub = tmp_path / "python"  # answers as the worker does
    stub.write_text("#!/bin/sh\necho '[[5, 9]]'\necho '[]'\n", encoding="utf-8")
    stub.chmod(0o755)
    first, second = Presidio(stub, "", ()).release(TEXTS)
    gone = [TEXTS[0][fate.start : fate.end] for fate in first if fate.treatment == DRAW]
    assert gone == ["117-4471"]
    assert all(fate.after == TEXTS[1][fate.start : fate.end] for fate in second)
