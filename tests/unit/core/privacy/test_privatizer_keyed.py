"""Releases under a key: the same words draw the same noise, wherever they stand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy import decisions
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import Setting, Treatment
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.release import Release

KEY = Key(bytes(range(32)))
STRONG = Setting("strong")
SENTENCE = "The doctor was in the garden by the pond with a letter and a lamp"
MANY = "letter river garden pond house doctor clinic cough fever lamp window carpet tree song "


def _released(privatizer: Privatizer, text: str, key: Key = KEY, **more: str) -> Release:
    return privatizer.release(text, STRONG, key=key, **more)


def _outputs(release: Release) -> list[str]:
    return [
        release.text[word.released_start : word.released_end].lower()
        for word in release.words
        if word.protected
    ]


def test_equal_text_gives_equal_bytes(small_privatizer: Privatizer) -> None:
    text = f"{SENTENCE}, AX-99231 and a Zyxglorp"
    assert len({_released(small_privatizer, text).text for _ in range(3)}) == 1
    keys = [Key(bytes([number] * 32)) for number in range(8)]
    assert len({_released(small_privatizer, MANY, key).text for key in keys}) == 8


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", " "),
        ("", "."),
        ("> ", "\n"),
        ("", ", and then the river"),
        ("Quite another sentence. ", "! Good"),
        ("Anna wrote: ", "?"),
    ],
)
def test_a_near_copy_shares_what_it_shares(
    small_privatizer: Privatizer, before: str, after: str
) -> None:
    first = _outputs(_released(small_privatizer, SENTENCE))
    copy = _outputs(_released(small_privatizer, before + SENTENCE + after))
    start = len(_outputs(_released(small_privatizer, before))) if before else 0
    assert copy[start : start + len(first)] == first


def test_case_and_punctuation_within_are_nothing_to_the_noise(small_privatizer: Privatizer) -> None:
    one = _outputs(_released(small_privatizer, "the letter from the doctor by the pond"))
    other = _outputs(_released(small_privatizer, "The Letter (from, the DOCTOR) -- by the pond"))
    assert one == other


def test_an_exchanged_word_redraws_its_own_noise_and_the_next_words(
    small_privatizer: Privatizer,
) -> None:
    words = MANY.split() * 3
    first = _released(small_privatizer, " ".join(words))
    for place in range(1, len(words) - 2):
        changed = [*words]
        changed[place] = "paper" if words[place] != "paper" else "stone"
        second = _released(small_privatizer, " ".join(changed))
        for number, (one, other) in enumerate(zip(first.words, second.words, strict=True)):
            if number != place:  # the new word may be of another class
                assert (one.tag, one.treatment) == (other.tag, other.treatment)
            if number not in (place, place + 1):
                assert _word(first, number) == _word(second, number)


def _word(release: Release, number: int) -> str:
    word = release.words[number]
    return release.text[word.released_start : word.released_end]


def test_the_next_word_is_drawn_afresh_by_the_law_it_had(small_privatizer: Privatizer) -> None:
    """Over 300 keys a word comes back as itself as often after one word as after another: within
    4.9 standard deviations of no difference (alpha = 1e-6), and not at the same keys."""
    kept = np.zeros((2, 300), bool)
    for number in range(300):
        key = Key(number.to_bytes(32, "big"))
        for which, left in enumerate(("garden", "river")):
            kept[which, number] = _outputs(_released(small_privatizer, f"{left} pond", key))[1] == (
                "pond"
            )
    share = kept.mean()
    assert 0.02 < share < 0.98
    difference = abs(kept[0].mean() - kept[1].mean())
    assert difference < 4.9 * np.sqrt(2 * share * (1 - share) / 300)
    assert (kept[0] != kept[1]).any()


def test_windows_leave_no_seam(
    small_privatizer: Privatizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = _released(small_privatizer, MANY * 3)
    monkeypatch.setattr(decisions, "WINDOW", 5)
    assert _released(small_privatizer, MANY * 3) == whole


def test_two_names_of_one_strength_are_one_release(
    small_privatizer: Privatizer, small_bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels = small_bundle.manifest.calibration[STRONG.mechanism]
    monkeypatch.setitem(levels, "twin", levels["strong"])
    monkeypatch.setitem(levels, "near", replace(levels["strong"], eta=4.001))
    strong, twin, near = (
        small_privatizer.release(MANY, Setting(name), key=KEY).text
        for name in ("strong", "twin", "near")
    )
    assert strong == twin != near


def test_an_identifier_is_one_surrogate_in_a_document_or_a_session(
    small_privatizer: Privatizer,
) -> None:
    text = "Order AX-99231-QZ, I said AX-99231-QZ, not AX-99231-QY"
    first, again, other = _identifiers(_released(small_privatizer, text))
    assert first == again != other
    assert first != "AX-99231-QZ"
    elsewhere = _identifiers(_released(small_privatizer, text + " please"))[0]
    assert elsewhere != first
    session = _identifiers(_released(small_privatizer, text, session="s"))[0]
    assert session not in (first, elsewhere)
    for more, session_id in (("", "s"), (" please", "s")):
        found = _identifiers(_released(small_privatizer, text + more, session=session_id))
        assert found[0] == found[1] == session
    assert _identifiers(_released(small_privatizer, text, session=text))[0] != first


def _identifiers(release: Release) -> list[str]:
    return [_word(release, n) for n, word in enumerate(release.words) if word.tag == "IDENTIFIER"]


def test_another_identifier_redraws_no_other_word(small_privatizer: Privatizer) -> None:
    texts = [f"The letter 99231{n} garden was by the pond" for n in range(5)]
    releases = [_released(small_privatizer, text) for text in texts]
    assert len({_word(release, 2) for release in releases}) == 5
    assert len({_word(release, 3) for release in releases}) == 1


def test_another_name_redraws_no_other_word(small_privatizer: Privatizer) -> None:
    """Letters to many people differ in the name: the next word has one draw in all."""
    names = ("Zyxglorp", "Qvarn", "Anna", "Thistlewood", "Obrecht")
    releases = [
        _released(small_privatizer, f"The {name} garden by the {name} river") for name in names
    ]
    treated = [word.treatment for word in releases[0].words]
    assert [place for place, each in enumerate(treated) if each == Treatment.DRAW] == [1, 5]
    assert [place for place, each in enumerate(treated) if each == Treatment.NOISE] == [2, 6]
    for place in (2, 6):
        assert len({_word(release, place) for release in releases}) == 1
