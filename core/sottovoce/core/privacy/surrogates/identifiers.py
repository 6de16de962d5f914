"""Detects the format of an identifier, and draws one of that format without an owner.

`shape` tells addresses, dates, telephones, card numbers and codes apart. Digits never affect the
format, because it is read off a text with blanked digits. Letters do if they are a published token,
for example a scheme, "am" or a month.

`draw` gives reserved hosts, fictional telephones and failing cards. A random number in the right
format may belong to a person. If a standard or a regulator keeps a range free, surrogates are drawn
from it. Otherwise they break a check. A draw depends on the `Shape` alone, and is uniform over all
identifiers that the shape allows.
"""

from __future__ import annotations

import calendar
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Final

from sottovoce.core.privacy.noise import Random
from sottovoce.core.privacy.surrogates import Shape, below, case, fill, one_of, words_of
from sottovoce.core.privacy.surrogates import layout as layout_of
from sottovoce.core.text import word_classes
from sottovoce.core.text.words import is_spelled

MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
SHORT_MONTHS: Final = tuple(month[:3] for month in MONTHS)
OTHER_MONTHS: Final = tuple(
    tuple(names.split())
    for names in (
        "januar februar märz april mai juni juli august september oktober november dezember",
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre"
        " dicembre",
        "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
        "januari februari maart april mei juni juli augustus september oktober november december",
        "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada"
        " grudnia",
        "ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık",
        "januari februari mars april maj juni juli augusti september oktober november december",
        "januar februar marts april maj juni juli august september oktober november december",
        "januar februar mars april mai juni juli august september oktober november desember",
        "ledna února března dubna května června července srpna září října listopadu prosince",
        "ianuarie februarie martie aprilie mai iunie iulie august septembrie octombrie noiembrie"
        " decembrie",
    )
)
"""In German, which writes a capital, French, Spanish, Italian, Portuguese, Dutch, Polish, Turkish,
Swedish, Danish, Norwegian, Czech and Romanian."""
MONTH_NUMBERS: Final = {
    **{name: number for names in OTHER_MONTHS for number, name in enumerate(names, 1)},
    **{name: number for number, name in enumerate(MONTHS, 1)},
    **{name: number for number, name in enumerate(SHORT_MONTHS, 1)},
    "sept": 9,
}
EXTENSIONS: Final = (
    *("csv", "doc", "docx", "gif", "htm", "html", "jpeg", "jpg", "json", "md", "mov", "odp"),
    *("odt", "pdf", "png", "ppt", "pptx", "py", "rar", "rtf", "txt", "wav", "xls", "xlsx"),
    *("xml", "zip"),
)
"""Endings that make a dotted name a file's."""

CODE: Final = "code"
"""The sort of a text in no known format."""
SPELLED: Final = "spelled"
"""The sort of a text that is spelled letter by letter."""

USER: Final = "user name"
"""The sort of the name of a user of a machine; no text by itself has it."""

WEB: Final = frozenset({"http://", "https://", "ftp://"})

_KIND: Final = "identifier"
_LONGEST: Final = 256
"""Code points. A longer text has a format only if its beginning shows one."""

_MONTH: Final = "|".join((*MONTHS, *SHORT_MONTHS))
_TIME: Final = r"00?:00(?::00(?:[.,]0{1,9})?)?"
_HALF: Final = r"[AaPp]\.?[Mm]\.?"
_SIGNS: Final = "[!-/:-@\\[-`{-~\u00a2-\u00a5\u00b0\u20a0-\u20bf]{0,3}"

_SCHEME = re.compile(r"https?://|ftp://|(?:jdbc:)?[a-z][a-z0+.\-]*://|www\.", re.IGNORECASE)
SCHEMES: Final = frozenset(
    {
        *WEB,
        "www.",
        *(
            f"{scheme}://"
            for scheme in (
                *("amqp", "amqps", "file", "ftps", "git", "gs", "hdfs", "imap", "imaps", "irc"),
                *("jdbc:mariadb", "jdbc:mysql", "jdbc:oracle", "jdbc:postgresql", "jdbc:sqlserver"),
                *("kafka", "ldap", "ldaps", "mariadb", "mongodb", "mongodb+srv", "mqtt", "mqtts"),
                *("mysql", "nats", "nfs", "postgres", "postgresql", "redis", "rediss"),
                *("rtmp", "rtsp", "scp", "sftp", "sip", "smb", "smtp", "smtps", "sqlite"),
                *("ssh", "svn", "tcp", "telnet", "udp", "vnc", "ws", "wss"),
            )
        ),
    }
)
"""Public schemes, which a surrogate keeps."""
_LAST_LABEL = re.compile(r"(?<=[^\W_])\.([^\W\d_]{2,})(?::0+)?([/?#].*)?\Z", re.DOTALL)

_Read = Callable[["re.Match[str]"], str]
"""Makes the layout of what matched."""


def _digits(match: re.Match[str]) -> str:
    """Return the layout of digits and signs; the pattern's letters are published tokens."""
    return match[0].replace("0", "9")


def _digits_and_letters(match: re.Match[str]) -> str:
    return layout_of(match[0])


def _hexadecimal(match: re.Match[str]) -> str:
    small = match[0] == match[0].lower()
    return re.sub("[0a-fA-F]", "f" if small else "F", match[0])


def _time_layout(match: re.Match[str]) -> str:
    """Which half of the day is drawn anew: its letter is an x."""
    return re.sub("[ap]", "x", re.sub("[AP]", "X", _digits(match)))


def _month_layout(match: re.Match[str]) -> str:
    """Case, then the layout with ``m`` for a short name of a month and ``M`` for a full one."""
    name, layout = match["month"], _digits(match)
    mark = "m" if name.lower() in SHORT_MONTHS else "M"
    return f"{case(name)}|{layout[: match.start('month')]}{mark}{layout[match.end('month') :]}"


def _suffix(match: re.Match[str]) -> str:
    return match[1].replace("0", "9")


_PATTERNS: Final[tuple[tuple[str, str, _Read], ...]] = (
    ("date", r"0000[-/.]00?[-/.]00?", _digits),
    ("date", r"00?[-/.]00?[-/.](?:0000|00)", _digits),
    ("date", rf"0000-00-00T{_TIME}(?:Z|[+-]00:?00)?", _digits),
    (
        "named date",
        rf"(?:00?[-/.]?)?(?P<month>(?i:{_MONTH}))(?:[-/.]?00(?:00)?)?",
        _month_layout,
    ),
    ("time", rf"{_TIME}(?:{_HALF})?|00?{_HALF}", _time_layout),
    ("ordinal", r"(0{1,9})(?:st|nd|rd|th)", _suffix),
    ("decade", r"(00|0000)'?s", _suffix),
    ("ip address", r"0{1,3}(?:\.0{1,3}){3}((?:/00?)?(?::0{2,5})?)", _suffix),
    ("hardware address", r"[0a-fA-F]{2}([:-])[0a-fA-F]{2}(?:\1[0a-fA-F]{2}){4}", _suffix),
    ("ip address 6", r"(?=(?:[^:]*:){2})[0a-fA-F:]{2,39}((?:/0{1,3})?)", _suffix),
    ("amount", rf"{_SIGNS}0{{1,3}}(?:[.,]000)+(?:[.,]00?)?{_SIGNS}", _digits),
    ("amount", rf"{_SIGNS}0{{1,6}}[.,]0+{_SIGNS}", _digits),
    ("telephone", r"\+0(?:[ ().\-/]{0,2}0){0,14}", _digits),
    ("telephone", r"\(?0(?:[ ().\-/]{0,2}0){6,11}", _digits),
    ("card", r"0(?:[ \-]?0){12,18}", _digits),
    ("bank account", r"[A-Z]{2}00(?: ?[A-Z0]){11,30}", _digits_and_letters),
    ("amount", rf"{_SIGNS}0{{1,18}}{_SIGNS}", _digits),
    ("hexadecimal", r"(?=.*0)(?=.*[A-Fa-f])(?:[0a-f-]{8,}|[0A-F-]{8,})", _hexadecimal),
)
"""Sort, what it looks like with every digit blanked as 0, and how its layout is read."""

_FORMATS: Final = tuple((sort, re.compile(pattern), read) for sort, pattern, read in _PATTERNS)

_GROUPS = re.compile(
    r"\+(?=(?:\D*0){4,15}\Z)0{1,3}(?: 0{2,6})+|000 000 0000|00000 000000"
    r"|0{3,4} 0{3,4} 0{3,4}|00(?: 00){4}|0000(?: 0000){3}(?: 000)?|0000 000000 00000"
    r"|[A-Z]{2}00(?: [A-Z0]{4}){2,7}(?: [A-Z0]{1,3})?"
)
_MOST_GROUPS: Final = 9


def shape(text: str) -> Shape:
    """The format of an identifier and its layout.

    >>> shape("12:45pm")
    Shape(kind='identifier', sort='time', layout='99:99xm')
    """
    blank = _blank(text)
    if (web := _SCHEME.match(blank[:_LONGEST])) and len(web[0]) < len(text):
        scheme = web[0].lower() if web[0].lower() in SCHEMES else "https://"
        path = re.search("[/?#]", blank[web.end() :])
        return Shape(_KIND, "web address", scheme + (" path" if path else ""))
    if "@" in blank[1:-1]:
        return Shape(_KIND, "mail address", "mailto:" if blank[:7].lower() == "mailto:" else "")
    if blank[:1] == "@":
        return Shape(_KIND, "handle")
    if len(blank) > _LONGEST:
        return Shape(_KIND, CODE, layout_of(text))
    if is_spelled(blank):
        bare = "".join(c for c in text if unicodedata.category(c)[0] != "M")
        return Shape(_KIND, SPELLED, layout_of(bare))
    for sort, pattern, read in _FORMATS:
        if match := pattern.fullmatch(blank):
            return Shape(_KIND, sort, read(match))
    if dotted := _LAST_LABEL.search(blank):
        if dotted[1].lower() in EXTENSIONS and not dotted[2]:
            return Shape(_KIND, "file", dotted[1])
        return Shape(_KIND, "host", "path" if dotted[2] else "")
    return Shape(_KIND, CODE, layout_of(text))


def runs(texts: Sequence[str]) -> list[slice]:
    """Return which of these identifiers, separated by spaces, are one number.

    A telephone, card or account number written in groups is several words. Drawn one by one, its
    parts could by chance make a real number. Joined by spaces they have a common shape, and a
    surrogate of that shape has the same number of parts.

    Returns:
        Slices in order that together hold every place once.

    >>> runs(["12", "+44", "7700", "900123"])
    [slice(0, 1, None), slice(1, 4, None)]
    """
    blanks = [_blank(text[:_LONGEST]) for text in texts]
    found, start = [], 0
    while start < len(blanks):
        stops = range(min(start + _MOST_GROUPS, len(blanks)), start + 1, -1)
        stop = next((end for end in stops if _GROUPS.fullmatch(" ".join(blanks[start:end]))), 0)
        found.append(slice(start, stop or start + 1))
        start = found[-1].stop
    return found


def _blank(text: str) -> str:
    """``text`` with a 0 for every number of any script, so that no digit can decide anything."""
    return "".join("0" if unicodedata.category(c)[0] == "N" else c for c in text)


_HOSTS: Final = ("example.com", "example.net", "example.org")
"""Second-level names that cannot be registered (RFC 2606), nor names below them."""

_NETWORKS: Final = ("192.0.2.", "198.51.100.", "203.0.113.")
"""Addresses for documentation, routed nowhere (RFC 5737)."""

_NETWORK_6: Final = "2001:db8:"
"""The same for version 6 (RFC 3849)."""

_VENDOR: Final = ("00", "00", "5e", "00", "53")
"""Hardware addresses for documentation (RFC 7042)."""

_BRITISH: Final = (
    *("01134960", "01144960", "01154960", "01164960", "01174960", "01184960", "01214960"),
    *("01314960", "01414960", "01514960", "01614960", "02079460", "01632960", "07700900"),
)
"""What British telephone numbers for use in drama begin with (Ofcom); three digits follow."""

_NEVER_CHECKED: Final = ("00", "01", "99")
"""Check digits that no bank account number can have: ISO 7064 gives 02 to 98."""

_ZONE = re.compile(r"((?:[.,]9+)?)([+-]?)(Z?|99:?99)")
_YEARS: Final = (1900, 2099)
_PATH: Final = "aaaaaaaa"


def draw(shape: Shape, random: Random) -> str:
    """An identifier of that format and layout."""
    return _DRAWN.get(shape.sort, fill)(shape.layout, random)


def _host(random: Random) -> str:
    return f"{one_of(words_of('words'), random)}.{one_of(_HOSTS, random)}"


def _web_address(layout: str, random: Random) -> str:
    scheme, _, path = layout.partition(" ")
    return scheme + _dotted(path, random)


def _dotted(path: str, random: Random) -> str:
    return _host(random) + ("/" + fill(_PATH, random) if path else "")


def _person(joint: str, random: Random) -> str:
    return one_of(words_of("given"), random) + joint + one_of(words_of("family"), random)


def _mail_address(layout: str, random: Random) -> str:
    return f"{layout}{_person('.', random)}@{one_of(_HOSTS, random)}"


def _handle(_: str, random: Random) -> str:
    return "@" + _person("_", random)


def _user(_: str, random: Random) -> str:
    return one_of(words_of("given"), random)


def _file(ending: str, random: Random) -> str:
    return f"{one_of(words_of('words'), random)}.{ending}"


def _numbers(layout: str, digits: str) -> str:
    """``digits`` in the places of the nines."""
    each = iter(digits)
    return "".join(next(each) if place == "9" else place for place in layout)


def _amount(layout: str, random: Random) -> str:
    """No number of several digits begins with a 0, because JSON cannot express it."""
    drawn = fill(layout, random)
    start = layout.index("9")
    if re.match(r"9(?:9|[.,]999)", layout[start:]):
        drawn = f"{drawn[:start]}{1 + below(9, 1, random)[0]}{drawn[start + 1 :]}"
    return drawn


def _telephone(layout: str, random: Random) -> str:
    """In the plan that its length suggests, out of the range kept for fiction.

    With 10 digits, or 11 after a plus: a North American area code, 555, and 01 with two digits.
    With 11, or 12 after a plus: a British number for drama. Of any other length: digits after
    "000", or after a plus "0", which no country's numbers begin with.

    Digits alone may be no telephone, and JSON may hold them as a number. So they do not begin with
    0: a North American number after "1", or digits after "100".
    """
    n, plus = layout.count("9"), layout[0] == "+"
    rest = fill("9" * n, random)
    american = f"{2 + below(4, 1, random)[0]}{rest[:2]}55501{rest[2:4]}"
    british = one_of(_BRITISH, random) + rest[:3]
    if plus:
        known = {11: f"1{american}", 12: f"44{british[1:]}"}.get(n, f"0{rest[1:]}")
    elif layout in _LOCAL:
        known = american[3:]
    elif n == len(layout):
        known = {10: american, 11: f"1{american}"}.get(n, f"100{rest[3:]}")
    else:
        known = {10: american, 11: british}.get(n, f"000{rest[3:]}")
    return _numbers(layout, known)


_LOCAL: Final = ("999-9999", "999 9999")


def _code(layout: str, random: Random) -> str:
    return fill(layout, random) if layout.strip("9") else _amount(layout, random)


def _card(layout: str, random: Random) -> str:
    """Its last digit is one of the nine that fail the check (Luhn's, ISO/IEC 7812)."""
    n = layout.count("9")
    digits = f"{1 + below(9, 1, random)[0]}{fill('9' * (n - 2), random)}"
    doubled = [2 * int(digit) for digit in digits[::-2]]
    total = sum(number - 9 if number > 9 else number for number in doubled)
    total += sum(map(int, digits[-2::-2]))
    wrong = (1 + below(9, 1, random)[0] - total) % 10
    return _numbers(layout, f"{digits}{wrong}")


def _bank_account(layout: str, random: Random) -> str:
    drawn = fill(layout, random)
    return drawn[:2] + one_of(_NEVER_CHECKED, random) + drawn[4:]


def _ip_address(layout: str, random: Random) -> str:
    host, prefix, port = below(256, 1, random)[0], 8 + below(25, 1, random)[0], _port(random)
    tail = (f"/{prefix}" if "/" in layout else "") + (f":{port}" if ":" in layout else "")
    return f"{one_of(_NETWORKS, random)}{host}{tail}"


def _port(random: Random) -> int:
    return 1024 + below(2**16 - 1024, 1, random)[0]


def _ip_address_6(layout: str, random: Random) -> str:
    return _NETWORK_6 + fill("ffff:ffff::ffff", random) + ("/64" if layout else "")


def _hardware_address(layout: str, random: Random) -> str:
    return layout.join((*_VENDOR, fill("ff", random)))


def _year(places: str, random: Random) -> str:
    first, last = _YEARS
    year = first + below(last - first + 1, 1, random)[0]
    return f"{year % 100:02}" if len(places) == 2 else str(year)


def _date(layout: str, random: Random) -> str:
    """Day and month are at most 12, so that either may come first."""
    date, _, time = layout.partition("T")
    separators = [sign for sign in date if sign != "9"]
    parts = date.replace(separators[1], separators[0]).split(separators[0])
    small = [f"{1 + number}" for number in below(12, 2, random)]
    nine = [f"{1 + number}" for number in below(9, 2, random)]
    year = _year(max(parts, key=len), random)
    last = 0 if len(parts[0]) == 4 else 2
    drawn = [
        year if place == last else nine.pop() if len(part) == 1 else small.pop().zfill(2)
        for place, part in enumerate(parts)
    ]
    text = drawn[0] + separators[0] + drawn[1] + separators[1] + drawn[2]
    return f"{text}T{_clock(time, random)}" if time else text


def _named_date(layout: str, random: Random) -> str:
    case, _, places = layout.partition("|")
    month = below(12, 1, random)[0]
    name = (MONTHS if "M" in places else SHORT_MONTHS)[month]
    before, _mark, after = places.partition("M" if "M" in places else "m")
    day, year = before.rstrip("-/."), after.lstrip("-/.")
    days = calendar.monthrange(2001, month + 1)[1]
    low, high = (1, 9) if len(day) == 1 else (10, days)
    number = low + below(high - low + 1, 1, random)[0]
    text = f"{number}{before[len(day) :]}" if day else ""
    text += word_classes.apply(word_classes.Case(case), name)
    return text + after[: len(after) - len(year)] + (_year(year, random) if year else "")


def _clock(layout: str, random: Random) -> str:
    """Hour, minutes, seconds and what follows them, of ``99:99:99.999+99:99`` or less."""
    hour, colon, rest = layout.partition(":")
    sixty = [f"{number:02}" for number in below(60, 2, random)]
    minutes = sixty[0] + (f":{sixty[1]}" if rest[2:3] == ":" else "")
    fraction, sign, zone = _ZONE.fullmatch(rest[len(minutes) :]).groups()  # type: ignore[union-attr]
    away = f"{sign}{below(13, 1, random)[0]:02}{':' if ':' in zone else ''}00" if sign else zone
    return f"{_hour(hour, 24, random)}{colon}{minutes}{fill(fraction, random)}{away}"


def _hour(places: str, end: int, random: Random) -> str:
    if len(places) == 2:
        return f"{below(end, 1, random)[0]:02}"
    return str(1 + below(9, 1, random)[0])


def _time(layout: str, random: Random) -> str:
    place = layout.lower().find("x")
    if place < 0:
        return _clock(layout, random)
    half = one_of("ap", random)
    clock, tail = layout[:place], layout[place + 1 :]
    hour, _, rest = clock.partition(":")
    hours = str(10 + below(3, 1, random)[0]) if len(hour) == 2 else _hour(hour, 12, random)
    minutes = _clock(clock, random).partition(":")[2]
    half = half.upper() if layout[place] == "X" else half
    return f"{hours}{':' if rest else ''}{minutes}{half}{tail}"


def _ordinal(layout: str, random: Random) -> str:
    number = _amount(layout, random)
    teen = number[-2:-1] == "1"
    return number + ("th" if teen else {"1": "st", "2": "nd", "3": "rd"}.get(number[-1], "th"))


def _decade(layout: str, random: Random) -> str:
    return f"{_year(layout, random)[:-1]}0s"


def _spelled(layout: str, random: Random) -> str:
    """Joiners take nothing from ``random``: a name has the same letters however it is spelled."""
    letters = iter(fill("".join(filter(str.isalnum, layout)), random))
    return "".join(next(letters) if place.isalnum() else place for place in layout)


_DRAWN: Final[dict[str, Callable[[str, Random], str]]] = {
    "web address": _web_address,
    "mail address": _mail_address,
    "handle": _handle,
    USER: _user,
    "host": _dotted,
    "file": _file,
    "amount": _amount,
    "telephone": _telephone,
    "card": _card,
    CODE: _code,
    "bank account": _bank_account,
    "ip address": _ip_address,
    "ip address 6": _ip_address_6,
    "hardware address": _hardware_address,
    "date": _date,
    "named date": _named_date,
    "time": _time,
    "ordinal": _ordinal,
    "decade": _decade,
    SPELLED: _spelled,
}
