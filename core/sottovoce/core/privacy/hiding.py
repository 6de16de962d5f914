"""The owner's choices: kinds, words and patterns to hide.

Under the policy `personal` each kind of personal data can be switched off, and words and phrases of
the owner pass. Hidden words and patterns never pass, under any policy. If a word is both hidden and
allowed, it is hidden. An app can hide more, and never less.

A pattern is a regular expression. Python's `re` has no time limit, and some expressions need
exponential time. So the number of ways in which an expression can match is bounded before it is
used, and it is applied to a few hundred characters at a time.
"""

from __future__ import annotations

import re
import re._constants as codes  # type: ignore[import-not-found, unused-ignore]
import re._parser as parser  # type: ignore[import-not-found, unused-ignore]
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from sottovoce.core.errors import InvalidInput
from sottovoce.core.text.plain_letters import as_read
from sottovoce.core.text.words import Word

KINDS: Final = (
    *("persons", "places", "organisations", "contacts", "numbers", "secrets", "dates", "origins"),
    *("unlisted", "facts"),
)
"""What can be hidden: see `docs/personal.md` for what each kind holds."""

LISTED: Final = "listed"
"""What a word hides that a list or pattern names, and no kind."""

_PASSING: Final = frozenset({"facts", "unlisted"})
"""Kinds that pass unless the owner says otherwise."""

MOST_WORDS: Final = 2_000
"""Words and phrases in one list."""
MOST_PATTERNS: Final = 50
_LONGEST_PHRASE: Final = 200
"""Characters of a word or phrase."""
_LONGEST_PATTERN: Final = 200
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_MOST_WAYS: Final = 10_000
"""Ways to match that a pattern may try from one character on."""
_LONGEST_REPEAT: Final = 256
_CHUNK, _OVERLAP = 512, 256
"""Characters that a pattern reads at once, and those that two readings share."""


@dataclass(frozen=True)
class Pattern:
    """A named regular expression, checked.

    Attributes:
        name: for messages; never the text that it found.
        expression: as the owner wrote it.
    """

    name: str
    expression: str
    _compiled: re.Pattern[str] = field(repr=False, compare=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read "NAME=EXPRESSION".

        Raises:
            InvalidInput: the text has another form, or the expression could take too long.
        """
        name, separator, expression = text.partition("=")
        if not separator or not _NAME.fullmatch(name) or not expression:
            raise _wrong(name[:32], "is not NAME=EXPRESSION", 'write one such as "staff=EMP[0-9]+"')
        if len(expression) > _LONGEST_PATTERN:
            raise _wrong(name, f"has over {_LONGEST_PATTERN} characters", "split it")
        try:
            compiled = re.compile(expression)
            ways = _ways(parser.parse(expression))
        except re.error as error:
            raise _wrong(name, f"is no expression: {error}", "see Python's `re`") from None
        except (OverflowError, RecursionError):
            ways = _MOST_WAYS + 1
        if ways > _MOST_WAYS:
            raise _wrong(
                name,
                "could take too long on some texts",
                "leave out nested repeats, and bound repeats: [0-9]{1,8} for [0-9]+",
            )
        if compiled.match("") is not None:
            raise _wrong(name, "also matches an empty text", "let it need one character")
        return cls(name, expression, compiled)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where the pattern matches; a match over 256 characters may be missed."""
        found = []
        for start in range(0, max(len(text), 1), _CHUNK - _OVERLAP):
            window = text[max(start - 1, 0) : start + _CHUNK]
            shift = max(start - 1, 0)
            found += [(m.start() + shift, m.end() + shift) for m in self._compiled.finditer(window)]
        return found


def _ways(items: Iterable[Any]) -> int:
    """Return an upper bound of the ways in which an expression can match at one place.

    Raises:
        OverflowError: there are too many, or the expression refers back to what it matched.
    """
    ways: int = 1
    for code, value in items:
        if code is codes.BRANCH:
            ways *= sum(_ways(branch) for branch in value[1])
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            ways *= _repeated(*value)
        elif code is codes.SUBPATTERN:
            ways *= _ways(value[3])
        elif code in (codes.ASSERT, codes.ASSERT_NOT):
            ways *= _ways(value[1])
        elif code in (codes.GROUPREF, codes.GROUPREF_EXISTS):
            raise OverflowError("it refers back to a group")
        elif code in (codes.POSSESSIVE_REPEAT, codes.ATOMIC_GROUP):
            inner = value[2] if code is codes.POSSESSIVE_REPEAT else value
            if _ways(inner) > _MOST_WAYS:
                raise OverflowError("too many ways to match")
        if ways > _MOST_WAYS:
            raise OverflowError("it has too many ways to match")
    return ways


def _repeated(least: int, most: int, items: Sequence[Any]) -> int:
    most = min(int(most), _LONGEST_REPEAT)
    inner = _ways(items)
    if inner == 1:
        return max(most - min(least, most), 0) + 1
    ways = int(inner ** min(most, 32)) * (most - min(least, most) + 1)
    if most > 32 or ways > _MOST_WAYS:
        raise OverflowError("it repeats what can match in several ways")
    return ways


def _wrong(name: str, problem: str, fix: str) -> InvalidInput:
    return InvalidInput(f"the pattern {name!r} {problem}", fix=fix, subject="patterns")


class Phrases:
    """Words and phrases in any case, found word by word.

    Args:
        phrases: each is one word or several; blanks and signs between them do not count.
        name: of the setting, for errors.
        most: how many are taken.

    Raises:
        InvalidInput: too many, one too long, or one without a letter or digit.
    """

    def __init__(
        self, phrases: Iterable[str] = (), name: str = "words", most: int = MOST_WORDS
    ) -> None:
        self._by_first: dict[str, list[tuple[str, ...]]] = {}
        self.given = tuple(phrases)
        if len(self.given) > most:
            raise InvalidInput(
                f"the list has {len(self.given)} words, at most {most} are taken",
                fix="use a pattern for words of one form",
                subject=name,
            )
        for phrase in self.given:
            parts = tuple(_parts(phrase))
            if not parts or len(phrase) > _LONGEST_PHRASE:
                raise InvalidInput(
                    "a listed phrase has no letter or digit, or too many characters",
                    fix=f"give words with at most {_LONGEST_PHRASE} characters",
                    subject=name,
                )
            self._by_first.setdefault(parts[0], []).append(parts)

    def __bool__(self) -> bool:
        return bool(self._by_first)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where the phrases stand in a text, as whole words."""
        if not self._by_first:
            return []
        words = [(m[0].casefold(), m.start(), m.end()) for m in _PART.finditer(text)]
        found = []
        for place, (word, start, _) in enumerate(words):
            for parts in self._by_first.get(word, ()):
                last = place + len(parts) - 1
                if last < len(words) and all(
                    words[place + each][0] == part for each, part in enumerate(parts)
                ):
                    found.append((start, words[last][2]))
        return found


_PART = re.compile(r"[^\W_]+")


def _parts(phrase: str) -> list[str]:
    return [part.casefold() for part in _PART.findall(as_read(phrase)[0])]


@dataclass(frozen=True)
class Hiding:
    """Choices of what to hide or allow, in addition to a policy's rules.

    Attributes:
        kinds: the `KINDS` that are hidden under `personal`.
        allow: words and phrases that pass under `personal`, unless they are also hidden.
        hide: words and phrases that never pass, under any policy.
        patterns: texts of these forms never pass, under any policy.
    """

    kinds: frozenset[str] = frozenset(KINDS) - _PASSING
    allow: Phrases = field(default_factory=Phrases)
    hide: Phrases = field(default_factory=Phrases)
    patterns: tuple[Pattern, ...] = ()

    @classmethod
    def of(
        cls,
        switches: Iterable[tuple[str, bool]] = (),
        allow: Iterable[str] = (),
        hide: Iterable[str] = (),
        patterns: Iterable[str] = (),
    ) -> Self:
        """Read an owner's settings.

        Raises:
            InvalidInput: an unknown kind, a wrong word or pattern, or too many of them.
        """
        chosen = dict.fromkeys(KINDS, True) | dict.fromkeys(_PASSING, False)
        for kind, on in switches:
            if kind not in chosen:
                raise InvalidInput(
                    f"unknown kind {kind!r}", fix=f"use one of: {', '.join(KINDS)}", subject="hide"
                )
            chosen[kind] = on
        read = tuple(map(Pattern.parse, patterns))
        if len(read) > MOST_PATTERNS:
            raise InvalidInput(
                f"there are {len(read)} patterns, at most {MOST_PATTERNS} are taken",
                fix="join some of them with |",
                subject="patterns",
            )
        kinds = frozenset(kind for kind, on in chosen.items() if on)
        return cls(kinds, Phrases(allow, "allow"), Phrases(hide), read)

    def and_more(self, other: Hiding) -> Hiding:
        """Return choices that hide whatever either hides; the other's ``allow`` is dropped."""
        words = dict.fromkeys((*self.hide.given, *other.hide.given))
        return Hiding(
            self.kinds | other.kinds,
            self.allow,
            Phrases(words, most=len(words)),
            tuple(dict.fromkeys((*self.patterns, *other.patterns))),
        )

    @property
    def always(self) -> tuple[str, ...]:
        """Hidden words, then patterns: what decides under every policy."""
        return *self.hide.given, *(pattern.expression for pattern in self.patterns)

    def spans(self, document: str, *, allow: bool) -> Spans:
        """Return where the lists and patterns match in a document, as people read it.

        Args:
            document: the whole text.
            allow: whether allowed words pass, as under `personal` alone.
        """
        if not (self.patterns or self.hide or (allow and self.allow)):
            return Spans((), ())
        text, places = as_read(document)
        hide = [span for pattern in self.patterns for span in pattern.spans(text)]
        hide += self.hide.spans(text)
        allowed = self.allow.spans(text) if allow else []
        if places is None:
            return Spans(allowed, hide)
        typed = [span for pattern in self.patterns for span in pattern.spans(document)]
        allowed, hide = (
            [(places[start], places[end - 1] + 1) for start, end in spans]
            for spans in (allowed, hide)
        )
        return Spans(allowed, hide + typed)

    def __repr__(self) -> str:
        """Name kinds and numbers; the words themselves may be private."""
        return (
            f"Hiding({sorted(self.kinds)}, {len(self.allow.given)} allowed, "
            f"{len(self.hide.given)} hidden, {len(self.patterns)} patterns)"
        )


class Spans:
    """Where an owner's lists match in a document; hiding wins.

    Args:
        allow, hide: spans in code points.
    """

    def __init__(self, allow: Sequence[tuple[int, int]], hide: Sequence[tuple[int, int]]) -> None:
        self._allow, self._hide = _merged(allow), _merged(hide)

    def __bool__(self) -> bool:
        return bool(self._allow or self._hide)

    def hides(self, word: Word) -> bool:
        """Return whether a hidden word or a pattern touches the word."""
        return _overlaps(self._hide, word, whole=False)

    def allows(self, word: Word) -> bool:
        """Return whether the whole word is allowed."""
        return _overlaps(self._allow, word, whole=True)


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def _overlaps(spans: Sequence[tuple[int, int]], word: Word, *, whole: bool) -> bool:
    at = bisect_right(spans, (word.end - 1, len(spans) and spans[-1][1])) - 1
    if at < 0 or spans[at][1] <= word.start:
        return False
    return not whole or (spans[at][0] <= word.start and word.end <= spans[at][1])
