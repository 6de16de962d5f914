"""Checks a bundle's claims: its classes, readings, levels, tokenizer and name finder.

The provider makes the bundle, and the provider must not learn the text. A device that believed
every bundle could be told that "balanced" is eta a million, or that "pregnant" is a preposition.

The inspection takes seconds, so it runs when a bundle is pulled and when the owner asks
(`sotto doctor`). The checks at every opening are in `sottovoce.core.bundle.folder` and
`sottovoce.core.privacy.trust`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sottovoce.core.bundle.folder import Bundle, unsound
from sottovoce.core.bundle.manifest import ANY
from sottovoce.core.errors import BundleMismatch
from sottovoce.core.privacy.level_verification import Figure, measure
from sottovoce.core.privacy.mechanisms.spherical import OWN, PCT2T2
from sottovoce.core.privacy.running_text import counts_by_tag
from sottovoce.core.privacy.trust import open_finder
from sottovoce.core.text.frequencies import PublicCounts
from sottovoce.core.text.names import NameFinder
from sottovoce.core.text.tagger import UPOS
from sottovoce.core.text.word_classes import BY_TAG, READINGS

__all__ = ["FEWEST", "check_classes", "check_listed", "check_readings", "inspect"]

FEWEST: Final = 100
"""Minimum number of words of a class, in different places, that hide one another."""

_AT_ONCE: Final = 1_024
"""Words of the finder's table looked at together: bounds the memory."""
_ROUNDING: Final = 1e-3
_SEED: Final = 20_240
_OTHER_READINGS: Final = 0.05
_STRANGERS: Final = 0.1
_OF_TAG: Final = np.array([READINGS.index(BY_TAG[tag]) for tag in UPOS])
_HIDING: Final = np.array(
    [
        {
            **dict.fromkeys(("REFERENCE", "GRAMMAR", "CLITIC"), 0),
            "FACT": 2,
            **dict.fromkeys(("NAME", "NUMBER", "ORIGIN"), 3),
        }.get(reading, 1)
        for reading in READINGS
    ]
)
"""How much each of `READINGS` hides: 0 passes under most policies, 1 gets noise under some, 2 gets
noise under all, 3 is drawn."""


def inspect(bundle: Bundle, language: str, *, accept_unchecked: bool = False) -> tuple[Figure, ...]:
    """Check all that a bundle claims, and return the figures of its levels.

    Args:
        bundle: of any origin.
        language: that the owner writes, as bundles name it.
        accept_unchecked: the owner believes the bundle where no lists of the language ship.

    Returns:
        Every level as claimed and as found; none where no lists of the language ship.

    Raises:
        DataLoss: the tokenizer, the finder or one of the device's lists is damaged.
        BundleMismatch: another language; a language without lists, and the owner did not accept
            that; or a claim that does not hold. The error says what was claimed and what was found.
    """
    if bundle.manifest.language != language:
        raise BundleMismatch(
            f"the bundle is for language {bundle.manifest.language!r}, not {language!r}",
            fix="pull another, or set bundle.language in the configuration",
            subject="bundle.language",
        )
    counts = PublicCounts.shipped(language)
    if counts is None and not accept_unchecked:
        raise BundleMismatch(
            f"this device has no word lists for language {language!r}, so it cannot check what the "
            "bundle says of words, and would replace every word by a random one",
            fix="if you trust the provider not to hide names among words, set "
            "bundle.accept_unchecked = true in the configuration",
            subject="bundle.accept_unchecked",
        )
    check_classes(bundle)
    _ = bundle.tokenizer  # opening refuses what could rewrite words
    if finder := open_finder(bundle, accept_unchecked=accept_unchecked):
        check_listed(finder, bundle)
    if counts is None:
        return ()
    check_readings(bundle, counts)
    figures = []
    for figure in measure(bundle, counts):
        figure.check()
        figures.append(figure)
    return tuple(figures)


def check_classes(bundle: Bundle) -> None:
    """Check the classes that follow from a word alone.

    Each class must hide its words, and each word must be in the class of its reading.

    Raises:
        BundleMismatch: a class has too few words, or too few places for them; or lists others than
            its reading.
    """
    manifest = bundle.manifest
    reading = PCT2T2(1.0, READINGS)
    own = [reading.word_class(each, each == "CLITIC") for each in READINGS]
    names = np.array(own)[bundle.readings]
    direction = np.random.default_rng(_SEED).standard_normal(manifest.dimensions)
    for name in manifest.classes:
        if name != ANY and not name.startswith(OWN):
            continue  # parts of speech in context: small ones stay for comparison with RAPT
        members = bundle.class_members(name)
        places = len(np.unique((bundle.class_rows(name) @ direction).astype(np.float32)))
        if places < FEWEST:
            raise unsound(
                f"the class {name} has {len(members)} words in {places} places, and fewer than "
                f"{FEWEST} do not hide one another"
            )
        if name != ANY and not np.array_equal(members, np.flatnonzero(names == name)):
            raise unsound(f"the class {name} lists other words than those that read so")


def check_listed(finder: NameFinder, bundle: Bundle) -> None:
    """Refuse a bundle whose table of listed words differs from what the finder's network gives.

    With such a table the finder would be blind to chosen words.

    Raises:
        BundleMismatch: the table differs for some word, beyond what machines round differently.
    """
    words = bundle.words
    for start in range(0, len(words), _AT_ONCE):
        texts = words[start : start + _AT_ONCE]
        ids = np.arange(start, start + len(texts), dtype=np.int32)
        kept, own = finder.alone(texts, ids), finder.alone(texts, np.full_like(ids, -1))
        # Written so that NaN is refused.
        if not np.allclose(kept, own, rtol=_ROUNDING, atol=_ROUNDING):
            raise unsound("its name finder's table of listed words is not what its network gives")


def check_readings(bundle: Bundle, counts: PublicCounts) -> None:
    """Check that the bundle's readings hide as much as the device's own counts and lists.

    A word that a public list gives as a fact or an origin must hide at least as much. For each
    reading, at most a twentieth of the running text may hide less, because counts differ. At most
    a tenth of the words that read as closed parts of speech, which pass, may be unknown as one.

    Raises:
        BundleMismatch: a check fails. The error does not name the words.
    """
    words = list(bundle.words)
    # Known here as clitics: a bundle that says "diabetic" is one gets nothing by it.
    known = {word for word, clitic in zip(counts.words, counts.clitics, strict=True) if clitic}
    clitic = np.array([word in known for word in words])
    met = counts_by_tag(words, clitic, counts)
    together = np.zeros((len(met), len(READINGS)))
    np.add.at(together.T, _OF_TAG, met.T)
    together[clitic] = np.eye(len(READINGS))[READINGS.index("CLITIC")]
    mass, own = together.sum(axis=1), together.argmax(axis=1)
    theirs = _HIDING[bundle.readings]
    listed = [counts.listed.get(counts.normal_form(word), "") for word in words]
    for place in np.flatnonzero(np.array(listed) != ""):
        own[place] = READINGS.index(listed[place])
        if theirs[place] < _HIDING[own[place]]:
            raise unsound(
                f"a word that public lists give as {listed[place]} reads as "
                f"{READINGS[bundle.readings[place]]}, which hides less"
            )
    lighter = theirs < _HIDING[own]
    for number, reading in enumerate(READINGS):
        found, wrong = (float(mass[(own == number) & which].sum()) for which in (mass > 0, lighter))
        if wrong > _OTHER_READINGS * found:
            raise unsound(
                f"{wrong / found:.0%} of the words of running text that public counts read as "
                f"{reading} have a reading that hides less"
            )
    passing = theirs == 0
    strange = passing & ((_HIDING[own] > 0) | (mass == 0))
    if strange.sum() > _STRANGERS * passing.sum():
        raise unsound(
            f"{strange.sum()} of {passing.sum()} words that read as pronouns, prepositions and the "
            "like are known as none"
        )
