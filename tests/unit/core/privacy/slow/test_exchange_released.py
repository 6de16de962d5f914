"""The promise on bytes: under one key and session an exchanged word changes no third word.

In texts of three sentences one word is exchanged as in `test_exchange`. Its own release may change,
and the next word's, because both words draw that noise. All else must stay to the byte. Keys are
fixed and sentences seeded. So a failure is a breach, or two names with one surrogate (one in some
hundred pairs).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.release import Release, WordRelease
from sottovoce.core.text.words import split
from tests.unit.core.privacy.slow.test_exchange import Exchanges

TRIALS = 120
KEY = Key(bytes(range(32)))
AROUND = ("Anna Marsh of Leeds has five of them.", "Call 555-0142, or write to Rich Young!")


def pieces(release: Release) -> list[str]:
    """Released words at odd places, and what stands between them at even ones."""
    found, done = [], 0
    for word in release.each_word():
        found += [
            release.text[done : word.released_start],
            release.text[word.released_start : word.released_end],
        ]
        done = word.released_end
    return [*found, release.text[done:]]


def next_word(text: str, words: Sequence[WordRelease], place: int) -> int:
    """The next that is no mark: marks do not come between a word and its noise."""
    return next(
        (
            other
            for other in range(place + 1, len(words))
            if any(map(str.isalnum, text[words[other].start : words[other].end]))
        ),
        place,
    )


@pytest.mark.parametrize("policy", ["names", "content", "all"])
def test_what_is_released_of_all_other_words_stays_to_the_byte(
    bundle: Bundle, privatizer: Privatizer, policy: str
) -> None:
    setting = Setting("balanced", "pct2t.v2", policy)
    compared, following, changed = 0, 0, []
    first = sum(len(split(each, bundle.manifest.clitics)) for each in AROUND)
    for text, other, place in islice(Exchanges(bundle), TRIALS):
        one, two = (
            privatizer.release(" ".join((*AROUND, each, *AROUND)), setting, key=KEY, session="s")
            for each in (text, other)
        )
        at = first + place
        before, after = one.words, two.words
        if (before[at].treatment, before[at].tag) != (after[at].treatment, after[at].tag):
            continue  # the finder takes one of them for a name, so they are not of one class
        following_at = next_word(one.document, before, at)
        differ = {
            n for n, (a, b) in enumerate(zip(pieces(one), pieces(two), strict=True)) if a != b
        }
        if differ - {2 * at + 1, 2 * following_at + 1}:
            changed.append((text, other))
        compared += 1
        following += following_at != at and 2 * following_at + 1 in differ
    assert changed == []
    assert compared > 0.8 * TRIALS
    assert (following > 0) == (policy != "names")  # of noise there: to see that bytes are compared
