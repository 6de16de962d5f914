"""Decides under the policy `personal` which words reveal a person.

All other policies decide from a word and the looks of its neighbours. `personal` reads context: a
finder's probabilities, the public vocabulary, signs beside a word, and the owner's choices. So no
bound holds for the words that pass. A drawn word is replaced as under every policy, from its kind
and shape alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.privacy import identifying
from sottovoce.core.privacy.cities import OF_PERSONS, pass_cities
from sottovoce.core.privacy.companies import hide_companies
from sottovoce.core.privacy.hiding import KINDS as HIDDEN
from sottovoce.core.privacy.hiding import LISTED, Hiding, Spans
from sottovoce.core.privacy.identifier_parts import is_name, joined, part_marks, says_nothing
from sottovoce.core.privacy.passing import (
    is_amount,
    is_eponym,
    is_theorem,
    pass_ordinary,
    pass_streets,
    pass_types,
    passing,
)
from sottovoce.core.privacy.persons import (
    hide_again,
    hide_dates,
    hide_house_numbers,
    hide_initials,
    hide_numbers,
    hide_places_again,
    is_named_day,
    name_listed,
    name_persons,
    pass_times,
    pass_titles,
)
from sottovoce.core.privacy.phrases import hide_phrases, pass_phrases
from sottovoce.core.privacy.policies import IDENTIFIER, KINDS, Treatment
from sottovoce.core.privacy.postal import addresses
from sottovoce.core.privacy.products import (
    is_counted,
    is_product,
    is_usual,
    stands_alone,
    technologies,
)
from sottovoce.core.privacy.program_lines import in_code, is_decorator
from sottovoce.core.privacy.program_names import is_checked, is_numbered, is_type, may_be_type
from sottovoce.core.privacy.questions import answered, signed
from sottovoce.core.privacy.scripts import (
    Language,
    is_capital_abroad,
    is_foreign,
    is_ideograph,
    languages,
    names_abroad,
    names_in_scripts,
    passes_abroad,
)
from sottovoce.core.privacy.sight import Sight
from sottovoce.core.privacy.signs import POSSESSIVES, is_field
from sottovoce.core.privacy.signs import listed as listed_signs
from sottovoce.core.privacy.surrogates import names
from sottovoce.core.privacy.surrogates.dates import Dates
from sottovoce.core.privacy.surrogates.person_surrogates import Past
from sottovoce.core.privacy.tables import Cell, cells, in_cells, rows
from sottovoce.core.privacy.values import Values
from sottovoce.core.text.vocabulary import Listed, Mark, Vocabulary, listed_names
from sottovoce.core.text.word_classes import UNLISTED
from sottovoce.core.text.words import Kind, Word

REACH: Final = 32
"""Words on either side that a decision may depend on, besides what the finder reads."""

REASONS: Final = ("", *HIDDEN, LISTED)
"""What a drawn word hides, as `Personal.weigh` numbers it; the first, of words that pass."""

_FOUND: Final = ("persons", "places", "organisations")
"""What the columns of a finder hide."""
_KIND: Final = {
    "persons": "PERSON",
    "places": "PLACE",
    "organisations": "ORGANISATION",
    "origins": "ORIGIN",
    "unlisted": UNLISTED,
    "facts": UNLISTED,
}
"""What a hidden word is drawn as; others are drawn as identifiers or words in no list."""
_REPORTED: Final = {kind: KINDS.index(kind) for kind in (*_KIND.values(), IDENTIFIER)}
_DRAW, _PASS = Treatment.DRAW, Treatment.PASS
_FACT: Final = KINDS.index("FACT")
_SHORT: Final = 4
_VOWELS: Final = frozenset("aeiouyàáâäãåèéêëìíîïòóôöõùúûü")


class Overview(NamedTuple):
    """Findings that need the whole document.

    Attributes:
        forced: where the owner's lists and patterns match.
        cells: parts of tables under telling headers.
    """

    forced: Spans
    cells: Sequence[Cell]


class Personal:
    """Weighs finder, vocabulary, signs and the owner's lists for one owner.

    Args:
        vocabulary: the public words.
        hiding: the owner's choices.
        past: what the conversation hid before.
    """

    def __init__(self, vocabulary: Vocabulary, hiding: Hiding, past: Past) -> None:
        self._past = past
        self.cities: set[str] = set()
        """Cities that passed."""
        self.values = Values(past.values)
        self._vocabulary = vocabulary
        self._marks = vocabulary.marks
        self._hiding = hiding
        self._every = "unlisted" in hiding.kinds
        named = hiding.kinds & {*_FOUND}
        self._kinds = hiding.kinds | {"unlisted"} if named else hiding.kinds
        self._dated: tuple[str, Dates] | None = None

    def weigh(
        self,
        document: str,
        words: Sequence[Word],
        found: NDArray[np.float32],
        kinds: NDArray[np.uint8],
        known: Overview,
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]:
        """Return each word's kind, its treatment, and the reason to hide it.

        These are places in `policies.KINDS`, numbers of `Treatment`, and places in `REASONS`.

        Args:
            document: the whole text.
            words: consecutive words of it.
            found: Floats2d (n, at least 3), probabilities of person, place and organisation.
            kinds: Ints1d (n,), how the words read by themselves.
            known: what was read over the whole document.
        """
        if not words:
            return kinds, np.full(0, _PASS, np.uint8), np.zeros(0, np.uint8)
        sight = self._sight(document, words)
        hides = [
            self._alone(sight, found, place, document, language)
            for place, language in enumerate(languages(sight))
        ]
        name_persons(sight, hides)
        name_listed(sight, hides, found[:, 0].tolist())
        made = technologies(sight, hides, self._past.persons)
        for place in (public := {*passing(sight, hides), *made}):
            hides[place] = ""
        phrases = pass_phrases(document, sight, hides)
        hide_dates(self._dates(document), sight, hides, dated=self._past.dated)
        told = [*signed(document, sight), *answered(self._past.asked, document, sight, self._sight)]
        public.difference_update(place for place, _ in told)
        weak = ("", *_FOUND, "unlisted")
        for place, kind in told:
            hides[place] = kind if hides[place] in weak else hides[place]
        for place in names_abroad(sight):
            hides[place] = hides[place] or "persons"
        for place, sure in names_in_scripts(document, sight):
            if sure or not sight.marks[place]:
                hides[place] = hides[place] or ("persons" if sure else "unlisted")
        for place in (in_rows := {*rows(sight)}):
            hides[place] = hides[place] or "persons"
        hide_numbers(document, sight, hides)
        celled = dict(in_cells(sight, known.cells))
        hides[:] = [celled.get(place, hidden) for place, hidden in enumerate(hides)]
        pass_times(sight, hides)
        _beside(sight, hides, found)
        hide_companies(sight, hides)
        pass_types(sight, hides)
        pass_ordinary(sight, hides)
        told_places = in_rows | dict(told).keys() | {place for place in celled if celled[place]}
        for place in {*chain(*phrases)} - told_places:
            hides[place] = ""
        hide_again(sight, hides, self._past.persons)
        hide_phrases(hides, phrases)
        for place in public:
            hides[place] = ""
        hide_initials(sight, hides)
        pass_titles(sight, hides)
        hide_house_numbers(sight, hides)
        for place in addresses(sight, hides):
            hides[place] = "places"
        pass_streets(sight, hides)
        hide_places_again(sight, hides, self._past.others, found[:, :3].sum(axis=1).tolist())
        cities = self._past.cities if self._past.private else None
        self.cities |= pass_cities(document, sight, hides, found[:, 1].tolist(), cities)
        allows = known.forced.allows
        self.values.hide(
            document, sight, hides, lambda at: hides[at] in self._kinds and not allows(words[at])
        )
        if "facts" in self._hiding.kinds:
            for place in np.flatnonzero(kinds == _FACT).tolist():
                hides[place] = hides[place] or "facts"
        called, treatments = kinds.copy(), np.full(len(words), _PASS, np.uint8)
        reasons = np.zeros(len(words), np.uint8)
        for place, hidden in enumerate(hides):
            if hidden not in self._kinds:
                hidden = ""
            if known.forced.hides(words[place]):
                hidden = LISTED if words[place].kind is Kind.IDENTIFIER else hidden or LISTED
            elif allows(words[place]):
                hidden = ""
            if hidden and words[place].kind is not Kind.PUNCTUATION:
                treatments[place] = _DRAW
                called[place] = _REPORTED[drawn_as(words[place], hidden)]
                reasons[place] = REASONS.index(hidden)
        return called, treatments, reasons

    def _dates(self, document: str) -> Dates:
        """Return the dates of a document; the last document's are kept for its next window."""
        if self._dated is None or self._dated[0] is not document:
            self._dated = document, Dates(document)
        return self._dated[1]

    def read(self, document: str) -> Overview:
        """Return the results that need the whole document: the owner's lists, and tables."""
        return Overview(self._hiding.spans(document, allow=True), cells(document))

    def _sight(self, document: str, words: Sequence[Word]) -> Sight:
        gaps, end = [], words[0].start if words else 0
        for word in words:
            gaps.append(document[end : word.start])
            end = word.end
        marks = [self._marks(w.text) if w.kind is Kind.WORD else 0 for w in words]
        return Sight(words, gaps, marks, [word.text.lower() for word in words])

    def _alone(
        self,
        sight: Sight,
        found: NDArray[np.float32],
        place: int,
        document: str,
        language: Language,
    ) -> str:
        """Return a word's kind by the word itself and the finder's probabilities; "" for none."""
        word = sight.words[place]
        if word.kind is Kind.PUNCTUATION or word.clitic:
            return ""
        if place and sight.words[place - 1].text in "@＠﹫" and not sight.breaks(place):
            return "" if sight.gaps[place] and _PRICE.fullmatch(word.text) else "contacts"
        if word.kind is Kind.IDENTIFIER:
            after = document[word.end : word.end + 1]
            if after.isupper() and _PACKAGES.fullmatch(word.text) and _is_mixed(sight, place + 1):
                return ""  # "c.a.s.OrderService", as loggers shorten packages
            if word.text[0] == "@" and is_decorator(document, word):
                return ""
            called, hashed = after == "(", document[word.start - 1 : word.start] == "#"
            private = identifying.private(word.text, part_marks, called=called, hashed=hashed)
            amount = private in ("numbers", "contacts") and (
                is_amount(sight, place) or is_checked(sight, place)
            )
            return "" if amount or (private and says_nothing(word.text)) else private
        if not word.text.isalpha() and not any(map(str.isalpha, word.text)):
            return ""  # signs and pictures
        other = float(found[place, 3]) if found.shape[1] > len(_FOUND) else 0.0
        best = int(found[place, :3].argmax())
        named, marks = float(found[place, :3].sum()), sight.marks[place]
        if (
            marks & Mark.PUBLIC
            and _FOUND[best] != "places"
            and not listed_names(sight.lower[place]) & ~Listed.SURNAME
            and not _is_acronym(word.text)
            and (not listed_names(sight.lower[place]) or OF_PERSONS.isdisjoint(sight.lower))
        ):
            marks &= ~Mark.NAME  # "Lufthansa", a name of nobody in the lists, or of few
        capital = sight.capital(place)
        if len(word.text) == 1 and (word.text.isascii() or word.text.islower()):
            return ""
        if sight.lower[place] == "the" and (not capital or sight.begins(place)):
            return ""
        ordinary = marks and not marks & Mark.NAME
        if (ordinary or sight.lower[place] in _FIELDS) and _is_field(sight, place):
            return ""
        if sight.lower[place] in _PLAIN_VALUES and sight.words[place - 1].text == ":":
            return ""  # "Author: unknown"
        if sight.lower[place] in _LABELS:
            unlisted = word.text.isupper() and not marks
            if unlisted or _is_label(sight, place):
                return ""  # "MRN 00482913"; its value has a sign
        glued = "::" in (document[word.end : word.end + 2], document[word.start - 2 : word.start])
        if glued and marks & Mark.WORD:
            return ""  # "crate::dale::Glen"
        mixed = _is_mixed(sight, place)
        tag = mixed and document[word.start - 1 : word.start] == "<"
        if tag and identifying.compound(word.text, self._word):
            return ""  # "<SubmitButton"
        if mixed and is_type(word.text, self._word, likely=named >= _LIKELY):
            return ""
        if word.text in _DECLARE and in_code(document, word.start):
            return ""
        itself = sight.lower[place] in _ITSELF and sight.begins(place)  # "Me and Rose"
        if itself or (marks & Mark.WORD and is_field(sight, place)) or is_numbered(sight, place):
            return ""
        after_name = place and sight.capital(place - 1)  # "the Marsh brothers"
        if word.text.removesuffix("s") in _RELATIONS and not after_name:
            return ""  # "my dads results"
        if capital and is_eponym(sight, place) and self._is_public(word.text):
            return ""
        if not marks and not self._every and is_foreign(word.text):
            return ""  # see `scripts`
        if capital and is_theorem(sight, place):
            return ""
        if language and not self._every and passes_abroad(sight, place, named, language):
            return ""
        if found[place, :2].max() < _LIKELY and is_product(sight, place) and not self._every:
            return ""
        if not marks and not self._public(word.text, sight, place, document, named):
            if named >= _DOUBT:
                return _FOUND[best]
            doubtful = self._every or _doubtful(word.text, named, sight, place, document)
            doubtful |= language is Language.OTHER and is_capital_abroad(sight, place)
            return "unlisted" if doubtful else ""
        shouted = not marks & Mark.NAME and sight.shouted(place)
        first = capital and (shouted or sight.begins(place))
        if other >= named and (not marks & Mark.NAME or _FOUND[best] == "organisations"):
            return ""
        nobody = marks & Mark.WORD or not marks & Mark.NAME or not listed_names(sight.lower[place])
        company = nobody and marks & Mark.PUBLIC and _FOUND[best] == "organisations"
        if company and float(found[place, 0]) < _PERSON and stands_alone(sight, place):
            return ""  # a public company or its product
        if marks & Mark.DATE and named < 0.9 and _beside_dates(sight, place):
            return ""  # "April and May"
        least = _least(marks, best, capital, first and not _is_acronym(word.text))
        if marks & (Mark.PUBLIC | Mark.WORD) and is_counted(sight, place):
            least = max(least, 0.9 if marks & Mark.PUBLIC else _LIKELY)
        typed = (
            not marks & Mark.NAME
            or may_be_type(sight.lower[place])
            or (
                marks & Mark.WORD
                and not names.gender(sight.lower[place])
                and _TYPED.search(document[max(word.start - 2, 0) : word.end + 1])
            )
        )
        if capital and typed and in_code(document, word.start):
            least = max(least, _SURE)
        if _is_acronym(word.text) and marks & Mark.PUBLIC and _mixed(document, word.start):
            least = max(least, _SURE)  # "ISO" is a given name too
        return _FOUND[best] if named >= least else ""

    def _is_public(self, text: str) -> bool:
        return bool((self._marks(text) | self._marks(text + "'s")) & Mark.PUBLIC)

    def _public(self, text: str, sight: Sight, place: int, document: str, named: float) -> bool:
        """Return whether an unlisted word is made of public words, misspelt, or a word of code."""
        start = sight.words[place].start
        if "'" in text or "’" in text:  # "l'imparfait", "o'clock"
            return named < _UNSURE and all(
                len(part) == 1 or self._word(part) for part in re.split("['’]", text)
            )
        if text[1:] != text[1:].lower() and not text.isupper():
            if identifying.formula(text):
                return True
            glued = document[start - 1 : start] in (".", "<", "`", "/", "\\")
            code = text[0].islower() or glued or in_code(document, start)
            parts = part_marks if code else self._word
            if named < _LIKELY and identifying.compound(text, parts):
                return True
        singular = text.removesuffix("s")
        if singular.isupper() and 1 < len(singular) <= _SHORT and named < _ACRONYM:
            return not is_name(singular.lower()) and _mixed(document, start)
        if named >= _UNSURE or not text.islower() or names.known(text):
            return False
        if not text.isascii():
            return False
        if joined(text) or self._vocabulary.misspelt(text):
            return True
        short = len(text) <= _SHORT
        if short and _VOWELS.isdisjoint(text):
            return True
        return (short or named < _SAFE) and in_code(document, start)

    def _word(self, part: str) -> int:
        """Return the marks of a listed word that is no name; 0 for others."""
        marks = self._marks(part)
        return 0 if marks & Mark.NAME else marks


_PACKAGES: Final = re.compile(r"(?:[a-z]\.){2,8}")
_PRICE = re.compile(r"[$€£]?\d{1,6}(?:[.,]\d{1,2})?")  # "3 x apples @ 0.50"


def _is_mixed(sight: Sight, place: int) -> bool:
    """Return whether a word has capitals inside: "OrderService"."""
    text = sight.words[place].text if place < len(sight.words) else ""
    return text[1:] != text[1:].lower() and not text.isupper()


_LABELS: Final = listed_signs("number_keys") | listed_signs("date_keys")
_TYPED = re.compile(r"\A(?:.?[<(.\[]|: )\w+|\w[(.<]\Z", re.DOTALL)
"""The name of a type in a program: "holder: Person", "Person.NONE"."""
_DECLARE: Final = frozenset({"val", "mod", "fun", "mut", "var"})
"""Words of programs that are also names."""
_RELATIONS: Final = listed_signs("relations") - {"ex"}
_ITSELF: Final = listed_signs("first_persons") - {"i", "mine"}
_FIELDS: Final = _LABELS.union(
    *map(listed_signs, ("person_keys", "address_labels", "organisation_types", "prompt_keys"))
)

_PLAIN_VALUES: Final = listed_signs("plain_values")
_DOUBT: Final = 0.1
"""The probability from which an unlisted word is drawn as a name of the found kind."""
_UNSURE: Final = 0.05
"""The probability below which an unlisted word in small letters may be a misspelling."""
_CARELESS: Final = 0.01
"""The same, where the writer may write names small."""
_LISTED = _BEGINNING = 0.003
"""The same, of words in lists of given names and surnames, and where a sentence begins."""
_CAPITAL: Final = 0.01  # of an unlisted word with a capital inside a sentence
_LIKELY, _PERSON = 0.5, 0.2  # of any name; of a person where a company is likelier
_ACRONYM: Final = 0.02  # of up to four capitals
_SAFE: Final = 0.01  # of an unlisted word in a line of code
_SURE: Final = 0.8
_NEVER: Final = 2.0


def _is_field(sight: Sight, place: int) -> bool:
    """Return whether a line or sentence begins with a word and a colon: "Class: 4B. Meds: none"."""
    begins = not place or sight.breaks(place) or sight.words[place - 1].text in (".", ";")
    colon = place + 1 < len(sight.words) and sight.words[place + 1].text == ":"
    return begins and colon and not sight.breaks(place + 1)


def _is_label(sight: Sight, place: int) -> bool:
    """Return whether a word names the number, date or field after it: "DOB 22/11/1958"."""
    after = [word.text for word in sight.words[place + 1 : place + 3]]
    while after[:1] in (["is"], ["."], ["no"], ["No"], ['"'], ["'"]):
        del after[0]
    sign = "".join(after[:1])[:1]
    return sight.lower[place] in _LABELS and (sign in (":", "=", "+", "(") or sign.isdigit())


def _beside_dates(sight: Sight, place: int) -> bool:
    """Return whether a month or weekday is next to another one: "April", "May"."""
    for step in (-1, 1):
        other = place + step
        while 0 <= other < len(sight.words) and (
            sight.words[other].kind is Kind.PUNCTUATION or sight.lower[other] in _AND
        ):
            other += step
        if 0 <= other < len(sight.words) and sight.marks[other] & Mark.DATE:
            return True
    return False


_AND: Final = ("and", "or", "to")


def _least(marks: int, best: int, capital: bool, first: bool) -> float:
    """Return the probability from which a listed word counts as a name."""
    person = best == 0
    if marks == Mark.SMALL and capital:
        return _DOUBT if first else _SAFE
    if marks & Mark.ORIGIN:
        return 0.95 if person else _NEVER
    if marks & (Mark.PLACE | Mark.DATE | Mark.TITLE | Mark.UNIT) and not (
        marks & Mark.NAME and person
    ):
        return 0.7 if person else _NEVER
    if marks & Mark.NAME and marks & Mark.PUBLIC:
        return (0.3 if first else 0.15) if capital else 0.7
    if marks & Mark.NAME:
        if not capital:
            return 0.35 if person else 0.7
        return 0.2 if first else 0.05
    if marks & Mark.PUBLIC:
        return 0.7 if person else 0.9
    if capital and marks & Mark.COMMON:
        return 0.4 if first else 0.1 if person else 0.2
    return (0.25 if first else 0.1) if capital else 0.5


def _beside(sight: Sight, hides: list[str], found: NDArray[np.float32]) -> None:
    """Hide words with a capital that stand beside a found name: "Will Kowalski", "Tom H. Long"."""
    for order in (range(len(hides)), range(len(hides) - 1, -1, -1)):
        step = 1 if order.step > 0 else -1
        for place in order:
            if hides[place] not in _FOUND[:1] or not 0 <= place + step < len(hides):
                continue
            other = place + step
            edge = max(place, other)
            if sight.gaps[edge] not in (" ", "") or hides[other]:
                continue
            text, marks = sight.words[other].text, sight.marks[other]
            if sight.words[other].kind is not Kind.WORD or not text[:1].isupper():
                continue
            day = bool(marks & Mark.DATE)
            dated = day and not (step < 0 and is_named_day(sight, other))
            if not sight.capital(place) or dated or marks & Mark.TITLE:
                continue
            if text.isupper() and _is_label(sight, other):
                continue
            name = marks & Mark.NAME or not marks or (len(text) == 1 and text not in ("I", "A"))
            name = name or day or (step < 0 and float(found[other, 0]) >= _PERSON)
            if (
                other < place
                and sight.begins(other)
                and (
                    sight.lower[other] in _BEFORE_NAMES
                    or (sight.lower[other] in POSSESSIVES and not is_usual(sight.lower[place]))
                )
            ):
                name = False  # "Call Rose Kerr", "My Collie"
            if marks & Mark.WORD and sight.shouted(other):
                name = False  # "EMAIL TO MY BOSS DIANE"
            inner = not sight.begins(other) and not marks & Mark.PUBLIC
            if name or (inner and float(found[other, :3].sum()) >= _DOUBT):
                hides[other] = hides[place]


_BEFORE_NAMES: Final = listed_signs("addressed") | (
    {*("call", "contact", "meet", "ring", "visit")}
    | {*("are", "did", "do", "does", "has", "have", "is", "should", "was", "were")}
)
"""Verbs before a name at the beginning of a sentence."""


def drawn_as(word: Word, hidden: str) -> str:
    """Return the kind of the word that replaces a hidden word."""
    if word.kind is Kind.IDENTIFIER or hidden in ("dates", "numbers"):
        return IDENTIFIER
    return UNLISTED if is_ideograph(word.text) else _KIND.get(hidden, UNLISTED)


_WITHIN: Final = frozenset({"in", "near", "from"})


def _doubtful(text: str, named: float, sight: Sight, place: int, document: str) -> bool:
    """Return whether an unlisted word, which the finder passes, may be a name all the same."""
    if not text.isascii() and unicodedata.normalize("NFKC", text) != text:
        return True  # in full-width letters, which the finder and the lists do not read
    if not text.islower():
        doubtful = named >= (_BEGINNING if sight.begins(place) else _CAPITAL)
    else:
        careful = _careful(document, sight.words[place].start)
        doubtful = named >= (_DOUBT if careful else _CARELESS)
        if place and not careful and sight.lower[place - 1] in _WITHIN:
            doubtful = True  # "i work in dunstable"
    return doubtful or (named >= _LISTED and names.known(text.lower()))


def _is_acronym(text: str) -> bool:
    return text.isupper() and 1 < len(text) <= _SHORT


def _mixed(document: str, start: int) -> bool:
    """Return whether the words around a place are not all in capitals."""
    around = document[max(start - 80, 0) : start + 80]
    return sum(map(str.islower, around)) > sum(map(str.isupper, around))


_STARTS = re.compile(r"(?:\A|[.!?]\s+|\n\s*\n\s*)([^\W\d_])")
_ALONE = re.compile(r"(?<![\w'’])i(?![\w.:)(])")
_FEWEST_STARTS: Final = 0.75
_AROUND: Final = 300


def _careful(document: str, start: int) -> bool:
    """Return whether the writer begins sentences with capitals, and so would write names."""
    begin = max(start - _AROUND, 0)
    around = document[begin : start + _AROUND]
    starts = _STARTS.findall(" " * (begin > 0) + around)
    capitals = sum(map(str.isupper, starts))
    return capitals > 0 and capitals >= _FEWEST_STARTS * len(starts) and not _ALONE.search(around)
