"""Reads an answer with the question before it: "What is your surname?", "Fish".

The question names the value, as a label does. So a short answer is read as if the label stood
before it: "surname: Fish". Words that answer nothing pass: "no", "why".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from sottovoce.core.privacy.origins import origins
from sottovoce.core.privacy.records import records
from sottovoce.core.privacy.secret_values import secret_values
from sottovoce.core.privacy.sight import Sight
from sottovoce.core.privacy.signs import Sign, listed, signs
from sottovoce.core.privacy.talk import talk
from sottovoce.core.text.words import Kind, Word

_LABEL = re.compile(
    r"\byour (?:[\w’'-]+ ){0,3}?[*_\"“]{0,3}(?P<label>"
    r"(?:account|card|membership|order|passport|phone|policy|reference|telephone) number"
    r"|booking (?:code|reference)|date of birth|(?:door|gate|alarm) code"
    r"|(?:family|first|full|given|last|maiden|middle) name|name|surname|employer"
    r"|password|passcode|passphrase|pin(?: code)?|postcode|zip code|security answer"
    r")\b[^.!?\n]{0,60}[.?:][\s*_\"”]*\Z",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"\b(?:what|which|who|i have|i get|confirm|enter|give|provide|send|share|state|tell|type)\b"
    r"[^.!?\n]*\Z",
    re.IGNORECASE,
)
"""Not "Did you change your password?"."""
_NEAR: Final = 200
"""Characters at the end of a text in which it may ask."""
_MOST_WORDS: Final = 8
"""Words and marks of an answer."""
_NO_ANSWERS: Final = listed("no_answers") | {"no", "none", "not", "null"}
_YES: Final = frozenset({"ok", "okay", "sure", "thanks", "yes"})
_FILL: Final = listed("in_sentences") | {"a", "call", "i", "is", "it", "me", "my", "name"}


def asked_for(text: str) -> str:
    """Return what a text asks for at its end, in small letters; "" for nothing.

    >>> asked_for("Thanks. What is your surname?"), asked_for("Your name is nice.")
    ('surname', '')
    """
    end = text[-_NEAR:]
    found = _LABEL.search(end)
    return found["label"].lower() if found and _ASKS.search(end[: found.start()]) else ""


def signed(document: str, sight: Sight) -> Iterator[Sign]:
    """Yield the words of a text that labels and the like show to be private."""
    yield from secret_values(document, sight)
    yield from signs(sight)
    yield from records(document, sight)
    yield from talk(sight)
    yield from origins(sight)


def answered(
    asked: str,
    document: str,
    sight: Sight,
    see: Callable[[str, Sequence[Word]], Sight],
) -> Iterator[Sign]:
    """Yield the words of a short answer that its question makes private.

    Args:
        asked: the label, see `asked_for`.
        sight: of consecutive words of the document.
        see: returns the sight of other words.
    """
    words, fill = sight.words, _FILL.union(asked.split())
    if not asked or len(words) > _MOST_WORDS or "\n" in document.strip():
        return
    first = 0
    while first < len(words) and (
        words[first].kind is Kind.PUNCTUATION
        or words[first].clitic
        or sight.lower[first] in fill | _YES
    ):
        first += 1
    if first == len(words) or document[: words[0].start].strip():
        return
    asks = words[-1].text == "?" and len(words) > 2
    answers = not asks and _NO_ANSWERS.isdisjoint(sight.lower)
    before, label, at = f"{asked}: ", list[Word](), 0
    for part in (*asked.split(), ":"):
        at = before.index(part, at)
        kind = Kind.PUNCTUATION if part == ":" else Kind.WORD
        label.append(Word(part, at, at + len(part), kind))
    begin = words[first].start - len(before)
    moved = [
        word._replace(start=word.start - begin, end=word.end - begin) for word in words[first:]
    ]
    text = before + document[words[first].start :]
    other = see(text, [*label, *moved])
    for at, hides in signed(text, other):
        passes = other.lower[at] in fill or other.words[at].clitic
        if at >= len(label) and not passes and (answers or not other.marks[at]):
            yield Sign(at - len(label) + first, hides)
