"""Signs in the text around a word that it belongs to a person: titles, labels, addresses, origins.

Each sign holds whatever a name finder says. "Mrs Fish", "Surname: Long" and "12 Rose Lane" hold
words that are ordinary elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Final, NamedTuple

from sottovoce.core.privacy.sight import Sight
from sottovoce.core.privacy.surrogates import names
from sottovoce.core.text.vocabulary import Mark, listed_names
from sottovoce.core.text.words import Kind, Word

__all__ = [
    "GREETING",
    "LONG_AMOUNT",
    "QUOTES",
    "TITLES",
    "Sign",
    "counts",
    "is_field",
    "key_parts",
    "listed",
    "names_thing",
    "opens",
    "signs",
    "value_after",
]

_WORD, _IDENTIFIER = Kind.WORD, Kind.IDENTIFIER


@cache
def _lists() -> dict[str, frozenset[str]]:
    """Read the words of each sign: a line with a name, a colon and words."""
    text = resources.files(__package__).joinpath("signs.en.txt").read_text("utf-8")
    lines = (line.partition(":") for line in text.splitlines() if line and line[0] != "#")
    return {name: frozenset(words.split()) for name, _, words in lines}


def listed(name: str) -> frozenset[str]:
    """Return the words of a sign in `signs.en.txt`."""
    return _lists()[name]


class Sign(NamedTuple):
    """A word that a sign points to."""

    place: int
    hides: str
    """Of `hiding.KINDS`."""


TITLES: Final = listed("titles")
"""Titles after which a name follows in any case."""
_MORE_TITLES: Final = listed("more_titles")
"""Words after which a capital begins a name."""

_PERSON_KEYS: Final = listed("person_keys")
GREETING: Final = listed("greeting")
_GREETED: Final = listed("greeted")
_WEAK_KEYS: Final = listed("weak_keys")
_FIELDS: Final = _PERSON_KEYS | listed("organisation_types")
_NAMED_THINGS: Final = listed("named_things")
_NAMING: Final = ("is", "called", "named", "'s", "’s")
_EDITS: Final = listed("edits") | listed("prompt_keys")  # what else stands before a colon
_COMPANY_KEYS: Final = listed("company_keys")
_NUMBER_KEYS: Final = listed("number_keys")
_ROOM_KEYS: Final = listed("room_keys")  # a number of any length counts after them
_AMOUNT_KEYS: Final = listed("amount_keys")
_MEASURES: Final = listed("measures")
LONG_AMOUNT = re.compile(r"[1-9]\d{4,7}")
"""A number that is drawn unless its place tells that it counts or measures."""
_KEY_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_FEWEST_DIGITS: Final = 3
_COUNTED: Final = frozenset({"number", "no", "nr", "num"})
_NUMBERED: Final = listed("numbered")
"""Words before "number" after which the number of a house follows."""
LIVE: Final = frozenset({"live", "lives", "lived", "living", "reside", "resides"})
_POST: Final = frozenset({"post", "postal"})
_CODES: Final = frozenset({"code", "codes"})
_LOCKS: Final = listed("locks")
_LOCK_CODES: Final = _CODES | {"combination", "combo"}
_REFERENCE = re.compile(r"(?=[A-Z]*\d)(?=\d*[A-Z])[A-Z0-9]{5,10}")
"""What airlines and shops give: "X7KQ2L"."""
_DAY = re.compile(r"\d{1,4}[./-]\d{1,4}(?:[./-]\d{1,4})?")
_DATE_KEYS: Final = listed("date_keys")
_PLACE_KEYS: Final = frozenset({"birthplace", "city", "hometown", "town", "village"})
_QUOTED_KEYS: Final = frozenset({"first", "last", "given", "family", "middle", "names"})
_MEMBER = re.compile(r"[a-z_]+(?:\.[a-z_]+)+")
_LONGEST_KEY: Final = 40
_SEPARATORS: Final = frozenset(":=|→")
QUOTES: Final = frozenset("\"'“”‘’`")
_MOST_VALUE: Final = 5
_LONGEST_SHORT: Final = 3
"""Letters of the longest short form with a full stop: "J.", "St.", "Maj."."""
_MOST_IN_LIST: Final = 30
_PLAIN_VALUES: Final = listed("plain_values")


_RELATIONS: Final = listed("relations")
POSSESSIVES: Final = frozenset({"my", "our", "her", "his", "their", "your"})
_VERB_NAMES: Final = frozenset({"will", "may", "can", "rob", "sue", "don", "drew"})
_GIVEN_WORDS, _FINITE = listed("given_words"), listed("finite")
_NO_NAMES: Final = _FINITE | listed("foreign_functions")
_NO_SUBJECT: Final = listed("no_subject")
_DETERMINERS: Final = POSSESSIVES | {"a", "an", "the", "this"}
_REACH: Final = 6


def signs(sight: Sight) -> Iterator[Sign]:
    """Yield the words that a sign points to; a word may come several times."""
    for each in (
        _after_titles,
        _homes,
        _values,
        _speakers,
        _relations,
        _beside_relations,
        _relations_abroad,
        _subjects,
    ):
        for sign in each(sight):
            if not sight.words[sign.place].clitic:  # "the professor's"
                yield sign


def _after_titles(sight: Sight) -> Iterator[Sign]:
    for place, word in enumerate(sight.lower):
        sure = word in TITLES
        title = sight.words[place].text
        if not sure and not (word in _MORE_TITLES and title.istitle()):
            continue
        at = place + 1
        if at < len(sight.words) and sight.words[at].text == "." and not sight.gaps[at]:
            at += 1
        timed = title == "ms" and place > 0 and sight.words[place - 1].text[-1].isdigit()
        if (
            timed
            and at < len(sight.words)
            and sight.marks[at] & (Mark.WORD | Mark.NAME) == Mark.WORD
        ):
            continue  # "Duration: 300 ms Billed"
        for step in range(3):
            if at >= len(sight.words) or sight.breaks(at):
                break
            other, mark = sight.words[at], sight.marks[at]
            named = sight.capital(at) or (
                sure
                and not step
                and (not mark or mark & Mark.NAME)
                and word != "miss"
                and sight.lower[at] not in _NO_NAMES  # "dr said", "dame una"
            )
            if step and other.text in ("-", "'", "’", "."):
                if other.text == "." and len(sight.words[at - 1].text) > 1:
                    break  # a sentence ends
                at += 1
                continue
            if other.kind is not _WORD or not named or sight.lower[at] in ("i", "the"):
                break
            if step and other.text.isupper() and mark and not mark & Mark.NAME:
                break  # "MRS COYLE IS FURIOUS"
            if sight.lower[at] not in TITLES:
                yield Sign(at, "persons")
            at += 1


def _homes(sight: Sight) -> Iterator[Sign]:
    """Yield the user in a path that is cut into words: "C:/Users/hunter/notes"."""
    for place in range(1, len(sight.words) - 2):
        if (
            sight.lower[place] not in ("users", "home")
            or sight.words[place - 1].text[-1] not in "/\\"
        ):
            continue
        glued = not any(sight.gaps[place : place + 3])
        user = sight.words[place + 2]
        follows = glued and sight.words[place + 1].text in "/\\"
        if follows and user.kind is _WORD and user.text.lower() not in _NOBODY:
            yield Sign(place + 2, "persons")


_NOBODY: Final = listed("system_users")


def key_parts(text: str) -> set[str]:
    """Return the words of a key, each two, and all together: "first_name", "x-api-key"."""
    lower = text.lower()
    if text.isascii() and text.isalpha() and (text[1:].islower() or len(text) == 1):
        return {lower}  # most words; the same as below, ten times faster
    parts = re.split(r"[_\W]+", lower)
    keys = {*parts, *map("".join, pairwise(parts)), "".join(parts)}
    return keys | {part.lower() for part in re.findall(r"[A-Z]?[a-z]+", text)}


def names_thing(keys: Set[str]) -> bool:
    """Return whether the words of a key show that it names no person: "tableName"."""
    return keys & _PERSON_KEYS == {"name"} and not keys.isdisjoint(_NAMED_THINGS)


def opens(keys: Set[str]) -> bool:
    """Return whether the words of a key show that it names the code of a lock: "door_code"."""
    return not (keys.isdisjoint(_LOCKS) or keys.isdisjoint(_LOCK_CODES))


def counts(key: str) -> bool:
    """Return whether a key names an amount: "unit_price", "accountBalance_eur".

    >>> counts("card_limit"), counts("credit_card")
    (True, False)
    """
    parts = [part.lower() for part in _KEY_PARTS.findall(key)]
    while len(parts) > 1 and parts[-1] in _MEASURES:
        parts.pop()
    return parts[-1:] != [] and parts[-1] in _AMOUNT_KEYS


def _values(sight: Sight) -> Iterator[Sign]:
    for place, lower in enumerate(sight.lower):
        word = sight.words[place]
        if word.kind is Kind.PUNCTUATION:
            continue
        if len(lower) > _LONGEST_KEY:
            continue
        keys = key_parts(word.text)
        if place and sight.words[place - 1].text[0] in QUOTES and keys & _QUOTED_KEYS:
            keys |= {"name"}
        if keys & _PERSON_KEYS and not names_thing(keys):
            yield from _person(sight, place, keys)
        if keys & _COMPANY_KEYS and "." not in word.text:  # "ann@cpan.org"
            start = value_after(sight, place)
            yield from (Sign(at, "organisations") for at in _capitals(sight, start))
        if keys & _PLACE_KEYS:
            start = value_after(sight, place)
            yield from (Sign(at, "places") for at in _capitals(sight, start))
        if keys & _DATE_KEYS:
            for at in range(place + 1, min(place + _REACH, len(sight.words))):
                if sight.breaks(at) or sight.words[at].text[0] in ".!?;":
                    break
                if sight.words[at].kind is _IDENTIFIER and _DAY.fullmatch(sight.words[at].text):
                    yield Sign(at, "dates")
                    break
        before = sight.lower[place - 1] if place else ""
        house = before in _NUMBERED if lower in _COUNTED else _is_home(sight, place)
        postal = (
            lower in _POST and place + 1 < len(sight.words) and sight.lower[place + 1] in _CODES
        )
        numbered = keys & _NUMBER_KEYS and {*".="}.isdisjoint(word.text) and not counts(word.text)
        if (
            numbered
            and sight.lower[place + 1 : place + 2] == ["("]
            and word.text[1:].lower() != word.text[1:]
        ):
            numbered = word.text.isupper()  # "pinMode(13"
        if house or postal or numbered:
            few = 1 if house or postal or keys & _ROOM_KEYS else _FEWEST_DIGITS
            for sign in _numbers(sight, place):
                text = sight.words[sign.place].text
                if sum(map(str.isdigit, text)) >= few or _REFERENCE.fullmatch(text):
                    yield sign
        if opens(keys) and value_after(sight, place):
            yield from (Sign(sign.place, "secrets") for sign in _numbers(sight, place))


def _is_home(sight: Sight, place: int) -> bool:
    """Return whether a word is the "at" of "I live at 14" or "we live at 221b"."""
    after = place + 2
    return (
        sight.lower[place] == "at"
        and place > 0
        and sight.lower[place - 1] in LIVE
        and (
            after >= len(sight.words)
            or sight.words[after].kind is not _WORD
            or sight.capital(after)
        )
    )


def value_after(sight: Sight, place: int) -> int:
    """Return where the value after a key begins; 0 if no separator follows the key."""
    at, seen = place + 1, False
    while at < len(sight.words) and at < place + 5 and not sight.breaks(at):
        text = sight.words[at].text
        tag = text[0] == ">" and place and sight.words[place - 1].text[-1] == "<"
        tag = tag and at + 1 < len(sight.words) and not sight.gaps[at + 1]  # not "Use <token> in"
        if text == "::" and len({*map(str.isupper, sight.words[place].text[1:])}) > 1:
            break  # "TokenKind::Word"
        tex = text == "{" and at == place + 1 and sight.words[place].text[0] == "\\"
        if text[0] in _SEPARATORS or tag or (tex and not sight.gaps[at]):
            seen = True
        elif text[0] not in QUOTES and not (seen and text in "([*"):
            break
        at += 1
    if sight.words[at - 1].text[0] == "|" and _is_header(sight, at):
        return 0
    return at if seen and at < len(sight.words) and not sight.breaks(at) else 0


def _is_header(sight: Sight, place: int) -> bool:
    """Return whether the next line is the rule below the header of a Markdown table."""
    at = place
    while at < len(sight.words) and at < place + _MOST_IN_HEADER and not sight.breaks(at):
        at += 1
    rule = "".join(word.text for word in sight.words[at : at + 3])
    return "--" in rule and not rule.strip("|:-")


_MOST_IN_HEADER: Final = 60


def _capitals(sight: Sight, start: int) -> Iterator[int]:
    """Yield the places of a value's words that begin with a capital."""
    if not start:
        return
    quote = sight.words[start - 1].text
    for at in range(start, min(start + _MOST_VALUE, len(sight.words))):
        word = sight.words[at]
        if word.text in "}{" and "".join(map(_text, sight.words[at - 1 : at + 2])).find("}{") >= 0:
            continue  # \\name{Rose}{Long}
        if word.kind is Kind.PUNCTUATION and word.text not in ("-", "'", "’", ".", "&"):
            return
        if at == start and word.kind is _IDENTIFIER and _MEMBER.fullmatch(word.text):
            return  # "o.customer_id = c.id WHERE"
        called = at + 1 < len(sight.words) and sight.words[at + 1].text[0] == "("
        if at == start and called and not sight.gaps[at + 1]:
            return  # "tenant = Tenant(1)"
        if word.text == quote and (at + 1 == len(sight.words) or sight.gaps[at + 1]):
            return  # the value ends: name='Rose Long' AND ...
        if at > start and (sight.breaks(at) or "\t" in sight.gaps[at] or _begins_key(sight, at)):
            return
        if word.text == "." and len(sight.words[at - 1].text) > _LONGEST_SHORT:
            return  # a sentence ends: "My name is Ann Lee. Can you help?"
        if word.kind is _WORD and not word.clitic:
            if not sight.capital(at) or sight.lower[at] in _PLAIN_VALUES:
                return
            yield at


def _text(word: Word) -> str:
    return word.text


def _begins_key(sight: Sight, place: int) -> bool:
    """Return whether the next field of a form begins: "Name: Rose Long  DOB 1979 Form: 5C"."""
    word, after = sight.words[place], place + 1
    if word.text.isupper() and key_parts(word.text) & (_NUMBER_KEYS | _DATE_KEYS):
        return True
    colon = after < len(sight.words) and sight.words[after].text == ":"
    return colon and word.kind is _WORD and not sight.breaks(after)


def _person(sight: Sight, place: int, keys: set[str]) -> Iterator[Sign]:
    at = place + 1
    if keys & GREETING:  # "Dear Rose," and, on the next line, "Regards,\nRose"
        while at < len(sight.words) and sight.words[at].text == ",":
            at += 1
        if at < len(sight.words) and (at == place + 1 or sight.breaks(at)):
            follows = list(_capitals(sight, at))[:3]
            end = (follows[-1] if follows else at) + 1
            closed = (
                end >= len(sight.words)
                or sight.breaks(end)
                or (sight.words[end].text[0] in ",.!:?;-")
            )
            if follows and closed and not _is_role(sight, follows):
                yield from (Sign(each, "persons") for each in follows)
        return
    start = value_after(sight, place)
    if not start and "name" in keys and at < len(sight.words) and sight.lower[at] in _NAMING:
        start = at + 1  # "my name is", "her name's"
    if not start or sight.lower[start : start + 1] == [sight.lower[place].rpartition(".")[2]]:
        return  # "self.client = client"
    quoted = sight.words[start - 1].text[0] in QUOTES
    found = [*_capitals(sight, start)]
    if found == [start] and (_speaks(sight, start) or _is_good(sight, start, keys)):
        return  # "Patient: My head hurts"
    if quoted and "[" in "".join(word.text for word in sight.words[place + 1 : start]):
        found = [*_in_list(sight, start)]
    if keys & _WEAK_KEYS:
        found = [each for each in found if sight.marks[each] & Mark.NAME or not sight.marks[each]]
    step = [mark & (Mark.WORD | Mark.NAME) for mark in sight.marks[start : start + 2]]
    if found == [start] and step == [Mark.WORD] * 2 and not sight.breaks(start + 1):
        return  # "- name: Install packages"
    yield from (Sign(each, "persons") for each in found)
    mark, lower = sight.marks[start], sight.lower[start]
    if mark & Mark.PUBLIC and not listed_names(lower):
        mark &= ~Mark.NAME  # "mysql"
    if keys & _WEAK_KEYS and lower in _NOBODY:
        return
    if not found and (mark & Mark.NAME or not mark) and lower not in _PLAIN_VALUES:
        ends = start + 1 >= len(sight.words) or sight.breaks(start + 1) or quoted
        if (ends or not keys & _WEAK_KEYS) and sight.words[start].kind is _WORD:
            yield Sign(start, "persons")


def _is_good(sight: Sight, start: int, keys: set[str]) -> bool:
    """Return whether a word under "name" names goods or a step: beside "price", "image", "run"."""
    near = sight.lower[max(start - _NEAR_FIELDS, 0) : start + _NEAR_FIELDS]
    word = sight.marks[start] & (Mark.WORD | Mark.NAME) == Mark.WORD
    return keys == {"name"} and word and not _BESIDE_GOODS.isdisjoint(near)


_BESIDE_GOODS: Final = listed("beside_goods")


def _speaks(sight: Sight, start: int) -> bool:
    """Return whether a sentence begins, and no name: "What is", "Can you", "My head"."""
    after = start + 1
    if after >= len(sight.words) or sight.breaks(after) or sight.capital(after):
        return False
    return sight.lower[start] in _OPENING or (
        sight.lower[start] in _VERB_NAMES and sight.lower[after] in _SPEAKING
    )


_SPEAKING: Final = frozenset({"he", "i", "it", "she", "they", "we", "you"})
_OPENING: Final = listed("asking") | listed("in_sentences") | listed("imperatives") | POSSESSIVES


def _is_role(sight: Sight, follows: Sequence[int]) -> bool:
    """Return whether no name follows a greeting: "Dear Hiring Manager", "Hello World".

    Other single words may be nicknames: "Hi Bunny".
    """
    first, *rest = (sight.marks[each] for each in follows)
    if not rest:
        return sight.lower[follows[0]] in _GREETED
    return bool(first) and not first & Mark.NAME and all(mark & Mark.WORD for mark in rest)


def _in_list(sight: Sight, start: int) -> Iterator[int]:
    """Yield the words with a capital of a list in brackets: `["Rose", "Hope"]`."""
    for at in range(start, min(start + _MOST_IN_LIST, len(sight.words))):
        word = sight.words[at]
        if word.text[0] in "]{}":
            return
        if word.kind is _WORD and sight.capital(at) and not word.clitic:
            yield at


def _numbers(sight: Sight, place: int) -> Iterator[Sign]:
    for at in range(place + 1, min(place + 6, len(sight.words))):
        word = sight.words[at]
        if sight.breaks(at) and at > place + 1:
            return
        if word.kind is _IDENTIFIER and any(map(str.isdigit, word.text)):
            yield Sign(at, "numbers")
            if at + 1 < len(sight.words) and sight.words[at + 1].kind is not _IDENTIFIER:
                return
        elif (
            word.kind is _WORD
            and sight.lower[at]
            not in (
                *("number", "no", "nr", "id", "is", "code", "ref", "reference", "my", "the", "num"),
                *("are", "codes", "numbers"),
            )
        ) or (word.kind is Kind.PUNCTUATION and word.text[0] not in ":#.=\"'()-|"):
            return


def _speakers(sight: Sight) -> Iterator[Sign]:
    """Yield names before a colon where a line or a sentence begins: "Rose: I agree"."""
    for place, mark in enumerate(sight.marks[:-1]):
        if not mark & Mark.NAME or mark & (Mark.PUBLIC | Mark.COMMON) or not sight.capital(place):
            continue
        if sight.lower[place] in _FIELDS or (mark & Mark.WORD and is_field(sight, place)):
            continue
        if sight.lower[place] in _EDITS:
            continue
        begins = not place or sight.breaks(place) or sight.words[place - 1].text[0] in "\"'.!?>“"
        if begins and sight.words[place + 1].text[0] == ":" and not sight.gaps[place + 1]:
            yield Sign(place, "persons")


def is_field(sight: Sight, place: int) -> bool:
    """Return whether an ordinary word that is also a name names a value: "Price: 10", "Urea 14".

    Numbers tell it, or other fields near it. A given name needs both.
    """
    given = len(sight.lower[place]) > _LONGEST_ELEMENT and names.gender(sight.lower[place])
    if _counted(sight, place) and not given:
        return True
    value = place + 2
    if value >= len(sight.words) or sight.words[place + 1].text != ":" or sight.gaps[place + 1]:
        return False
    if not sight.gaps[value]:  # "BEGIN:VCARD"
        return not given
    number = not sight.breaks(value) and (
        _AMOUNT.match(sight.words[value].text) or _counted(sight, value)
    )
    if number and not given:
        return True
    near = range(max(place - _NEAR_FIELDS, 0), min(place + _NEAR_FIELDS, len(sight.words) - 1))
    fields = [
        sight.marks[at]
        for at in near
        if at != place and sight.words[at + 1].text == ":" and sight.words[at].kind is _WORD
    ]
    plain = sum(bool(mark) and not mark & Mark.NAME for mark in fields)
    told = plain >= _FEWEST_VALUES and 2 * plain > len(fields)
    return told and bool(number or not given)


def _counted(sight: Sight, place: int) -> bool:
    """Return whether a word and a number are among others on a line: "Na 131, K 5.6, Urea 14"."""
    end = len(sight.words) - 1
    if place >= end or not _is_counted(sight, place):
        return False
    near = range(max(place - _NEAR_VALUES, 0), min(place + _NEAR_VALUES, end))
    others = [at for at in near if at != place and _is_counted(sight, at)]
    plain = [at for at in others if sight.marks[at] and not sight.marks[at] & Mark.NAME]
    return len(plain) >= _FEWEST_VALUES and 2 * len(plain) > len(others)


def _is_counted(sight: Sight, place: int) -> bool:
    return (
        sight.words[place].kind is _WORD
        and sight.gaps[place + 1] == " "
        and _VALUE.fullmatch(sight.words[place + 1].text) is not None
        and (
            place + 2 == len(sight.words)
            or sight.breaks(place + 2)
            or sight.words[place + 2].text[0] in ",;)."
        )
    )


_VALUE = re.compile(r"[-+<>]?\d{1,4}(?:[.,]\d{1,3})?%?")
_NEAR_VALUES: Final = 12
_LONGEST_ELEMENT: Final = 2
"""Letters of the symbol of a chemical element: "Na 131"."""
_FEWEST_VALUES: Final = 2
"""Other words with numbers, so that a word with one is in a list of values."""
_AMOUNT = re.compile(r"[-+~<>$€£¥]{0,2}\d")
_NEAR_FIELDS: Final = 30


def _relations(sight: Sight) -> Iterator[Sign]:
    """Yield names after a relation: "My doctor is Rose May Hunter"."""
    for place in range(2, len(sight.words) - 1):
        if sight.lower[place] not in _NAMING or sight.lower[place - 1] not in _RELATIONS:
            continue
        if sight.lower[place - 2] not in POSSESSIVES:
            continue
        for at in range(place + 1, min(place + 4, len(sight.words))):
            name = sight.marks[at] & Mark.NAME or not sight.marks[at]
            if not name or not sight.capital(at) or sight.words[at].kind is not _WORD:
                break
            yield Sign(at, "persons")


def _relations_abroad(sight: Sight) -> Iterator[Sign]:
    """Yield names with a capital after a relation of another language: "mi hermana Lucía"."""
    for place in range(1, len(sight.words) - 1):
        whose, after = sight.lower[place - 1], place + 1
        if whose not in POSSESSIVES_ABROAD or sight.lower[place] not in _RELATIONS_ABROAD:
            continue
        marks = sight.marks[after]
        noun = whose.startswith(("mein", "unser"))  # German nouns have a capital
        ordinary = noun and marks & Mark.WORD and not marks & Mark.NAME
        if sight.gaps[after] == " " and sight.capital(after) and not ordinary:
            yield Sign(after, "persons")


_RELATIONS_ABROAD: Final = listed("foreign_relations")
POSSESSIVES_ABROAD: Final = listed("foreign_possessives")


def _beside_relations(sight: Sight) -> Iterator[Sign]:
    """Yield names in small letters that are words too, after a relation: "my mum rose is 81"."""
    for place in range(2, len(sight.words)):
        word, relation, whose = (sight.lower[place - step] for step in range(3))
        if word not in _GIVEN_WORDS and word not in _VERB_NAMES:
            continue
        if relation not in _RELATIONS or whose not in POSSESSIVES or sight.breaks(place):
            continue
        after = sight.lower[place + 1] if place + 1 < len(sight.words) else ""
        if word in _GIVEN_WORDS or after in _FINITE:
            yield Sign(place, "persons")


def _subjects(sight: Sight) -> Iterator[Sign]:
    """Yield names that look like auxiliary verbs before another verb: "mia said will is here"."""
    for place in range(1, len(sight.words) - 1):
        subject = sight.lower[place] in _VERB_NAMES and sight.lower[place + 1] in _FINITE
        before = sight.lower[place - 1]
        noun = place > 1 and sight.lower[place - 2] in _DETERMINERS and before not in _RELATIONS
        if noun:
            continue  # "the later will is"
        if subject and before not in _NO_SUBJECT and not sight.breaks(place + 1):
            yield Sign(place, "persons")
