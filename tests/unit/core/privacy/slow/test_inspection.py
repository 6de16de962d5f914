"""Classes that hide nothing and readings that let words pass are refused, though hashes fit."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import BundleMismatch
from sottovoce.core.privacy import inspection
from sottovoce.core.privacy.inspection import FEWEST, check_classes, check_readings, inspect
from sottovoce.core.text.frequencies import PublicCounts
from sottovoce.core.text.word_classes import READINGS
from tests.support.tampering import change_array, change_manifest


@pytest.fixture(scope="module")
def counts() -> PublicCounts:
    found = PublicCounts.shipped("en")
    assert found is not None
    return found


def _copy(bundle: Bundle, **changes: object) -> Bundle:
    """The same bundle with another manifest."""
    return Bundle(bundle.folder, replace(bundle.manifest, **changes), bundle.id)  # type: ignore[arg-type]


def _reading(bundle: Bundle, words: NDArray[np.bool_] | list[int], reading: str) -> Bundle:
    """The same bundle, in which some words read otherwise."""
    changed = _copy(bundle)
    changed.readings = np.array(bundle.readings)
    changed.readings[words] = READINGS.index(reading)
    return changed


def test_the_built_bundle_is_what_it_claims(bundle: Bundle, counts: PublicCounts) -> None:
    check_classes(bundle)
    check_readings(bundle, counts)
    assert len(inspect(bundle, "en")) > 20


def test_every_part_is_asked(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    for name in ("check_classes", "check_readings", "measure"):
        monkeypatch.setattr(inspection, name, lambda *_, name=name: asked.append(name) or iter(()))
    inspect(bundle, "en")
    assert asked == ["check_classes", "check_readings", "measure"]


def test_another_language_is_refused_and_one_without_counts_not_measured(
    bundle: Bundle,
) -> None:
    with pytest.raises(BundleMismatch, match="for language 'en', not 'de'") as caught:
        inspect(bundle, "de")
    assert "bundle.language" in caught.value.fix
    with pytest.raises(BundleMismatch, match="no word lists") as unknown:
        inspect(_copy(bundle, language="de"), "de")
    assert "bundle.accept_unchecked" in unknown.value.fix
    assert inspect(_copy(bundle, language="de"), "de", accept_unchecked=True) == ()


@pytest.mark.parametrize("name", ["*", "=ORIGIN"])
def test_a_class_too_small_is_refused(bundle: Bundle, name: str) -> None:
    small = replace(bundle.manifest.classes[name], words=FEWEST - 1)
    with pytest.raises(BundleMismatch, match=f"has {FEWEST - 1} words"):
        check_classes(_copy(bundle, classes=bundle.manifest.classes | {name: small}))


def test_a_class_in_one_place_is_refused(bundle: Bundle, tmp_path: Path) -> None:
    """With all words in one point, every noisy point is nearest to the first word."""
    folder = Path(shutil.copytree(bundle.folder, tmp_path / "bundle"))
    found = bundle.manifest.classes["=FACT"]
    members = bundle.class_members("=FACT")

    def collapse(rows: NDArray[np.float32]) -> NDArray[np.float32]:
        rows[found.offset : found.offset + found.words] = rows[0]
        rows[members] = rows[0]
        return rows

    change_array(folder, "rows.npy", collapse)
    with pytest.raises(BundleMismatch, match="=FACT has 755 words in 1 places"):
        check_classes(Bundle.open(folder))


def test_a_class_of_other_words_than_read_so_is_refused(bundle: Bundle) -> None:
    place = bundle.word_ids["house"]
    with pytest.raises(BundleMismatch, match="=NOUN lists other words"):
        check_classes(_reading(bundle, [place], "VERB"))


@pytest.mark.parametrize(
    ("word", "reading"),
    [("pregnant", "ADJ"), ("muslim", "FACT"), ("bankrupt", "GRAMMAR"), ("fifteen", "NOUN")],
)
def test_a_listed_word_that_hides_less_is_refused(
    bundle: Bundle, counts: PublicCounts, word: str, reading: str
) -> None:
    changed = _reading(bundle, [bundle.word_ids[word]], reading)
    with pytest.raises(BundleMismatch, match="public lists give as"):
        check_readings(changed, counts)


def test_a_listed_word_may_hide_more(bundle: Bundle, counts: PublicCounts) -> None:
    check_readings(_reading(bundle, [bundle.word_ids["pregnant"]], "NAME"), counts)


@pytest.mark.parametrize(("own", "other"), [("NAME", "NOUN"), ("NOUN", "REFERENCE")])
def test_readings_that_let_running_text_pass_are_refused(
    bundle: Bundle, counts: PublicCounts, own: str, other: str
) -> None:
    which = np.array(bundle.readings == READINGS.index(own))
    with pytest.raises(BundleMismatch, match=f"counts read as {own}"):
        check_readings(_reading(bundle, which, other), counts)


def test_rare_names_among_the_pronouns_are_refused(bundle: Bundle, counts: PublicCounts) -> None:
    known = set(counts.words)
    names = np.flatnonzero(bundle.readings == READINGS.index("NAME"))
    rare = [int(name) for name in names if bundle.words[name] not in known][:40]
    with pytest.raises(BundleMismatch, match="are known as none"):
        check_readings(_reading(bundle, rare, "REFERENCE"), counts)


def test_words_declared_clitics_are_refused(bundle: Bundle, counts: PublicCounts) -> None:
    which = np.array(bundle.readings == READINGS.index("VERB"))
    verbs = tuple(bundle.words[place] for place in np.flatnonzero(which))
    declared = _copy(bundle, clitics=(*bundle.manifest.clitics, *verbs))
    declared.readings = _reading(bundle, which, "CLITIC").readings
    with pytest.raises(BundleMismatch, match="counts read as VERB"):
        check_readings(declared, counts)


def test_tampering_that_mends_every_hash_is_found_from_the_files(
    bundle: Bundle, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(bundle.folder, tmp_path / "bundle"))
    place = bundle.word_ids["diabetes"]

    def let_pass(readings: NDArray[np.uint8]) -> NDArray[np.uint8]:
        readings[place] = READINGS.index("GRAMMAR")
        return readings

    change_array(folder, "readings.npy", let_pass)
    with pytest.raises(BundleMismatch, match="lists other words than those that read so"):
        inspect(Bundle.open(folder), "en")

    def regroup(manifest: dict[str, dict[str, object]]) -> None:
        del manifest["classes"]["=FACT"], manifest["classes"]["=CLOSED"]

    change_manifest(folder, regroup)
    with pytest.raises(BundleMismatch, match="as FACT reads as GRAMMAR"):
        inspect(Bundle.open(folder), "en")
