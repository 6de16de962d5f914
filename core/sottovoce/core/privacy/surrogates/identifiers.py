"""Draws identifiers without an owner: reserved hosts, fictional telephones, failing cards.

A random number in the right format may belong to a person. If a standard or a regulator keeps a
range free, surrogates are drawn from it. Otherwise they break a check. A draw depends on the
`Shape` alone, and is uniform over all identifiers that the shape allows.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from typing import Final

from sottovoce.core.privacy.noise import Random
from sottovoce.core.privacy.surrogates import formats
from sottovoce.core.privacy.surrogates.shape import Shape, below, fill, listed, one_of
from sottovoce.core.text import word_classes

__all__ = ["draw"]

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
    return f"{one_of(listed('words'), random)}.{one_of(_HOSTS, random)}"


def _web_address(layout: str, random: Random) -> str:
    scheme, _, path = layout.partition(" ")
    return scheme + _dotted(path, random)


def _dotted(path: str, random: Random) -> str:
    return _host(random) + ("/" + fill(_PATH, random) if path else "")


def _person(joint: str, random: Random) -> str:
    return one_of(listed("given"), random) + joint + one_of(listed("family"), random)


def _mail_address(layout: str, random: Random) -> str:
    return f"{layout}{_person('.', random)}@{one_of(_HOSTS, random)}"


def _handle(_: str, random: Random) -> str:
    return "@" + _person("_", random)


def _user(_: str, random: Random) -> str:
    return one_of(listed("given"), random)


def _file(ending: str, random: Random) -> str:
    return f"{one_of(listed('words'), random)}.{ending}"


def _numbers(layout: str, digits: str) -> str:
    """``digits`` in the places of the nines."""
    each = iter(digits)
    return "".join(next(each) if place == "9" else place for place in layout)


def _amount(layout: str, random: Random) -> str:
    """No number of several digits begins with a 0."""
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
    """
    n, plus = layout.count("9"), layout[0] == "+"
    rest = fill("9" * n, random)
    american = f"{2 + below(4, 1, random)[0]}{rest[:2]}55501{rest[2:4]}"
    british = one_of(_BRITISH, random) + rest[:3]
    if plus:
        known = {11: f"1{american}", 12: f"44{british[1:]}"}.get(n, f"0{rest[1:]}")
    elif layout in _LOCAL:
        known = american[3:]
    else:
        known = {10: american, 11: british}.get(n, f"000{rest[3:]}")
    return _numbers(layout, known)


_LOCAL: Final = ("999-9999", "999 9999")


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
    name = (formats.MONTHS if "M" in places else formats.SHORT_MONTHS)[month]
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
    formats.USER: _user,
    "host": _dotted,
    "file": _file,
    "amount": _amount,
    "telephone": _telephone,
    "card": _card,
    "bank account": _bank_account,
    "ip address": _ip_address,
    "ip address 6": _ip_address_6,
    "hardware address": _hardware_address,
    "date": _date,
    "named date": _named_date,
    "time": _time,
    "ordinal": _ordinal,
    "decade": _decade,
    formats.SPELLED: _spelled,
}
