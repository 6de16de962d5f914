"""No bundle makes the treatment of a word lighter than the device's own lists."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import BundleMismatch
from sottovoce.core.privacy import trust
from sottovoce.core.privacy.policies import POLICIES, PrivacyLimits, Setting, Treatment
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.trust import TrustedWords, open_finder
from sottovoce.core.text.word_classes import READINGS, UNLISTED
from tests.support.tampering import change_finder, change_manifest, change_tokenizer, plant

KINDS = (*READINGS, UNLISTED)

PRONOUNS = {
    "whoever": "zelenka",
    "theirs": "okonjo",
    "unto": "vasquelle",
    "oneself": "thornby",
    "whichever": "mirzoyan",
    "albeit": "adeyinka",
    "amid": "kowalenko",
    "minus": "haddadi",
    "thy": "szymura",
    "ours": "brannock",
    "amongst": "petrossa",
}
NOUNS = {"algae": "marchetta", "airlift": "quillfeather"}


@pytest.fixture
def folder(bundle: Bundle, tmp_path: Path) -> Path:
    """A copy of the real bundle, to be tampered with."""
    return Path(shutil.copytree(bundle.folder, tmp_path / "bundle"))


def _treatments(privatizer: Privatizer, text: str, policy: str, mechanism: str) -> list[Treatment]:
    release = privatizer.release(text, Setting("light", mechanism, policy))
    return [word.treatment for word in release.words]


def test_of_the_built_bundle_nothing_changes(bundle: Bundle) -> None:
    trusted = TrustedWords.of(bundle)
    assert trusted.changed == 0
    assert np.array_equal(trusted.readings, bundle.readings)
    assert trusted.clitics == bundle.manifest.clitics
    assert open_finder(bundle) is not None


def test_a_list_that_is_read_in_parts_has_the_same_readings(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "_OF_A_PART", 5_000)
    trusted = TrustedWords.of(bundle)
    assert trusted.changed == 0
    assert np.array_equal(trusted.readings, bundle.readings)


def test_names_planted_among_the_words_are_drawn(folder: Path) -> None:
    plant(folder, PRONOUNS | NOUNS)
    allowing = PrivacyLimits(least_policy="personal")
    privatizer = Privatizer.of(Bundle.open(folder), floors=allowing)
    text = " ".join((*PRONOUNS.values(), *NOUNS.values()))
    for policy, mechanism in product(POLICIES, ("pct2t.v2", "pct2t.v1", "t2t.v1")):
        found = set(_treatments(privatizer, text, policy, mechanism))
        assert found == {Treatment.DRAW}, (policy, mechanism)


def test_words_of_longer_lists_are_read_by_the_second_list(folder: Path) -> None:
    """Only bundles with more words than the default have them."""
    plant(folder, {"algae": "dishwasher", "airlift": "quillfeather", "whoever": "dishwashers"})
    bundle = Bundle.open(folder)
    trusted = TrustedWords.of(bundle)
    found = {
        word: KINDS[trusted.readings[bundle.word_ids[word]]]
        for word in ("dishwasher", "quillfeather", "dishwashers")
    }
    # "dishwashers" stands in for a pronoun here, and passes no more than a noun does.
    assert found == {"dishwasher": "NOUN", "quillfeather": UNLISTED, "dishwashers": "NOUN"}
    assert trusted.changed == 2


def test_a_surname_planted_as_an_ending_stays_whole_and_is_drawn(folder: Path) -> None:
    plant(folder, {"'m": "'hara"})

    def declare(manifest: dict[str, list[str]]) -> None:
        manifest["clitics"] = ["'hara" if each == "'m" else each for each in manifest["clitics"]]

    change_manifest(folder, declare)
    release = Privatizer.of(Bundle.open(folder)).release("I saw O'Hara", Setting("strong"))
    assert "hara" not in release.text.lower()


@settings(max_examples=20)
@given(data=st.data())
def test_no_reading_of_a_listed_word_makes_its_treatment_lighter(
    bundle: Bundle, data: st.DataObject
) -> None:
    seed = data.draw(st.integers(0, 2**32 - 1))
    tampered = Bundle(bundle.folder, bundle.manifest, bundle.id)
    tampered.readings = np.random.default_rng(seed).integers(
        len(READINGS), size=len(bundle.readings), dtype=np.uint8
    )
    trusted = TrustedWords.of(tampered).readings
    assert _lighter_words(bundle.readings, trusted) == 0


def _lighter_words(own: NDArray[np.uint8], trusted: NDArray[np.uint8]) -> int:
    """How many words some policy treats more lightly."""
    lighter = np.zeros(len(own), np.bool_)
    for policy in POLICIES.values():
        table = np.array([policy.table[kind] for kind in KINDS])
        lighter |= table[trusted] < table[own]
    return int(lighter.sum())


def test_without_a_list_of_the_language_all_is_drawn_unless_the_owner_accepts(
    bundle: Bundle,
) -> None:
    other = Bundle(bundle.folder, replace(bundle.manifest, language="de"), bundle.id)
    privatizer = Privatizer.of(other)
    treatments = _treatments(privatizer, "we went to the river", "names", "pct2t.v2")
    assert set(treatments) == {Treatment.DRAW}
    accepted = Privatizer.of(other, accept_unchecked=True)
    treatments = _treatments(accepted, "we went to the river", "names", "pct2t.v2")
    assert set(treatments) == {Treatment.PASS}


def test_an_unchecked_finder_is_not_used_unless_the_owner_accepts(bundle: Bundle) -> None:
    other = Bundle(bundle.folder, replace(bundle.manifest, language="de"), bundle.id)
    assert open_finder(other) is None
    assert open_finder(other, accept_unchecked=True) is not None


def _never_a_name(bias: NDArray[np.float32]) -> NDArray[np.float32]:
    bias[0] += 20
    return bias


def _rarely_a_name(bias: NDArray[np.float32]) -> NDArray[np.float32]:
    bias[0] += 3
    return bias


def _no_number(bias: NDArray[np.float32]) -> NDArray[np.float32]:
    bias[0] = np.nan
    return bias


@pytest.mark.parametrize("change", [_never_a_name, _rarely_a_name])
def test_a_finder_with_one_changed_bias_is_refused(
    folder: Path, change: Callable[[NDArray[np.float32]], NDArray[np.float32]]
) -> None:
    change_finder(folder, "out.bias", change)
    with pytest.raises(BundleMismatch, match="its name finder misses"):
        Privatizer.of(Bundle.open(folder))


def test_scores_that_are_no_numbers_are_names(folder: Path) -> None:
    change_finder(folder, "out.bias", _no_number)
    release = Privatizer.of(Bundle.open(folder)).release(
        "we saw a river", Setting("strong", policy="names")
    )
    assert {word.treatment for word in release.words if word.start > 5} == {Treatment.DRAW}


@pytest.mark.parametrize(("kind", "name"), [(1, "person"), (2, "place"), (3, "organisation")])
def test_a_finder_blind_to_one_kind_of_name_is_refused(folder: Path, kind: int, name: str) -> None:
    """No word scores higher as that kind than as no name."""

    def like_the_kind(columns: NDArray[np.float32]) -> NDArray[np.float32]:
        columns[..., 0] = columns[..., kind]
        return columns

    def above_the_kind(bias: NDArray[np.float32]) -> NDArray[np.float32]:
        bias[0] = bias[kind] + 5
        return bias

    for weight in ("out.whole", "out.scale"):
        change_finder(folder, weight, like_the_kind)
    change_finder(folder, "out.bias", above_the_kind)
    with pytest.raises(BundleMismatch, match=r"its name finder misses"):
        Privatizer.of(Bundle.open(folder))


@pytest.mark.parametrize(
    "normalizer",
    [
        {"type": "Replace", "pattern": {"String": "élena"}, "content": "bottle"},
        {"type": "Replace", "pattern": {"Regex": "elen."}, "content": "bottle"},
        {"type": "Prepend", "prepend": "bot"},
    ],
)
def test_a_tokenizer_that_rewrites_words_is_refused(
    folder: Path, normalizer: dict[str, object]
) -> None:
    def rewrite(told: dict[str, object]) -> None:
        told["normalizer"] = {"type": "Sequence", "normalizers": [told["normalizer"], normalizer]}

    change_tokenizer(folder, rewrite)
    with pytest.raises(BundleMismatch, match=r"tokenizer\.json rewrites words"):
        Privatizer.of(Bundle.open(folder))
