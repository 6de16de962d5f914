"""Privatises a document: the one place where the parts of the device's engine meet.

Why it is here: text -> words -> tags -> vectors -> noise -> words -> text, each step a module of
its own, and here their order. Decisions that may look at the true word (is it protected, within
which class may it move) are all taken before the noise. After it, `_nearest` sees noisy vectors and
class names only. What comes back is written into the gaps of the document, white space and
punctuation untouched. A document goes through in windows, so that memory does not grow with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import ANY
from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.floors import Floors
from sottovoce.core.privacy.keyed import Draws, Fresh, Key
from sottovoce.core.privacy.mechanisms import registry
from sottovoce.core.privacy.mechanisms.interface import Mechanism
from sottovoce.core.privacy.noise import Floats2d, Random, SecureRandom
from sottovoce.core.privacy.release import IDENTIFIER, PUNCTUATION, Draft, Release
from sottovoce.core.privacy.search import Search
from sottovoce.core.privacy.setting import Setting
from sottovoce.core.privacy.surrogates import surrogate
from sottovoce.core.privacy.vectors import OUT_OF_VOCABULARY, Vectors
from sottovoce.core.text import casing
from sottovoce.core.text.checks import check_text
from sottovoce.core.text.context import Context
from sottovoce.core.text.tagger import Tagger, Tags
from sottovoce.core.text.words import Kind, Word, iter_words

__all__ = ["LONGEST_WORD", "STAGES", "WINDOW", "Privatizer"]

LONGEST_WORD = 4_096
"""Code points a word or identifier may have."""

WINDOW = 1_024
"""Words tagged, looked up, perturbed and searched at once: bounds the memory of a long document."""

STAGES = ("words", "tags", "vectors", "noise", "search", "text")
"""What a text goes through, in this order, window after window."""

_PUNCT = "PUNCT"
_IDENTIFIER_FORM = "\0" + IDENTIFIER
"""What any identifier is to the word after it: no text has a NUL."""


class Privatizer:
    """Privatises documents over one bundle. Safe to share between threads.

    Args:
        bundle: the words, their space, the calibrated levels.
        tagger: names parts of speech.
        unsure_below: a word whose tag is less probable than this is protected whatever its tag.
        floors: what the owner allows at most.
        stage: entered with the name of each of `STAGES` while it runs, for measurements.
    """

    def __init__(
        self,
        bundle: Bundle,
        tagger: Tagger,
        *,
        unsure_below: float = 0.7,
        floors: Floors = Floors(),  # noqa: B008 - frozen
        stage: Callable[[str], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._bundle = bundle
        self._tagger = tagger
        self._unsure_below = unsure_below
        self._floors = floors
        self._stage = stage
        self._vectors = Vectors(bundle)
        self._search = Search(bundle)
        self._listed = bundle.words
        self._names = (*tagger.tagset, IDENTIFIER, PUNCTUATION)

    def mechanism(self, setting: Setting) -> Mechanism:
        """The mechanism that ``setting`` means.

        Raises:
            NotFound: the bundle does not know the level, mechanism or policy; the fix lists those
                it knows and ``subject`` says which of the three it was.
            NotReady: the owner does not allow it.
        """
        manifest = self._bundle.manifest
        kind = registry.find(setting.mechanism)
        tags = manifest.policy(setting.policy)
        level = manifest.level(setting.mechanism, setting.level)
        self._floors.check_etas(level.eta, *level.etas.values())
        return kind.of(level, tags)

    def release(
        self,
        document: str,
        setting: Setting,
        random: Random | None = None,
        *,
        key: Key | None = None,
        session: str = "",
    ) -> Release:
        """Privatises one document: under a key always alike, without one never.

        Replaced are: words of the parts of speech the setting names; words that are not in the
        list, or not exactly as listed but for their case; words whose tag is unsure or contradicts
        their form; identifiers, by random ones of the same shape. All else passes as it is.

        Args:
            document: the text, up to 1 MiB.
            setting: level, mechanism, policy.
            random: for tests only; a seeded stream has no privacy.
            key: the device's. Noise then depends on the word, the one before it, eta, the privacy
                space and the key, and on nothing else.
            session: under a key, the conversation in which equal identifiers get equal surrogates;
                without one, the document.

        Raises:
            InvalidInput: no text, too much of it, binary data, or a word over 4,096 characters.
            NotFound: see `mechanism`.
        """
        mechanism = self.mechanism(setting)
        check_text(document)
        draws: Draws = Fresh(random or SecureRandom())
        if key is not None:
            scope = ("session", session) if session else ("document", document)
            draws = key.draws(self._bundle.space_id, *scope)
        clitics = self._bundle.manifest.clitics
        draft, context = Draft(document), Context()
        charge = 0.0
        for words, tags in self._tagged(iter_words(document, clitics)):
            outputs, spent = self._outputs(words, tags, mechanism, context, draws)
            with self._stage("text"):
                draft.write(words, outputs)
            charge += spent
        return Release(
            text=draft.text(),
            document=document,
            setting=setting,
            eta=mechanism.eta,
            bundle_id=self._bundle.id,
            charge=charge,
            tags=self._names,
            clitics=clitics,
            lengths=draft.lengths,
            marks=draft.marks,
        )

    def release_plain_tokens(
        self, ids: Sequence[int], setting: Setting, random: Random | None = None
    ) -> list[str]:
        """Privatises plain tokens, so that they look like the text they precede.

        RAPT v2 section III-B2. They are public words out of context; where parts of speech are told
        apart, each moves within the first of the policy's that lists it. Nothing is charged.

        Args:
            ids: word ids, as `plain_tokens.draw` gives them.
            setting: that of the text.
            random: for tests only.

        Returns:
            As many words.

        Raises:
            NotFound: see `mechanism`.
        """
        mechanism = self.mechanism(setting)
        places = np.asarray(ids, np.int32)
        tags = self._bundle.manifest.policies[setting.policy]
        names = np.full(len(places), ANY, object)
        for tag in reversed(tags):  # the first one that lists the word has the last say
            name = mechanism.word_class(tag, False)
            if name in self._bundle.manifest.classes:
                names[np.isin(places, self._bundle.class_members(name))] = name
        classes: list[str] = names.tolist()
        noisy = mechanism.perturb(self._bundle.space[places], random or SecureRandom(), classes)
        return [self._listed[word] for word in self._nearest(classes, noisy)]

    def _tagged(self, words: Iterable[Word]) -> Iterator[tuple[list[Word], Tags]]:
        """Windows of words and their tags, as if the whole document had been tagged at once."""
        stream = iter(words)
        reach = self._tagger.reach
        before: list[Word] = []
        ahead: list[Word] = []
        while True:
            with self._stage("words"):
                taken = ahead + list(islice(stream, WINDOW - len(ahead) + reach))
                window, ahead = taken[:WINDOW], taken[WINDOW:]
                _check_lengths(window)
            if not window:
                return
            with self._stage("tags"):
                tags = self._tagger.tag([word.text for word in (*before, *window, *ahead)])
                own = slice(len(before), len(before) + len(window))
            yield window, Tags(tags.ids[own], tags.confidence[own])
            before = (before + window)[-reach:] if reach else []

    def _outputs(
        self,
        words: Sequence[Word],
        tags: Tags,
        mechanism: Mechanism,
        context: Context,
        draws: Draws,
    ) -> tuple[list[tuple[str, int, bool]], float]:
        """What takes the place of each word, as `Draft.write` wants it; what the noise costs."""
        names, numbers = self._tagger.tagset, tags.ids.tolist()
        with self._stage("vectors"):
            free = [place for place, word in enumerate(words) if word.kind is Kind.WORD]
            forms = [self._form(word) for word in words]
            before = context.before(words, forms)
            vectors, ids = self._vectors.lookup_forms([forms[place] for place in free])
            chosen = self._must_go(tags, mechanism)[free]
            for number in np.flatnonzero(~chosen).tolist():
                place = free[number]
                chosen[number] = not _passes(words[place].text, forms[place], int(ids[number]))
            protected = [free[number] for number in np.flatnonzero(chosen).tolist()]
            kinds = [(numbers[place], words[place].clitic) for place in protected]
            named = {kind: mechanism.word_class(names[kind[0]], kind[1]) for kind in set(kinds)}
            classes = [named[kind] for kind in kinds]
        with self._stage("noise"):
            own, last = ([each[place] for place in protected] for each in (forms, before))
            etas = [mechanism.eta_of(name) for name in classes]
            noisy = mechanism.perturb(vectors[chosen], draws.noise(etas, own, last), classes)
        with self._stage("search"):
            found = self._nearest(classes, noisy).tolist()
        with self._stage("text"):
            replacements = dict(zip(protected, found, strict=True))
            outputs: list[tuple[str, int, bool]] = []
            for place, word in enumerate(words):
                if place in replacements:
                    listed = self._listed[replacements[place]]
                    cased = casing.apply(casing.shape(word.text), listed)
                    outputs.append((cased, numbers[place], True))
                elif word.kind is Kind.IDENTIFIER:
                    random = draws.surrogate(IDENTIFIER, word.text.lower())
                    replaced = surrogate.surrogate(surrogate.IDENTIFIER, word.text, random)
                    outputs.append((replaced, len(names), True))
                elif word.kind is Kind.PUNCTUATION:
                    outputs.append((word.text, len(names) + 1, False))
                else:
                    outputs.append((word.text, numbers[place], False))
        return outputs, mechanism.charge(classes)

    def _must_go(self, tags: Tags, mechanism: Mechanism) -> NDArray[np.bool_]:
        """Which words are protected for their tag, whatever their form: Bools1d (words,)."""
        # A form that is no punctuation but is tagged as such is a contradiction, hence covered.
        tagset = self._tagger.tagset
        covered = np.array([mechanism.protects(tag) or tag == _PUNCT for tag in tagset])
        must: NDArray[np.bool_] = covered[tags.ids] | ~(tags.confidence >= self._unsure_below)
        return must

    def _form(self, word: Word) -> str:
        """The form a word is looked up under, or what stands for it where it is none."""
        if word.kind is Kind.WORD:
            return self._vectors.normal_form(word.text)
        return _IDENTIFIER_FORM

    def _nearest(self, classes: Sequence[str], noisy: Floats2d) -> NDArray[np.int32]:
        """Ids of the words nearest to the rows of ``noisy``, each within its class."""
        found = np.empty(len(classes), np.int32)
        places: dict[str, list[int]] = {}
        for place, name in enumerate(classes):
            places.setdefault(name, []).append(place)
        for name, where in places.items():
            found[where] = self._search.nearest(self._search.known_class(name), noisy[where])
        return found


def _passes(text: str, form: str, number: int) -> bool:
    """Whether an uncovered word may stay: listed, and typed as listed but for its case.

    An accent or an invisible character that the look-up form drops would else leave unseen.
    """
    if number == OUT_OF_VOCABULARY:
        return False
    plain = text.replace("’", "'")
    return form in (plain, plain.lower())


def _check_lengths(words: Sequence[Word]) -> None:
    for word in words:
        if word.end - word.start > LONGEST_WORD and word.kind is not Kind.PUNCTUATION:
            raise InvalidInput(
                f"the word at character {word.start} has {word.end - word.start} characters,"
                f" at most {LONGEST_WORD} are taken",
                fix="take encoded or binary content out of the text",
                subject="text",
            )
