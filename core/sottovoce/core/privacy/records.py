"""Finds names and passwords in lines that programs and phones write.

These are the authors of `git blame`, the hosts of syslog, the users of SSH, the codes of wireless
networks, names of accounts, and telephone numbers in words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from sottovoce.core.privacy.identifier_parts import joined
from sottovoce.core.privacy.identifying import NOBODY, words_in
from sottovoce.core.privacy.sight import Sight
from sottovoce.core.privacy.signs import Sign, listed, value_after
from sottovoce.core.privacy.surrogates.identifiers import MONTHS
from sottovoce.core.text.vocabulary import Listed, Mark, Vocabulary, listed_names
from sottovoce.core.text.words import Kind

_ORDINAL: Final = (
    "(?:(?:twenty|thirty)[ -])?(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth"
    "|eleventh|twelfth|(?:thir|four|fif|six|seven|eigh|nine)teenth|twentieth|thirtieth)"
)
_MONTH: Final = f"(?:{'|'.join(MONTHS)})"
_SAID_UNIT: Final = (
    r"(?:(?: and)?[ -](?:hundred|oh|[a-z]{2,8}teen|ten|eleven|twelve|[a-z]{3,5}ty|one|two|three"
    r"|four|five|six|seven|eight|nine)\b)"
)
_LINES: Final = (
    (
        re.compile(
            rf"\b((?:{_ORDINAL}(?: of)? {_MONTH}|{_MONTH}(?: the)? {_ORDINAL}),?"
            rf" (?:(?:nineteen|twenty){_SAID_UNIT}{{1,3}}|two thousand{_SAID_UNIT}{{0,3}}))",
            re.IGNORECASE,
        ),
        "dates",
        True,
    ),
    (
        re.compile(
            r"^\^?[0-9a-f]{7,40} +(?:\S+ +)?\((?!Not Committed Yet)([^()\n]{2,60}?) +"
            r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4} +\d+\)",
            re.MULTILINE,
        ),
        "persons",
        False,
    ),
    (re.compile(r"^[ \t]*User[ \t]+([\w.-]+)[ \t]*$", re.MULTILINE), "persons", False),
    (
        re.compile(
            r"^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d ([\w-]+) [\w./-]+(?:\[\d+\])?: ", re.MULTILINE
        ),
        "contacts",
        False,
    ),
    (
        re.compile(
            r"[\\/](?:Users|Documents and Settings)[\\/]{1,2}(?!All |Default |Public )"
            r"([A-Z]\w{0,30}(?: [A-Z][\w.-]{0,30}){1,3})(?=[\\/])"
        ),
        "persons",
        True,
    ),
    (
        re.compile(r"\b(?:call|dial|ext|extension|phone|ring|tel)\b[.:]? (x\d{3,5})\b", re.I),
        "numbers",
        True,
    ),
    (
        re.compile(
            r"(?:\bsshpass|[ \t]-u[ =]?[^\s:]+) -p[ =]?['\"]?"
            r"(?!\d+(?::\d+)?(?:\s|\Z))([^\s'\"]{3,})"
        ),
        "secrets",
        True,
    ),
    (
        re.compile(
            r"\b(?:IDENTIFIED|identified) (?:(?i:with) \w+ )?(?i:by) '"
            r"(?![<{$%[]|(?i:(?:your|my|new)?_?pass(?:word)?|secret)')([^'\n]+)'"
        ),
        "secrets",
        True,
    ),
    (
        re.compile(
            r"\b(?:approver|assignee|author|owner|reporter|reviewer)s?\b['\"]? ?[:=] ?['\"]?"
            r"([a-z]+[._-][a-z]+)\b",
            re.IGNORECASE,
        ),
        "persons",
        False,
    ),
    (
        re.compile(
            r"\bname of (?:the |your )?(?:applicant|child|employee|father|mother|patient|pupil"
            r"|spouse|student|tenant)s? ?[:=] ?([^\W\d_][^\d\n;,.:]{1,40})",
            re.IGNORECASE,
        ),
        "persons",
        True,
    ),
    (re.compile(r"[ \t]/user:\S+[ \t]+(?!/)(\S{3,})", re.IGNORECASE), "secrets", True),
    (re.compile(r"\b(?:password|passwd|pwd?) (?:-|->|=>|–) (?=\S*\d)(\S{4,})"), "secrets", True),
    (
        re.compile(
            r"(?<![\w.+-])([\w.+-]{1,64}(?:(?: dot |[ ]?[(\[]dot[)\]][ ]?)[\w-]{1,64}){0,3}"
            r"[ ]?[(\[]at[)\]][ ]?[\w-]{1,64}"
            r"(?:(?:\.| dot |[ ]?[(\[]dot[)\]][ ]?)[\w-]{1,64}){1,3})",
            re.IGNORECASE,
        ),
        "contacts",
        True,
    ),
    (
        re.compile(
            r"(?<![\w.+-])([\w.+-]{1,64}(?: dot [\w-]{1,64}){0,3} at [\w-]{1,64}"
            r"(?: dot [\w-]{1,64}){0,2} dot (?:com|net|org|edu|gov|info|example|[a-z]{2}))\b",
            re.IGNORECASE,
        ),
        "contacts",
        True,
    ),
    (re.compile(r"\b(live:[\w.]{4,64})"), "contacts", True),
    (
        re.compile(
            r"\b(?:number|phone|tel|mobile|mob|call|ring|dial|account|acct|card)\b[^\n\d]{0,20}"
            r"(\d(?: \d){5,19})(?! ?\d)",
            re.IGNORECASE,
        ),
        "numbers",
        True,
    ),
    (
        re.compile(
            r"\b(?:account|acct|iban)\b[^\n\d]{0,20}?(?<!\w)"
            r"([A-Z] [A-Z](?: \d){2}(?: [A-Z\d]){8,30})(?!\w)",
            re.IGNORECASE,
        ),
        "numbers",
        True,
    ),
    (re.compile(r"\bWIFI:(?:[A-Z]:[^;\n]*;){0,4}S:([^;<\n]+)"), "secrets", True),
    (re.compile(r"\bWIFI:(?:[A-Z]:[^;\n]*;){0,4}P:([^;<\n]+)"), "secrets", True),
    (
        re.compile(
            r"\b(?:wi-?fi|wlan)[ :]{1,2}(?!WPA|WEP|802|\d)(?=[^\s,]*\d)([^\s,]{4,32})[ ,]{1,2}"
            r"(?:pass(?:word)?|pwd?)[ :]{1,3}\S",
            re.IGNORECASE,
        ),
        "secrets",
        True,
    ),
    (re.compile(r"\b([A-Z][a-z]{1,15})-(?:san|kun|chan|sama|sensei)\b"), "persons", True),
    (
        re.compile(
            r"[\\/](?i:cases?|clients?|customers?|employees|kunden|leavers|mandanten|patients?|staff"
            r"|students?|tenants?)[\\/]([A-Z][\w'-]{1,20}[ _-][A-Z][\w'-]{1,20})(?=[\\/])"
        ),
        "persons",
        True,
    ),
    (re.compile(r"\b(?i:cash ?app)[ :]{1,3}(\$[A-Za-z][\w-]{2,20})"), "contacts", True),
    (
        re.compile(r"(?:///|\b(?i:w3w|what3words)[ :/]{1,6})([a-z]{3,20}(?:\.[a-z]{3,20}){2})\b"),
        "places",
        True,
    ),
    (
        re.compile(
            r"\b(?i:az|aktenzeichen)[.: ]{1,3}(\d{1,4} [A-Z]{1,3} \d{1,5}/\d\d)"
            r"|\b(?i:case|claim|court|file|our|your) (?i:file|ref(?:erence)?)[.: ]{1,3}"
            r"([A-Z]{1,4}[ /-]\w{1,8}(?:[/-]\w{1,8}){1,3})"
        ),
        "numbers",
        True,
    ),
    (
        re.compile(
            r"\b(?i:activation|gift|licen[cs]e|product (?:code|key)|promo|redeem|serial|steam"
            r"|voucher)\b"
            r"[^\n.]{0,20}?\b((?=[A-Z-]{0,20}\d)(?=[\d-]{0,20}[A-Z])[A-Z\d]{4,8}(?:-[A-Z\d]{2,8}){1,5})\b"
        ),
        "secrets",
        True,
    ),
    (
        re.compile(
            r"\b(?i:airline|booking|conf|confirmation|easyjet|flight|hotel|klm|lufthansa|pnr|reservation"
            r"|ryanair|zelle)\b[^\n.]{0,40}?"
            r"\b((?![A-Z]{2,3}\d{1,4}\b)(?=[A-Z]{0,5}\d)(?=\d{0,4}[A-Z]\d{0,3}[A-Z])[A-Z\d]{6})\b"
        ),
        "numbers",
        True,
    ),
    (
        re.compile(r"\b(?:BGC|CHQ|DD|FPI|FPO|SO|TFR) ([A-Z] [A-Z]{2,20})\b(?=[^\n]{0,60}\d\.\d\d)"),
        "persons",
        True,
    ),
)
"""Lines, what their first group hides, and whether it is drawn if it holds ordinary words alone."""
_USER: Final = r"([A-Za-z_][\w.-]{1,31})"
_S: Final = r"[ \t]++"
_USERS: Final = tuple(
    re.compile(form, re.MULTILINE)
    for form in (
        rf"\b(?:(?:[ug]id|euid|groups)=\d+|,\d{{3,6}})\({_USER}\)",
        rf"(?<!\S)[bcdlps-](?:[r-][w-][xsStT-]){{3}}[.+@]?{_S}\d+{_S}{_USER}{_S}{_USER}{_S}\d",
        rf"\bch(?:own|grp)(?:{_S}-\S{{1,40}}+){{0,6}}+{_S}(?:{_USER}:{_USER}?"
        rf"|{_USER}(?={_S}[\w~$*-]*[./~*$]))",
        rf"\b(?:sudo(?:{_S}-\w{{1,20}}){{0,6}}?|(?:mysql\w{{0,8}}|crontab)\b[^\n|;]{{0,60}}?)"
        rf"[ \t]-u[ \t]?{_USER}",
        rf"\b(?:ssh\b[^\n|;]{{0,60}}?[ \t]-l|(?:psql|pg_\w+)\b[^\n|;]{{0,60}}?[ \t]-U"
        rf"|su{_S}(?:-l?|--login)){_S}{_USER}",
        r"\b(?:user(?:add|mod|del)|(?:add|del)user|g?passwd|chage|smbpasswd|enable-linger)\b"
        rf"(?:{_S}[\w/-]{{1,32}}){{0,5}}?{_S}{_USER}(?:{_S}(?:sudo|docker|www-data|wheel))?[ \t]*$",
        rf"^{_USER}{_S}\d{{1,7}}(?:{_S}\d{{1,3}}\.\d){{2}}(?:{_S}\d+){{2}}[ \t]",
        rf"^{_USER}(?:{_S}\d{{1,7}}){{2}}{_S}\d{{1,3}}{_S}(?:\d\d:\d\d|[A-Z][a-z]{{2}}\d\d)[ \t]",
        rf"^[ \t]*\d{{1,7}}{_S}{_USER}{_S}(?:-?\d{{1,2}}|rt){_S}-?\d{{1,2}}{_S}[\d.]+[mgt]?[ \t]",
        rf"^{_USER}{_S}(?:pts/\d+|tty\w+|console|:\d)[ \t]",
        rf"^(?:[\d*/,-]+{_S}){{5}}{_USER}{_S}/",
        rf"\({_USER}\) (?:CMD|RELOAD|LIST) \(",
        rf"\b(?:Accepted|Failed) [\w/-]+ for (?:invalid user )?{_USER} from\b",
        rf"\b(?:as|by|for|invalid|of) user [\"'`]?{_USER}",
        rf"\buser {_USER}(?=: (?:access|auth|login|password|perm))"
        rf"|\bPermission to \S+ denied to {_USER}",
        rf"^Host{_S}{_USER}[ \t]*\n(?={_S}[A-Z][A-Za-z]+[ \t])",
        rf"\bacct=\"{_USER}\"|(?:\A|[ ,])'{_USER}'@'|\b(?:TODO|FIXME|XXX|HACK)\({_USER}\)",
        rf"\bwhoami[ \t]*\n{_USER}$",
        r"\b(?:cn|uid|sn|givenName)=([A-Za-z][^,=\n]{1,40})(?=,[ ]?(?:ou|dc|o|cn|c)=)",
    )
)
"""Lines of programs whose groups are users of a machine: "uid=1000(mwolska)", "chown rose:rose"."""
_NO_USER: Final = listed("in_sentences") | {"an", "at", "by", "in", "is", "of", "on", "or", "to"}
_JOINTS: Final = frozenset({"and", "at", "dot", "of", "the"})
_ACCOUNTS: Final = listed("account_keys")
_SERVICES: Final = listed("services")
_HANDLE = re.compile(r"@?[A-Za-z][\w.-]{2,30}={0,2}")
_TAGS: Final = frozenset({"handle", "id", "name", "tag", "user", "username"})
_GAMES: Final = frozenset({"gamertag", "kik", "psn", "snap", "snapchat"})
_NAMING: Final = frozenset({"is", "'s", "’s"})
_ADDING: Final = frozenset({"add", "dm", "follow"})
_INVITING: Final = frozenset({(verb, "me") for verb in ("add", "dm", "find", "follow", "message")})
_ASKING: Final = listed("asking") | {"can", "does", "should", "you"}
_NEAR_INVITING: Final = 16
_THINGS: Final = listed("handle_things") | listed("services")
_NO_HANDLE: Final = (
    listed("in_sentences") | listed("secret_states") | {"i", "it", "me", "you", "my"}
)
_CLOSING: Final = frozenset(".,;!)")
_MOST_EVERYDAY: Final = 3
_SHORTEST_COINED: Final = 5
_LEET = re.compile(r"[A-Za-z]\d+[A-Za-z]")
_PAIR: Final = 2
_DIGITS: Final = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_SAID: Final = frozenset({*_DIGITS, "oh", "nought", "double", "treble", "triple"})
_OF_CALLS: Final = _SAID - {*_DIGITS} | {"zero"}
_FEWEST_SAID: Final = 7
"""Words of a telephone number that is said: "oh seven seven double oh nine double two"."""
_DOUBLES: Final = frozenset({"double", "treble", "triple"})
_NOUGHTS: Final = frozenset({"nought", "oh"})
_FEWEST_DOUBLED: Final = 4
"""Words of a code that is said like a telephone number: "oh seven double two"."""
_FEWEST_LABELLED: Final = 3
"""Words of a number that is said after a label: "the pin is nine two oh"."""
_NATO: Final = (
    *("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet"),
    *("kilo", "lima", "mike", "november", "oscar", "papa", "quebec", "romeo", "sierra", "tango"),
    *("uniform", "victor", "whiskey", "xray", "yankee", "zulu"),
)
_ALSO_NATO: Final = {"alfa": "alpha", "juliett": "juliet", "whisky": "whiskey", "x-ray": "xray"}
_SPELT: Final = frozenset({*_NATO, *_ALSO_NATO, *_SAID, "x", "niner", *map(str, range(10))})
_WEAK_NATO: Final = frozenset(
    {
        "alpha",
        "delta",
        "golf",
        "hotel",
        "india",
        "lima",
        "mike",
        "november",
        "papa",
        "quebec",
        "uniform",
        "whiskey",
    }
)
"""Words that are also common beside numbers: "two hotels, one golf course", "alpha 2"."""
_FEWEST_SPELT: Final = 4
_SPELT_LABELS: Final = frozenset(
    {"callsign", "code", "password", "plate", "postcode", "pnr", "ref", "reference", "reg"}
    | {"registration", "serial", "spelled", "spelt"}
)
_SAID_LABELS: Final = frozenset({"account", "cvc", "cvv", "passcode", "pin", "sort", "zip"})
_NEAR_LABEL: Final = 4


def records(document: str, sight: Sight) -> Iterator[Sign]:
    """Yield the words that the form of a line reveals; a word may be yielded several times."""
    words = sight.words
    for form, hides, sure in _LINES:
        for match in form.finditer(document, words[0].start, words[-1].end):
            group = match.lastindex or 1
            if sure or _says_who(match[group]):
                for at in sight.within(*match.span(group)):
                    if sight.lower[at] not in _JOINTS:
                        yield Sign(at, hides)
    yield from (Sign(at, "persons") for at in _users(document, sight))
    for place, lower in enumerate(sight.lower):
        if lower in _ACCOUNTS:
            yield from (Sign(at, "contacts") for at in _handle(sight, place))
        if lower in _ADDING:
            yield from (Sign(at, "contacts") for at in _added(sight, place))
    for place in range(2, len(words)):
        if _after_initial(sight, place):
            yield from (Sign(place - 2, "persons"), Sign(place, "persons"))
    yield from (Sign(at, "numbers") for at in (*_said_numbers(sight), *_spelt_codes(sight)))


def _users(document: str, sight: Sight) -> Iterator[int]:
    """Yield the words of users in lines of programs; system accounts and public words pass."""
    words = sight.words
    for form in _USERS:
        for match in form.finditer(document, words[0].start, words[-1].end):
            for group in range(1, form.groups + 1):
                user = match[group]
                if user and user.lower() not in NOBODY and _is_user(user):
                    yield from sight.within(*match.span(group))


def _is_user(text: str) -> bool:
    """Return whether a part of a user is in no list, or a usual name, even one that is a word."""
    marks = Vocabulary.shipped().marks
    usual = Listed.GIVEN | Listed.USUAL_GIVEN | Listed.USUAL_SURNAME
    for word in words_in(text):
        part = word.lower()
        if part in NOBODY or part in _NO_USER:
            continue
        if not (marks(part) or marks(part.removesuffix("s"))):
            return True
        if marks(part) & Mark.NAME and listed_names(part) & usual:
            return True
    return False


def _handle(sight: Sight, place: int) -> Iterator[int]:
    """Yield the name of an account after a separator, "is" or a service: "my insta is kerrmade"."""
    lower, end = sight.lower, len(sight.words)
    tag = place + 1 < end and lower[place + 1] in _TAGS and not sight.breaks(place + 1)
    key = place + tag
    after = key + 1
    named = after + 1 < end and lower[after] in _NAMING and not sight.breaks(after + 1)
    bare = lower[place] in _SERVICES and after < end and sight.gaps[after] == " "
    start = value_after(sight, key) or after + named
    sure = start > after
    if start >= end or not (sure or bare):
        return
    word = sight.words[start]
    if word.kind is Kind.IDENTIFIER:
        if _HANDLE.fullmatch(word.text) and (_LEET.search(word.text) or _says_who(word.text)):
            yield start
        return
    if sure and _is_coined(sight, start):
        yield start
    near = lower[max(place - _NEAR_INVITING, 0) : place + _NEAR_INVITING]
    added = named and not _INVITING.isdisjoint(pairwise(near))
    if sure and (tag or added or (lower[place] in _GAMES and not named)):
        run = _everyday(sight, start)
        after = start + len(run)
        if len(run) > 1 and (after == end or sight.breaks(after) or lower[after] in _CLOSING):
            yield from run


def _added(sight: Sight, place: int) -> Iterator[int]:
    """Yield what is added on a service: "add frosty pickle on discord"."""
    start = place + 1
    run = _everyday(sight, start)
    at = start + len(run)
    if start < len(sight.words) and not run and _is_coined(sight, start):
        run, at = [start], start + 1
    if at + 1 >= len(sight.words) or sight.lower[at] != "on":
        return
    near = sight.lower[max(place - _NEAR_INVITING, 0) : place]
    if sight.lower[at + 1] not in _SERVICES or not _ASKING.isdisjoint(near):
        return
    if len(run) > 1 or (run and not sight.marks[start]):
        yield from run


def _everyday(sight: Sight, start: int) -> list[int]:
    """Return up to three listed words in small letters, none of which is a thing of a service."""
    run: list[int] = []
    for at in range(start, min(start + _MOST_EVERYDAY, len(sight.words))):
        plain = sight.words[at].text.islower() and sight.marks[at] and not sight.words[at].clitic
        if not plain or sight.lower[at] in _NO_HANDLE or (run and sight.gaps[at] != " "):
            break
        run.append(at)
    return [] if any(sight.lower[at].removesuffix("s") in _THINGS for at in run) else run


def _is_coined(sight: Sight, place: int) -> bool:
    """Return whether a word in small letters is in no list, and no misspelling of a listed word."""
    word = sight.words[place]
    coined = word.kind is Kind.WORD and word.text.islower() and not sight.marks[place]
    known = not joined(word.text) and Vocabulary.shipped().misspelt(word.text)
    return coined and len(word.text) >= _SHORTEST_COINED and not known


def _after_initial(sight: Sight, place: int) -> bool:
    """Return whether a listed surname that few know as a word follows an initial: "J. Coombes"."""
    initial, stop, name = sight.words[place - 2 : place + 1]
    bits = listed_names(name.text) if name.text.istitle() else 0
    after = place + 1
    title = after < len(sight.words) and sight.capital(after) and sight.gaps[after] == " "
    return (
        stop.text == "."
        and len(initial.text) == 1
        and initial.text.isupper()
        and not sight.gaps[place - 1]
        and sight.gaps[place] == " "
        and not sight.marks[place] & (Mark.COMMON | Mark.PUBLIC)
        and (
            (bits == Listed.SURNAME and not title)
            or (bits > 0 and not sight.marks[place] & Mark.WORD)
        )
    )


def _says_who(text: str) -> bool:
    """Return whether a word may be a person's, as it holds more than ordinary words."""
    marks = Vocabulary.shipped().marks
    parts = [marks(word.lower()) for word in words_in(text)]
    return text.lower() not in NOBODY and (
        any(not mark or (mark & Mark.NAME and not mark & Mark.WORD) for mark in parts)
        or _is_full_name(text)
    )


def _is_full_name(text: str) -> bool:
    """Return whether a text is a usual given name and surname: "pearl.stone"."""
    pair = words_in(text)
    return (
        len(pair) == _PAIR
        and bool(listed_names(pair[0]) & Listed.USUAL_GIVEN)
        and bool(listed_names(pair[1]) & Listed.USUAL_SURNAME)
    )


def _is_labelled(sight: Sight, place: int) -> bool:
    """Return whether a number in words follows a label: "account number is", "alarm code is"."""
    near = sight.lower[max(place - _NEAR_LABEL, 0) : place]
    locks = listed("locks")
    return (
        not _SAID_LABELS.isdisjoint(near)
        or any(word == "code" and before in locks | {"pass"} for before, word in pairwise(near))
        or (sight.lower[place] == "oh" and not locks.isdisjoint(near[-2:]))
    )


def _spelt_codes(sight: Sight) -> Iterator[int]:
    """Yield codes in the words of radio: "alpha seven tango niner", but not the alphabet itself."""
    run: list[int] = []
    for place, lower in enumerate((*sight.lower, "")):
        ray = lower == "ray" and place > 0 and sight.lower[place - 1] == "-"  # of "x-ray"
        if lower in _SPELT or ray:
            run.append(place)
            continue
        if not run or lower == "-":
            continue
        spelt = [_ALSO_NATO.get(sight.lower[at], sight.lower[at]) for at in run]
        letters = [_NATO.index(word) for word in spelt if word in _NATO]
        sure = any(word in _NATO and word not in _WEAK_NATO for word in spelt)
        near = sight.lower[max(run[0] - _NEAR_LABEL, 0) : run[0]] if run else ()
        labelled = not _SPELT_LABELS.isdisjoint(near)
        even = {other - one for one, other in pairwise(letters)} == {1}
        mixed = len(letters) < len(run) or labelled
        if (
            len(letters) > 1
            and sure
            and mixed
            and not even
            and len(run) + labelled >= _FEWEST_SPELT
        ):
            yield from run
        run = []


def _said_numbers(sight: Sight) -> Iterator[int]:
    """Yield the words of a telephone number in words, but not of "one two three four five"."""
    run: list[int] = []
    for place, lower in enumerate((*sight.lower, "")):
        if lower in _SAID or (lower == "hundred" and len(run) >= _FEWEST_DOUBLED):
            run.append(place)
            continue
        if lower in (",", "-") and run:
            continue
        values = [_DIGITS.index(sight.lower[at]) for at in run if sight.lower[at] in _DIGITS]
        steps = {other - one for one, other in pairwise(values)}
        digits = [sight.lower[at] for at in run]
        doubled = len(run) >= _FEWEST_DOUBLED and not (
            _DOUBLES.isdisjoint(digits) or _NOUGHTS.isdisjoint(digits)
        )
        called = not _OF_CALLS.isdisjoint(digits) or len(run) > _FEWEST_SAID
        labelled = bool(run) and _is_labelled(sight, run[0])
        told = (len(run) >= _FEWEST_SAID and called) or (len(run) >= _FEWEST_LABELLED and labelled)
        if doubled or (len(steps) > 1 and told):
            yield from run
        run = []
