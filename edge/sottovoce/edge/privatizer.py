"""Privatises a document: the one place where the parts of the device's engine meet.

Why it is here: text -> words -> tags -> vectors -> noise -> words -> text, each step a module of
its own, and here their order. Decisions that may look at the true word (is it protected, within
which class may it move) are all taken before the noise. After it, `_nearest` sees noisy vectors and
class names only. What comes back is written into the gaps of the document, white space and
punctuation untouched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sottovoce.edge import casing, identifiers
from sottovoce.edge.bundle import ANY, Bundle
from sottovoce.edge.errors import InvalidInput, NotFound
from sottovoce.edge.mechanisms import MECHANISMS, PCT2T, T2T, Mechanism
from sottovoce.edge.noise import Floats2d, secure_random
from sottovoce.edge.search import Search
from sottovoce.edge.tagger import Tagger
from sottovoce.edge.textio import check_text
from sottovoce.edge.vectors import OUT_OF_VOCABULARY, Vectors
from sottovoce.edge.words import Kind, Word, split

__all__ = ["LONGEST_WORD", "Privatizer", "Release", "Setting", "WordRelease"]

LONGEST_WORD = 4_096
"""Code points a word or identifier may have."""

WINDOW = 4_096
"""Words looked up, perturbed and searched at once: bounds the memory of a long document."""

_PUNCT = "PUNCT"


@dataclass(frozen=True, slots=True)
class Setting:
    """How to privatise: names that the bundle's manifest resolves.

    Attributes:
        level: a calibrated protection level.
        mechanism: a versioned name.
        policy: which parts of speech `pct2t.v1` replaces.
    """

    level: str = "balanced"
    mechanism: str = PCT2T.name
    policy: str = "default"


@dataclass(frozen=True, slots=True)
class WordRelease:
    """One word and what became of it. For the device only: it shows what was replaced.

    Attributes:
        start, end: code points, ``document[start:end]`` is the word.
        released_start, released_end: the same in the released text.
        tag: part of speech, or "IDENTIFIER" or "PUNCTUATION".
        protected: whether noise was drawn for it, or, for an identifier, random characters.
        replaced: whether the released word differs from the typed one.
    """

    start: int
    end: int
    released_start: int
    released_end: int
    tag: str
    protected: bool
    replaced: bool


@dataclass(frozen=True, slots=True)
class Release:
    """A released document; only ``text`` may leave the device.

    Attributes:
        text: the released text.
        words: every word of the document, in order.
        setting: what was asked for.
        eta: the privacy parameter of the level.
        bundle_id: the bundle that resolved it.
        charge: what the ledger is to be charged, eta for each word that got noise.
    """

    text: str
    words: tuple[WordRelease, ...]
    setting: Setting
    eta: float
    bundle_id: str
    charge: float


class _Output(NamedTuple):
    """What takes the place of a word."""

    text: str
    tag: str
    protected: bool


class Privatizer:
    """Privatises documents over one bundle. Safe to share between threads.

    Args:
        bundle: the words, their space, the calibrated levels.
        tagger: names parts of speech.
        unsure_below: a word whose tag is less probable than this is protected whatever its tag.
    """

    def __init__(self, bundle: Bundle, tagger: Tagger, *, unsure_below: float = 0.7) -> None:
        self._bundle = bundle
        self._tagger = tagger
        self._unsure_below = unsure_below
        self._vectors = Vectors(bundle)
        self._search = Search(bundle)
        self._listed = bundle.words

    def check(self, setting: Setting) -> Mechanism:
        """The mechanism that ``setting`` means.

        Raises:
            NotFound: the bundle does not know the level, mechanism or policy; the fix lists those
                it knows and ``subject`` says which of the three it was.
        """
        manifest = self._bundle.manifest
        if setting.mechanism not in MECHANISMS:
            known = ", ".join(MECHANISMS)
            raise NotFound("unknown mechanism", fix=f"use one of: {known}", subject="mechanism")
        if setting.policy not in manifest.policies:
            known = ", ".join(manifest.policies)
            raise NotFound("unknown policy", fix=f"use one of: {known}", subject="policy")
        eta = manifest.level(setting.mechanism, setting.level).eta
        if setting.mechanism == T2T.name:
            return T2T(eta)
        return PCT2T(eta, manifest.policies[setting.policy])

    def release(self, document: str, setting: Setting, random: Generator | None = None) -> Release:
        """Privatises one document, with noise of its own key.

        Replaced are: words of the parts of speech the setting names; words that are not in the
        list, or not exactly as listed but for their case; words whose tag is unsure or contradicts
        their form; identifiers, by random ones of the same shape. All else passes as it is.

        Args:
            document: the text, up to 1 MiB.
            setting: level, mechanism, policy.
            random: for tests only; a seeded stream has no privacy.

        Raises:
            InvalidInput: no text, too much of it, binary data, or a word over 4,096 characters.
            NotFound: see `check`.
        """
        mechanism = self.check(setting)
        check_text(document)
        words = split(document, self._bundle.manifest.clitics)
        _check_lengths(words)
        outputs = list(self._outputs(words, mechanism, random or secure_random()))
        text, released = _put_together(document, words, outputs)
        with_noise = sum(
            output.protected and word.kind is Kind.WORD
            for word, output in zip(words, outputs, strict=True)
        )
        return Release(
            text=text,
            words=released,
            setting=setting,
            eta=mechanism.eta,
            bundle_id=self._bundle.id,
            charge=mechanism.charge(with_noise),
        )

    def release_plain_tokens(
        self, ids: Sequence[int], setting: Setting, random: Generator | None = None
    ) -> list[str]:
        """Privatises plain tokens, so that they look like the text they precede.

        RAPT v2 section III-B2. They are public words out of context; under `pct2t.v1` each moves
        within the first of the policy's parts of speech that lists it. Nothing is charged.

        Args:
            ids: word ids, as `plain_tokens.draw` gives them.
            setting: that of the text.
            random: for tests only.

        Returns:
            As many words.

        Raises:
            NotFound: see `check`.
        """
        mechanism = self.check(setting)
        places = np.asarray(ids, np.int32)
        tags = self._bundle.manifest.policies[setting.policy]
        names = np.full(len(places), ANY, object)
        for tag in reversed(tags):  # the first one that lists the word has the last say
            name = mechanism.word_class(tag, False)
            if name in self._bundle.manifest.classes:
                names[np.isin(places, self._bundle.class_members(name))] = name
        classes = [self._search.known_class(name) for name in names]
        noisy = mechanism.perturb(self._bundle.space[places], random or secure_random())
        return [self._listed[word] for word in self._nearest(classes, noisy)]

    def _outputs(
        self, words: Sequence[Word], mechanism: Mechanism, random: Generator
    ) -> Iterator[_Output]:
        """What takes the place of each word, window by window."""
        tags = self._tagger.tag([word.text for word in words])
        tagset = self._tagger.tagset
        # A form that is no punctuation but is tagged as such is a contradiction, hence covered.
        covered = np.array([mechanism.protects(tag) or tag == _PUNCT for tag in tagset])
        must = covered[tags.ids] | ~(tags.confidence >= self._unsure_below)
        for start in range(0, len(words), WINDOW):
            window = slice(start, start + WINDOW)
            names = [tagset[tag] for tag in tags.ids[window].tolist()]
            yield from self._window(words[window], names, must[window], mechanism, random)

    def _window(
        self,
        words: Sequence[Word],
        tags: Sequence[str],
        must: NDArray[np.bool_],
        mechanism: Mechanism,
        random: Generator,
    ) -> Iterator[_Output]:
        free = [place for place, word in enumerate(words) if word.kind is Kind.WORD]
        vectors, ids = self._vectors.lookup([words[place].text for place in free])
        chosen = np.array(
            [
                must[place] or not self._passes(words[place].text, number)
                for place, number in zip(free, ids.tolist(), strict=True)
            ],
            np.bool_,
        )
        protected = [place for place, choice in zip(free, chosen, strict=True) if choice]
        classes = [
            self._search.known_class(mechanism.word_class(tags[place], words[place].clitic))
            for place in protected
        ]
        found = self._nearest(classes, mechanism.perturb(vectors[chosen], random))
        replacements = dict(zip(protected, found.tolist(), strict=True))
        for place, (word, tag) in enumerate(zip(words, tags, strict=True)):
            if word.kind is Kind.IDENTIFIER:
                yield _Output(identifiers.replace(word.text, random), "IDENTIFIER", True)
            elif word.kind is Kind.PUNCTUATION:
                yield _Output(word.text, "PUNCTUATION", False)
            elif place in replacements:
                listed = self._listed[replacements[place]]
                yield _Output(casing.apply(casing.shape(word.text), listed), tag, True)
            else:
                yield _Output(word.text, tag, False)

    def _passes(self, text: str, number: int) -> bool:
        """Whether an uncovered word may stay: listed, and typed as listed but for its case.

        An accent or an invisible character that the look-up form drops would else leave unseen.
        """
        if number == OUT_OF_VOCABULARY:
            return False
        plain = text.replace("’", "'")
        return self._listed[number] in (plain, plain.lower())

    def _nearest(self, classes: Sequence[str], noisy: Floats2d) -> NDArray[np.int32]:
        """Ids of the words nearest to the rows of ``noisy``, each within its class."""
        found = np.empty(len(classes), np.int32)
        places: dict[str, list[int]] = {}
        for place, name in enumerate(classes):
            places.setdefault(name, []).append(place)
        for name, where in places.items():
            found[where] = self._search.nearest(name, noisy[where])
        return found


def _check_lengths(words: Sequence[Word]) -> None:
    for word in words:
        if word.end - word.start > LONGEST_WORD and word.kind is not Kind.PUNCTUATION:
            raise InvalidInput(
                f"the word at character {word.start} has {word.end - word.start} characters,"
                f" at most {LONGEST_WORD} are taken",
                fix="take encoded or binary content out of the text",
                subject="text",
            )


def _put_together(
    document: str, words: Sequence[Word], outputs: Sequence[_Output]
) -> tuple[str, tuple[WordRelease, ...]]:
    """The released text and the report on it; the gaps between words are copied."""
    pieces: list[str] = []
    released: list[WordRelease] = []
    done = length = 0
    for word, output in zip(words, outputs, strict=True):
        gap = document[done : word.start]
        pieces += (gap, output.text)
        begin = length + len(gap)
        done, length = word.end, begin + len(output.text)
        released.append(
            WordRelease(
                start=word.start,
                end=word.end,
                released_start=begin,
                released_end=length,
                tag=output.tag,
                protected=output.protected,
                # The one comparison of output and input. Nothing depends on it: it is reported to
                # the owner of the text, on the device.
                replaced=output.text != word.text,
            )
        )
    pieces.append(document[done:])
    return "".join(pieces), tuple(released)
