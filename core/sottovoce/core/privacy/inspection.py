"""Checks a bundle's claims: its classes, readings, levels, tokenizer and name finder.

The provider makes the bundle, and the provider must not learn the text. A device that believed
every bundle could be told that "balanced" is eta a million, or that "pregnant" is a preposition.

The manifest states the noise of each level and how often an attacker guesses right. The device
measures both itself, with its own mechanism, its own counts of public text and the strongest
attacker on single words.

The inspection takes seconds, so it runs when a bundle is pulled and when the owner asks
(`sotto doctor`). The checks at every opening are in `sottovoce.core.bundle.folder` and
`sottovoce.core.privacy.trust`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle, unsound
from sottovoce.core.bundle.levels import NAMES, Level, single_word
from sottovoce.core.bundle.manifest import ANY, CLITIC
from sottovoce.core.errors import BundleMismatch, InvalidInput
from sottovoce.core.privacy import mechanisms
from sottovoce.core.privacy.attacker import (
    Candidates,
    SphereMap,
    counts_by_tag,
    draw,
    weights_by_class,
    weights_by_reading,
)
from sottovoce.core.privacy.mechanisms.spherical import OWN, PCT2T2, Mechanism
from sottovoce.core.privacy.policies import DEFAULT, POLICIES
from sottovoce.core.privacy.search import ExactIndex, Search
from sottovoce.core.privacy.trust import open_finder
from sottovoce.core.text.frequencies import PublicCounts
from sottovoce.core.text.names import NameFinder
from sottovoce.core.text.tagger import UPOS
from sottovoce.core.text.word_classes import BY_TAG, READINGS

_ONE_ETA: Final = {"strong": 0.25, "balanced": 0.63, "light": 0.89}
"""The promise of a name for a mechanism with one eta: the share of noised words that the attacker
on vectors may recover from everyday text. Such levels are defined by the share replaced."""

_WORDS: Final = {True: 1_500, False: 400}
"""Words simulated for a named level, and for a point of the curve between."""
_OF_A_CLASS: Final = {True: 200, False: 40}
"""At the least, of each class."""
_APART: Final = 400
"""Of a class that is measured by itself."""
_DEVIATIONS: Final = 5.0
"""Standard errors of the simulation that a claim may be off: one honest claim in 3 million is
further off. The simulation is seeded, so that a second look at the same bundle sees the same."""
_OTHER_COUNTS: Final = 0.02
"""What a claim may be off beside that, as it was made with other counts of public text."""
_SEED: Final = 20_240
_NOISED: Final = POLICIES[DEFAULT].with_noise()
"""What the builder's figures for a level as a whole speak of."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A level, or a point between levels, as claimed and as found.

    Attributes:
        mechanism, level: which; the level's name is empty for a point of the curve.
        word_class: the class it speaks of, empty for all together.
        eta: privacy parameter, the largest of those in use.
        replaced, attacked: shares of noised words of everyday text that come out as others, and
            that the attacker on vectors recovers, as the manifest claims them.
        found_replaced, found_attacked: as simulated here.
        promised: share that a level of this name may let the attacker recover.
        error: by how much all of this may differ.
    """

    mechanism: str
    level: str
    word_class: str
    eta: float
    replaced: float
    attacked: float
    found_replaced: float
    found_attacked: float
    promised: float
    error: float

    def check(self) -> None:
        """Nothing, if the claim holds.

        Raises:
            BundleMismatch: more is guessed than claimed, or than the level's name promises, or
                another share is replaced.
        """
        level = self.level or "a point between levels"
        name = f"{self.mechanism} at {level}, {self.word_class}".rstrip(", ")
        # Written so that a claim of NaN holds in no case.
        if not self.found_attacked <= self.attacked + self.error:
            raise unsound(
                f"{name}: an attacker is said to guess {self.attacked:.0%} of words, "
                f"and guesses {self.found_attacked:.0%} here (eta {self.eta:.4g})"
            )
        if not abs(self.found_replaced - self.replaced) <= self.error:
            raise unsound(
                f"{name}: {self.replaced:.0%} of words are said to be replaced, "
                f"and {self.found_replaced:.0%} are here (eta {self.eta:.4g})"
            )
        if not self.found_attacked <= self.promised + self.error:
            raise unsound(
                f"{name}: {self.level!r} means that at most {self.promised:.0%} of words are "
                f"guessed, and {self.found_attacked:.0%} are here (eta {self.eta:.4g})"
            )


def measure(
    bundle: Bundle,
    counts: PublicCounts,
) -> Iterator[Figure]:
    """Every level and every point of every curve, as claimed and as found here; of the levels that
    have an eta for each class, every class as well.

    This takes seconds and a few MB, and reads no user's text.

    Raises:
        BundleMismatch: a level has no eta that could be one.
    """
    manifest = bundle.manifest
    tasks = [
        (mechanism, name, level)
        for mechanism, levels in manifest.calibration.items()
        if mechanism in mechanisms.MECHANISMS
        for name, level in (
            *levels.items(),
            *(("", point) for point in manifest.curve.get(mechanism, ())),
        )
    ]
    everyday = _everyday(bundle, counts)
    weights: dict[str, Mapping[str, NDArray[np.float64]]] = {}
    apart: dict[str, Mapping[str, NDArray[np.float64]]] = {}
    for mechanism, name, level in tasks:
        try:
            made = mechanisms.make(mechanism, level, _NOISED)
        except InvalidInput as error:
            raise unsound(f"{mechanism} has a level without an eta: {error.problem}") from error
        if mechanism not in weights:
            weights[mechanism] = _weights(bundle, everyday, made)
        yield _together(bundle, weights[mechanism], made, name, level)
        if name and level.classes:
            every = mechanisms.make(mechanism, level, READINGS)
            if mechanism not in apart:
                apart[mechanism] = _weights(bundle, everyday, every)
            yield from _each(bundle, apart[mechanism], every, name, level)


@dataclass(frozen=True, slots=True)
class _Found:
    """The outcome for ``n`` words of a class that makes up ``share`` of the noised words."""

    share: float
    n: int
    replaced: float
    attacked: float
    blind: float
    """What the commonest word makes up of the class."""


def _together(
    bundle: Bundle,
    weights: Mapping[str, NDArray[np.float64]],
    mechanism: Mechanism,
    name: str,
    level: Level,
) -> Figure:
    """Return a level's figures for all words that the default policy gives noise."""
    random = np.random.default_rng(_SEED)
    mass = sum(float(each.sum()) for each in weights.values())
    found = []
    for of_class, each in weights.items():
        share = float(each.sum()) / mass
        n = max(_OF_A_CLASS[bool(name)], round(_WORDS[bool(name)] * share))
        found.append(_attacked(bundle, of_class, each, mechanism, n, share, random))
    return Figure(
        mechanism=mechanism.name,
        level=name,
        word_class="",
        eta=mechanism.eta,
        replaced=level.replaced,
        attacked=level.map_attack,
        found_replaced=sum(each.share * each.replaced for each in found),
        found_attacked=sum(each.share * each.attacked for each in found),
        promised=_promised(mechanism, name),
        error=_error(found),
    )


def _each(
    bundle: Bundle,
    weights: Mapping[str, NDArray[np.float64]],
    mechanism: Mechanism,
    name: str,
    level: Level,
) -> Iterator[Figure]:
    """Yield the figures of a level for each class with a separate eta."""
    random = np.random.default_rng(_SEED)
    for of_class, each in weights.items():
        if of_class not in level.classes:
            continue  # it takes the least eta of all
        claimed = level.classes[of_class]
        found = _attacked(bundle, of_class, each, mechanism, _APART, 1.0, random)
        yield Figure(
            mechanism=mechanism.name,
            level=name,
            word_class=of_class,
            eta=mechanism.eta_of(of_class),
            replaced=claimed.replaced,
            attacked=claimed.map_attack,
            found_replaced=found.replaced,
            found_attacked=found.attacked,
            promised=max(_promised(mechanism, name), found.blind),
            error=_error([found]),
        )


def _promised(mechanism: Mechanism, name: str) -> float:
    """Return the share that the attacker on vectors may recover at a level of this name."""
    if mechanism.contextual:
        return _ONE_ETA.get(name, 1.0)
    return single_word(NAMES[name]) if name in NAMES else 1.0


def _attacked(
    bundle: Bundle,
    name: str,
    weights: NDArray[np.float64],
    mechanism: Mechanism,
    n: int,
    share: float,
    random: Generator,
) -> _Found:
    """Has about ``n`` words of a class replaced as on the device, and guessed."""
    ids = draw({name: weights}, n, random)[name]
    noisy = mechanism.perturb(bundle.space[ids], random, [name] * len(ids))
    released = Search(bundle).known_class(name)
    members = bundle.class_members(released)
    found = members[ExactIndex(bundle.class_rows(released)).nearest(noisy)]
    candidates = Candidates.of(weights, members)
    guess = SphereMap.of(bundle.space, candidates).behind_vectors(noisy, mechanism.eta_of(name))
    return _Found(
        share=share,
        n=len(ids),
        replaced=float((found != ids).mean()),
        attacked=float((guess == ids).mean()),
        blind=float(np.exp(candidates.log_prior.max())),
    )


def _error(found: Iterable[_Found]) -> float:
    """Of shares over the classes together, at their widest."""
    variance = sum(each.share**2 / (4 * each.n) for each in found)
    return _DEVIATIONS * math.sqrt(variance) + _OTHER_COUNTS


def _everyday(bundle: Bundle, counts: PublicCounts) -> NDArray[np.float64]:
    """Return each word's occurrences by tag, from the device's counts: Floats2d (words, tags).

    A word that the counts do not know gets the average count of unknown words, divided equally over
    the parts of speech that the bundle knows for it. A long list does not make unknown words
    commoner: they share the occurrences of all words that the counts leave out.
    """
    words = list(bundle.words)
    clitic = np.isin(np.array(words), np.array(bundle.manifest.clitics))
    found = counts_by_tag(words, clitic, counts)
    possible = np.zeros(found.shape, np.bool_)
    for tag, column in zip(UPOS, possible.T, strict=True):
        if tag in bundle.manifest.classes:
            column[bundle.class_members(tag)] = True
    possible[~possible.any(axis=1), UPOS.index("NOUN")] = True
    rare = ~found.any(axis=1) & ~clitic
    tail = counts.tail_of(int(rare.sum()))
    found[rare] = tail * possible[rare] / possible[rare].sum(axis=1, keepdims=True)
    return found


def _weights(
    bundle: Bundle, everyday: NDArray[np.float64], mechanism: Mechanism
) -> dict[str, NDArray[np.float64]]:
    """Return each word's frequency, by the class it moves in: Floats1d (words,) each."""
    if not mechanism.contextual:
        return weights_by_reading(everyday, bundle.readings, mechanism)
    clitic = np.zeros(len(everyday), np.bool_)
    if ANY + CLITIC in bundle.manifest.classes:
        clitic[bundle.class_members(ANY + CLITIC)] = True
    return weights_by_class(everyday, clitic, mechanism.tags)


FEWEST: Final = 100
"""Minimum number of words of a class, in different places, that hide one another."""

_AT_ONCE: Final = 1_024
"""Words of the finder's table looked at together: bounds the memory."""
_ROUNDING: Final = 1e-3
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
    """Check all claims of a bundle, and return the figures of its levels.

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
    """Refuse a bundle if its table of listed words differs from the output of the finder's network.

    With a wrong table, the finder could be blind to chosen words.

    Raises:
        BundleMismatch: the table differs for some word, beyond what machines round differently.
    """
    words = bundle.words[: finder.listed]
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
