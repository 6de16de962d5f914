"""Numbers of persons: telephones, cards, accounts, house numbers. Times of day pass.

A number in groups is several words. One word of it alone may look like an amount.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

from sottovoce.core.privacy.signs import Sight
from sottovoce.core.privacy.surrogates import formats
from sottovoce.core.text.words import Kind

__all__ = ["hide_house_numbers", "hide_numbers", "pass_times"]

_TELEPHONE = re.compile(
    r"(?<![\w.,])(?:(?:\+|\(\+?|00)\d{1,5}|\d{2,5})[) ./-]{1,3}(?:\(0\)[ ]?)?"
    r"\(?\d{2,5}\)?(?:[ ./-]{1,2}\d{2,6}){1,4}(?!\w)"
    r"|(?<![\w.,])\(?\d{2,5}\)?[ -]\d{3,4}[ -]?\d{3,4}(?!\w)"
    r"|(?<![\w.,])\d{3,4}[ -]\d{4}(?![\w.])"
    r"|(?<![\w.,])(?<!\d )\d{2}(?: \d{2}){2,4}(?![\w.,]| \d)"
)
"""Numbers in groups, as telephone numbers are written."""
_DIGITS: Final = (6, 20)
_YEARS = re.compile(r"(?:19|20)\d\d[ -](?:19|20)\d\d")
_ACCOUNT = re.compile(r"(?<!\w)[A-Z]{2}\d\d(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,3})?(?!\w)")
"""The number of a bank account in groups, with the letters of the bank."""
_ACCOUNT_DIGITS: Final = 8
_LAST_DIGITS = re.compile(
    r"\b(?:card|account|visa|mastercard|debit|credit|phone|number|iban)\b[^.!?\n]{0,30}?"
    r"\b(?:ending|ends)(?:(?: in| with|:) ?| )[*xX.]{0,12}(\d{3,6})\b",
    re.IGNORECASE,
)
_EXPIRY = re.compile(
    r"\b(?:exp|expiry|expires|expiring|expiration|valid|good|thru|through)\b[^\w\n]{0,3}"
    r"(?:(?:date|thru|through|until|to|on|is)\W{1,3}){0,2}(\d\d ?[/-] ?(?:\d\d|20\d\d))\b",
    re.IGNORECASE,
)
"""The month that a card is valid to."""
_OF_CARDS = re.compile(r"\b(?:card|visa|mastercard|amex|cvc2?|cvv2?)\b", re.IGNORECASE)


def hide_numbers(document: str, sight: Sight, hides: list[str]) -> None:
    """Hide numbers that are one telephone, card or account number in groups."""
    words = sight.words
    if not words:
        return
    ends = words[-1].end
    spans = []
    if "end" in document or "END" in document:  # far faster than the expression
        spans = [match.span(1) for match in _LAST_DIGITS.finditer(document, words[0].start, ends)]
    spans += (
        match.span()
        for match in _ACCOUNT.finditer(document, words[0].start, ends)
        if sum(map(str.isdigit, match[0])) >= _ACCOUNT_DIGITS
    )
    if _OF_CARDS.search(document, words[0].start, ends):
        spans += (each.span(1) for each in _EXPIRY.finditer(document, words[0].start, ends))
    for start, end in spans:
        at = bisect_right(words, start, key=lambda word: word.end)
        while at < len(words) and words[at].start < end:
            hides[at] = "numbers"
            at += 1
    starts = [word.start for word in words]
    for match in _TELEPHONE.finditer(document, words[0].start, words[-1].end):
        digits = sum(map(str.isdigit, match[0]))
        if not _DIGITS[0] <= digits <= _DIGITS[1] or _YEARS.fullmatch(match[0]):
            continue
        if _begins_with_date(match[0]):
            continue
        at = max(bisect_right(starts, match.start()) - 1, 0)
        while at < len(words) and words[at].start < match.end():
            if words[at].kind is Kind.IDENTIFIER:
                hides[at] = "contacts"
            at += 1
    start = 0
    while start < len(hides):
        end = start
        while end < len(hides) and words[end].kind is Kind.IDENTIFIER:
            if end > start and sight.gaps[end] != " ":
                break
            end += 1
        for run in formats.runs([word.text for word in words[start:end]]):
            if run.stop - run.start > 1:
                hides[start + run.start : start + run.stop] = ["numbers"] * (run.stop - run.start)
        start = max(end, start + 1)


def _begins_with_date(text: str) -> bool:
    return "date" in (formats.shape(text).sort, formats.shape(text.split()[0]).sort)


def hide_house_numbers(sight: Sight, hides: list[str]) -> None:
    """Hide a number of an address that stands beside a found place: "Thulegatan 78"."""
    for place in range(len(sight.words) - 1, -1, -1):
        word = sight.words[place]
        house = word.kind is Kind.IDENTIFIER and _HOUSE.fullmatch(word.text)
        if not house or hides[place] or _YEAR.fullmatch(word.text):
            continue
        for other in (place - 1, place + 1):
            if not 0 <= other < len(hides) or sight.breaks(max(place, other)):
                continue
            if not sight.gaps[max(place, other)] or hides[other] not in _ADDRESS:
                continue
            if sight.capital(other) or (hides[other] == "places" and other > place):
                hides[place] = "places"


_ADDRESS: Final = frozenset({"places", "unlisted", "persons"})
_YEAR = re.compile(r"(?:19|20)\d\d")
_HOUSE = re.compile(r"\d{1,4}[A-Za-z]?(?:[-/]\d{1,3}[A-Za-z]?)?")


_TIME = re.compile(r"\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?")
_ZONE = re.compile(r"[+-]\d{2}:?\d\d")


def pass_times(sight: Sight, hides: list[str]) -> None:
    """Let times of day and their zones pass that stand beside numbers: "1979-03-14 10:15 +0100"."""
    for place, word in enumerate(sight.words):
        if hides[place] == "contacts" and word.kind is Kind.IDENTIFIER:
            zone = _ZONE.fullmatch(word.text) and place
            if _TIME.fullmatch(word.text) or (
                zone and _TIME.fullmatch(sight.words[place - 1].text)
            ):
                hides[place] = ""
