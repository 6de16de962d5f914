"""Privatises a document with all parts of the device's engine.

The steps are text -> words -> decisions -> noise and draws -> words -> text. Each step is a module,
and this module runs them in order. Only the steps up to `Decider` read a true word: its reading,
whether it is a name, and its class. After the noise, `_nearest` sees only noisy vectors and class
names. A surrogate is drawn for a kind and a shape. The new words replace the old ones; white space
and punctuation stay. A document is processed in windows, so that memory does not grow with it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import nullcontext
from functools import cache, partial
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import ANY
from sottovoce.core.errors import NotReady
from sottovoce.core.privacy import mechanisms, policies
from sottovoce.core.privacy.decisions import Decider, Decision, Finder, Reader, Stage
from sottovoce.core.privacy.hiding import Hiding
from sottovoce.core.privacy.mechanisms.spherical import Mechanism
from sottovoce.core.privacy.noise import Draws, Floats2d, Fresh, Key, Random, SecureRandom
from sottovoce.core.privacy.personal import REASONS, Personal
from sottovoce.core.privacy.policies import IDENTIFIER, KINDS, PrivacyLimits, Setting
from sottovoce.core.privacy.release import Draft, Release
from sottovoce.core.privacy.search import Graphs, Search
from sottovoce.core.privacy.signs import TITLES, listed
from sottovoce.core.privacy.surrogates.shifted_dates import ShiftedDates
from sottovoce.core.privacy.surrogates.surrogate import DrawnSurrogate, Owners, Surrogates
from sottovoce.core.privacy.trust import TrustedWords, open_finder
from sottovoce.core.text import word_classes
from sottovoce.core.text.context_finder import ContextFinder
from sottovoce.core.text.tagger import OnnxTagger, Tagger
from sottovoce.core.text.vocabulary import Vocabulary
from sottovoce.core.text.word_classes import READINGS, UNLISTED
from sottovoce.core.text.words import Context, Word, check_text, iter_words

STAGES = ("words", "readings", "names", "noise", "search", "draws", "text")
"""What a text goes through, in this order, window after window."""

UNSURE_BELOW = 0.7
_NO_FLOORS = PrivacyLimits()


def no_tagger() -> Tagger:
    """Stand in for a missing tagger.

    Raises:
        NotReady: always.
    """
    raise NotReady(
        "the mechanism reads context, and there is no tagger",
        fix=f"use {mechanisms.DEFAULT}, or pull a bundle with a tagger",
        subject="tagger",
    )


class Privatizer:
    """Privatises documents over one bundle. Safe to share between threads.

    Args:
        bundle: the words, their readings, their space, the calibrated levels.
        finder: finds names; without one whatever has a capital is taken for a name.
        tagger: opens a tagger; asked by mechanisms that read context, and by no other.
        unsure_below: under such a mechanism a word whose tag is less probable never passes.
        floors: what the owner allows at most.
        graphs: keeps the graphs that searches build, see `Search`.
        trusted: what the device takes the words for.
        stage: entered with the name of each of `STAGES` while it runs, for measurements.
        hiding: the owner's choices, or a function that returns the current ones.
        reader: opens the finder that reads the context.
    """

    def __init__(
        self,
        bundle: Bundle,
        finder: Finder | None = None,
        *,
        tagger: Callable[[], Tagger] = no_tagger,
        unsure_below: float = UNSURE_BELOW,
        floors: PrivacyLimits = _NO_FLOORS,
        graphs: Graphs | None = None,
        trusted: TrustedWords | None = None,
        stage: Stage = nullcontext,
        hiding: Hiding | Callable[[], Hiding] | None = None,
        reader: Callable[[], Reader | None] = lambda: None,
    ) -> None:
        self._hiding = hiding or Hiding()
        self._bundle = bundle
        self._floors = floors
        self._stage = stage
        trusted = trusted or TrustedWords.of(bundle)
        self._clitics = trusted.clitics
        self._decider = Decider(
            bundle, trusted.readings, finder, tagger, unsure_below, stage, reader
        )
        self._search = Search(bundle, graphs)
        self._mechanisms: dict[Setting, Mechanism] = {}  # those that the bundle and owner allow
        self._listed = bundle.words

    @classmethod
    def of(
        cls,
        bundle: Bundle,
        *,
        tagger: Callable[[], Tagger] | None = None,
        unsure_below: float = UNSURE_BELOW,
        floors: PrivacyLimits = _NO_FLOORS,
        graphs: Graphs | None = None,
        accept_unchecked: bool = False,
        stage: Stage = nullcontext,
        hiding: Hiding | Callable[[], Hiding] | None = None,
        reader: Callable[[], Reader | None] | None = None,
    ) -> Self:
        """Over ``bundle``, with the parts that it brings and, if given, another tagger.

        Args:
            bundle: of any origin.
            tagger, unsure_below, floors, stage, hiding: see the class.
            accept_unchecked: believe the bundle's words and name finder where the device has no
                lists of its language.
            reader: opens another finder that reads the context than the shipped one.

        Raises:
            BundleMismatch, DataLoss: the bundle must not be used, see `open_finder`.
        """
        trusted = TrustedWords.of(bundle, accept_unchecked=accept_unchecked)
        finder = open_finder(bundle, accept_unchecked=accept_unchecked)
        opened = tagger or partial(OnnxTagger.load, bundle.tagger_folder)
        return cls(
            bundle,
            finder,
            tagger=cache(opened),
            unsure_below=unsure_below,
            floors=floors,
            graphs=graphs,
            trusted=trusted,
            stage=stage,
            hiding=hiding,
            reader=cache(reader) if reader else shipped_reader,
        )

    def mechanism(self, setting: Setting) -> Mechanism:
        """Return the mechanism for ``setting``.

        Raises:
            NotFound: there is no such level, mechanism or policy; the fix lists those there are and
                ``subject`` says which of the three it was.
            NotReady: the owner does not allow it.
        """
        if setting not in self._mechanisms:
            self._mechanisms[setting] = self._allowed(setting)
        return self._mechanisms[setting]

    def _allowed(self, setting: Setting) -> Mechanism:
        kind = mechanisms.find(setting.mechanism)
        policy = policies.find(setting.policy)
        self._floors.check_policy(policy)
        level = self._bundle.manifest.level(setting.mechanism, setting.level)
        self._floors.check_etas(level.eta, *level.etas.values())
        return kind.of(level, policy.with_noise())

    def release(
        self,
        document: str,
        setting: Setting,
        random: Random | None = None,
        *,
        key: Key | None = None,
        session: str = "",
        owners: Owners | None = None,
        hiding: Hiding | None = None,
        asked: str = "",
    ) -> Release:
        """Privatises one document: always alike with a key, and never alike without one.

        A word passes, gets noise or is replaced by a random word. Its kind and the policy decide
        which, see `sottovoce.core.privacy.policies`.

        Args:
            document: the text, up to 1 MiB.
            setting: level, mechanism, policy.
            random: for tests only; a seeded stream has no privacy.
            key: the device's. Noise then depends on the word, the one before it, eta, the privacy
                space and the key, and on nothing else.
            session: under a key, the conversation in which equal names get equal surrogates;
                without one, the document.
            owners: of the session's surrogates, see `Surrogates`.
            hiding: what the caller hides in addition to the owner's choices.
            asked: what the text answers, see `questions.asked_for`.

        Raises:
            InvalidInput: no text, too much of it, binary data, or a word over 4,096 characters.
            NotFound: see `mechanism`. NotReady: see `Decider.context`.
        """
        mechanism, policy = self.mechanism(setting), policies.find(setting.policy)
        check_text(document)
        context = None if policy.context else self._decider.context(mechanism, policy)
        draws: Draws = Fresh(random or SecureRandom())
        if key is not None:
            scope = ("session", session) if session else ("document", document)
            draws = key.draws(self._bundle.space_id, *scope)
        words = iter_words(document, self._clitics)
        choices = self._hiding if isinstance(self._hiding, Hiding) else self._hiding()
        if hiding:
            choices = choices.and_more(hiding)
        names_in = document if policy.context else None
        owners = {} if owners is None else owners
        surrogates = Surrogates(draws.surrogate, owners, names_in=names_in)
        if policy.context:
            past = surrogates.past._replace(asked=asked)
            personal = Personal(Vocabulary.shipped(), choices, past)
            decided = self._decider.decide_in_context(document, words, personal, session)
        else:
            forced = choices.spans(document, allow=False)
            decided = self._decider.decide(words, mechanism, policy, context, forced)
        reasons = bytearray()
        draft, before = Draft(document), Context()
        shifted = ShiftedDates(document, draws.surrogate) if policy.context else None
        charge, place = 0.0, 0
        for decision in decided:
            replaced: dict[int, str] = {}
            if not policy.context:  # which gives no noise
                replaced = self._with_noise(decision, before, mechanism, draws)
                charge += mechanism.charge(list(decision.classes.values()))
            with self._stage("draws"):
                dates = shifted.replace(decision.words, decision.drawn()) if shifted else {}
                replaced |= dates | _drawn(decision, surrogates, place, document, dates)
            place += len(decision.words)
            reasons += decision.reasons.tobytes()
            with self._stage("text"):
                draft.write(
                    decision.words,
                    _replaced(document, decision.words, replaced),
                    decision.tags,
                    decision.treatments,
                )
        if shifted and shifted.full:
            surrogates.keep_dated()
        if policy.context:
            surrogates.keep_cities(personal.cities)
            surrogates.keep_values(personal.values.found)
            if personal.values.late:  # the first windows again, with the values of the others
                return self.release(
                    *(document, setting, random),
                    key=key,
                    session=session,
                    owners=owners,
                    hiding=hiding,
                    asked=asked,
                )
        return Release(
            text=draft.text(),
            document=document,
            setting=setting,
            eta=mechanism.eta,
            bundle_id=self._bundle.id,
            charge=charge,
            tags=(*KINDS, *(context.tagset if context else ())),
            clitics=self._clitics,
            lengths=draft.lengths,
            marks=draft.marks,
            reasons=bytes(reasons) if any(reasons) else b"",
            known=REASONS,
            always=choices.always,
        )

    def release_plain_tokens(
        self, ids: Sequence[int], setting: Setting, random: Random | None = None
    ) -> list[str]:
        """Privatises plain tokens, so that they look like the text they precede.

        RAPT v2 section III-B2. They are public words out of context: each moves within the class of
        its reading, or, by a mechanism that reads context, within the first part of speech with
        noise that lists it. Nothing is charged.

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
        classes = self._classes_out_of_context(places, mechanism)
        noisy = mechanism.perturb(self._bundle.space[places], random or SecureRandom(), classes)
        return self._listed.take(self._nearest(classes, mechanism, noisy).tolist())

    def _classes_out_of_context(
        self, places: NDArray[np.int32], mechanism: Mechanism
    ) -> Sequence[str]:
        if not mechanism.contextual or mechanism.tags is None:
            readings = self._bundle.readings[places].tolist()
            return [mechanism.word_class(READINGS[reading], False) for reading in readings]
        names = np.full(len(places), ANY, object)
        for tag in reversed(mechanism.tags):  # the first that lists a word has the last say
            name = mechanism.word_class(tag, False)
            if name in self._bundle.manifest.classes:
                names[np.isin(places, self._bundle.class_members(name))] = name
        return names.tolist()

    def _with_noise(
        self, decision: Decision, before: Context, mechanism: Mechanism, draws: Draws
    ) -> dict[int, str]:
        """Return the replacements of the words with noise, by place."""
        places, classes = list(decision.classes), list(decision.classes.values())
        with self._stage("noise"):
            last = before.before(decision.words, _as_shown(decision))
            etas = {name: mechanism.eta_of(name) for name in set(classes)}
            stream = draws.noise(
                [etas[name] for name in classes],
                [decision.forms[place] for place in places],
                [last[place] for place in places],
            )
            vectors = self._bundle.space[decision.ids[places]]
            noisy = mechanism.perturb(vectors, stream, classes)
        with self._stage("search"):
            found = self._listed.take(self._nearest(classes, mechanism, noisy).tolist())
            return {
                place: word_classes.in_case_of(decision.words[place].text, word)
                for place, word in zip(places, found, strict=True)
            }

    def _nearest(
        self, classes: Sequence[str], mechanism: Mechanism, noisy: Floats2d
    ) -> NDArray[np.int32]:
        """Ids of the words nearest to the rows of ``noisy``, each within its class."""
        found = np.empty(len(classes), np.int32)
        places: dict[str, list[int]] = {}
        for place, name in enumerate(classes):
            places.setdefault(name, []).append(place)
        for name, where in places.items():
            found[where] = self._search.nearest(
                self._search.known_class(name), noisy[where], mechanism.eta_of(name)
            )
        return found


def _as_shown(decision: Decision) -> list[str]:
    """Return for each word the value that the next word's noise depends on.

    The value is the word's form, or one constant for all drawn words. Different letters in a name
    then reveal nothing new about the word after it.
    """
    shown = [*decision.forms]
    for place in decision.drawn():
        shown[place] = "\0drawn"  # no text has a NUL
    return shown


def _drawn(
    decision: Decision, surrogates: Surrogates, first: int, document: str, done: Container[int]
) -> dict[int, str]:
    """Return the replacements of the words to be drawn, by place.

    Args:
        decision: about some words of the document.
        surrogates: of the document.
        first: which word of the document the first of these is.
        done: places of words that are replaced already.
        document: the whole text.
    """
    like, tags = decision.like_names.tolist(), decision.tags.tolist()
    words: list[DrawnSurrogate] = []
    end = len(document)
    for place in decision.drawn():
        if place in done:
            continue
        word, kind = decision.words[place], KINDS[tags[place]]
        form = word.text if kind == IDENTIFIER else decision.forms[place]
        if kind == "NAME" and word.text.islower():
            kind = UNLISTED  # "washer" reads as a name, and a noun reads better in its place
        sides = like[place], like[place + 2]
        gap = document[end : word.start] if 0 <= word.start - end <= _NEAR else ""
        titled = kind == "PERSON" and _titled(decision.words, place)
        gender = _gender(decision.words, place) if kind == "PERSON" else ""
        hides = REASONS[decision.reasons[place]]
        words.append(
            DrawnSurrogate(first + place, kind, word.text, form, *sides, gap, titled, gender, hides)
        )
        end = word.end
    found = surrogates.replace(words)
    return {place - first: text for place, text in found.items()}


_NEAR = 2
"""Characters between two words that may be parts of one name."""


def _titled(words: Sequence[Word], place: int) -> bool:
    """Return whether the word before ``place`` is a title, with a full stop or without."""
    before = [word.text for word in words[max(place - 2, 0) : place]]
    if before[-1:] == ["."]:
        before.pop()
    return bool(before) and before[-1].lower() in TITLES


def _gender(words: Sequence[Word], place: int) -> str:
    """Return the gender that the word before a name shows: "m" after "my brother"; "" for none."""
    before = [word.text.lower() for word in words[max(place - 2, 0) : place]]
    if before[-1:] in ([","], ["."]):
        before.pop()
    return next((gender for gender, told in _TOLD if {*before[-1:]} & told), "")


_TOLD = (("f", listed("women")), ("m", listed("men")))
"""What is said of women and of men."""


def _replaced(document: str, words: Sequence[Word], replaced: Mapping[int, str]) -> list[str]:
    """Return each word as it was typed, or its replacement."""
    texts = [document[start:end] for _, start, end, _, _ in words]
    for place, text in replaced.items():
        texts[place] = text
    return texts


@cache
def shipped_reader() -> Reader | None:
    """Open the finder that reads the context; None where this installation has none."""
    try:
        return ContextFinder.shipped()
    except NotReady:
        return None
