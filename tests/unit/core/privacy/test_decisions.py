"""What becomes of a word follows from itself, and from its neighbours' looks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy import decisions
from sottovoce.core.privacy.policies import NAMES, Setting, Treatment
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.text import word_classes
from sottovoce.core.text.names import Found
from sottovoce.core.text.word_classes import READINGS, UNLISTED
from sottovoce.core.text.words import split
from tests.support.small_bundle import found

STRONG = Setting(level="strong")
IN_CONTEXT = Setting("strong", "pct2t.v1")
NOTE = "Anna didn't see the  cold pond; she'll write to Dr. Marsh (a@b.org), 555-0142!\n"


def seeded(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_a_name_is_what_is_found_to_be_one(small_bundle: Bundle) -> None:
    class First:
        """Takes the first word of a text for a place."""

        reach = 2

        def alone(self, words: Sequence[str], ids: NDArray[np.int32]) -> NDArray[np.float32]:
            return np.zeros((len(words), 1), np.float32)

        def among(self, alone: NDArray[np.float32], looks: NDArray[np.uint8]) -> Found:
            self.looks = looks.tolist()
            return found([NAMES.index("PLACE"), *(0 for _ in looks[1:])])

    finder = First()
    privatizer = Privatizer(small_bundle, finder)
    words = privatizer.release("pond house is's, qzx 12", STRONG).words
    assert [word.tag for word in words] == [
        *("PLACE", "NOUN", "GRAMMAR", "CLITIC", "PUNCTUATION", "UNLISTED", "IDENTIFIER")
    ]
    cut = split("pond house is's, qzx 12", small_bundle.manifest.clitics)
    readings = ["NOUN", "NOUN", "GRAMMAR", "CLITIC", "NOUN", UNLISTED, "NOUN"]
    numbers = np.array([(*READINGS, UNLISTED).index(name) for name in readings], np.uint8)
    assert finder.looks == word_classes.looks(cut, numbers).tolist()
    (clitic, _) = privatizer.release("'s pond", STRONG).words
    assert clitic.tag == "CLITIC"  # an ending is no name, wherever it stands


def test_without_a_finder_whatever_has_a_capital_counts_as_a_name(small_bundle: Bundle) -> None:
    words = Privatizer(small_bundle).release("The pond, POND iPhone is'S", STRONG).words
    assert [word.tag for word in words] == [
        *("NAME", "NOUN", "PUNCTUATION", "NAME", "NAME", "GRAMMAR", "CLITIC")
    ]
    assert [word.treatment.name for word in words if word.tag == "NAME"] == ["DRAW"] * 3


@pytest.mark.parametrize("typed", ["naïve", "war\u200bm", "wa\u0301rm", "thé"])
def test_what_passes_is_typed_as_it_is_listed(small_privatizer: Privatizer, typed: str) -> None:
    names = Setting("strong", policy="names")
    (word,) = small_privatizer.release(typed, names).words
    assert word.tag in ("ADJ", "GRAMMAR")  # which the policy lets pass
    assert word.treatment is Treatment.NOISE
    plain = small_privatizer.release("Naive WARM the n’t", names)
    assert not any(word.protected for word in plain.words)


@pytest.mark.parametrize("window", [1, 3, 50])
@pytest.mark.parametrize("setting", [STRONG, IN_CONTEXT])
def test_windows_do_not_cut_what_finder_and_tagger_see(
    privatizer: Privatizer, monkeypatch: pytest.MonkeyPatch, window: int, setting: Setting
) -> None:
    # Narrower than their reach, as wide, and wider.
    text = NOTE * 3
    whole = privatizer.release(text, setting, seeded())
    monkeypatch.setattr(decisions, "WINDOW", window)
    pieces = privatizer.release(text, setting, seeded())
    assert [(w.tag, w.treatment) for w in whole.words] == [
        (w.tag, w.treatment) for w in pieces.words
    ]


@pytest.mark.parametrize("reach", [0, 2])
def test_the_finder_sees_a_window_and_as_far_as_it_looks(
    small_bundle: Bundle, monkeypatch: pytest.MonkeyPatch, reach: int
) -> None:
    class Counting:
        def __init__(self) -> None:
            self.reach = reach
            self.seen: list[int] = []

        def alone(self, words: Sequence[str], ids: NDArray[np.int32]) -> NDArray[np.float32]:
            return np.zeros((len(words), 1), np.float32)

        def among(self, alone: NDArray[np.float32], looks: NDArray[np.uint8]) -> Found:
            self.seen.append(len(alone))
            return found(0 for _ in looks)

    finder = Counting()
    monkeypatch.setattr(decisions, "WINDOW", 7)
    Privatizer(small_bundle, finder).release("pond " * 50, STRONG)
    assert max(finder.seen) == 7 + 2 * reach


@pytest.mark.parametrize("text", ["```", "~~~", "`", "===", "=>", "+=", "<=", "||", "|"])
def test_signs_of_form_pass_and_other_symbols_do_not(
    small_privatizer: Privatizer, text: str
) -> None:
    names = Setting("strong", policy="names")
    (word,) = small_privatizer.release(text, names).words
    assert (word.tag, word.treatment) == ("PUNCTUATION", Treatment.PASS)
    for other in (f"{text}€", "`^~", "\u2603"):
        *_, word = small_privatizer.release(other, names).words
        assert word.treatment is Treatment.DRAW, other
