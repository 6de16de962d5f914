"""Separates identifiers of a person from the numbers, names and paths of code.

Under the other policies every identifier is drawn. Under `personal`, "parse_rows", "x[i-1]",
"400 mg" and "9:30" belong to the question, and pass. A telephone number, a date, a mail address, an
order number and everything that cannot be read as code or as an amount are drawn.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Final

from sottovoce.core.privacy.packages import (
    compared,
    is_owned,
    is_package_host,
    is_public_package,
    pinned,
    serves_packages,
)
from sottovoce.core.privacy.signs import LONG_AMOUNT, counts, key_parts, listed
from sottovoce.core.privacy.surrogates import identifiers
from sottovoce.core.text.vocabulary import Listed, Mark, Vocabulary, listed_names

CONTACTS: Final = "contacts"
DATES: Final = "dates"
NUMBERS: Final = "numbers"
SECRETS: Final = "secrets"
UNLISTED: Final = "unlisted"

_BY_SORT: Final = {
    **dict.fromkeys(("web address", "mail address", "handle"), CONTACTS),
    **dict.fromkeys(("telephone", "hardware address", "ip address 6"), CONTACTS),
    **dict.fromkeys(("date", "named date"), DATES),
    **dict.fromkeys(("card", "bank account", "hexadecimal"), NUMBERS),
    identifiers.SPELLED: UNLISTED,
}
"""The kinds of formats that are always drawn."""
_PASSING: Final = frozenset({"time", "ordinal", "decade"})

_OCTET: Final = r"\.(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])"
_NETWORK: Final = (
    rf"(?:(?:127|22[4-9]|23\d|255){_OCTET}|10\.(?:\d|10|42|96|244)|172\.(?:1[6-9]|2\d|3[01])|192\.168|169\.254"
    rf"|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])|0\.0){_OCTET}{_OCTET}"
    r"|1\.[01]\.[01]\.1|8\.8\.(?:8\.8|4\.4)|9\.9\.9\.9"
)
"""Addresses within networks that many have (as Kubernetes sets them up, too), masks, and public
servers of names."""
_INNER = re.compile(rf"(?:{_NETWORK})(?:/\d{{1,2}})?(?::(?:\d{{1,5}}|\*))?")
_ADDRESS = re.compile(rf"\d{{1,3}}(?:{_OCTET}){{3}}(?:/\d{{1,2}})?(?::\d{{1,5}})?")
_HARDWARE = re.compile(r"([0fF])\1(?:([:-])\1\1)(?:\2\1\1){4}")
"""The hardware addresses of nothing and of everything."""
_NO_HOST = re.compile(
    rf"(?:https?://)?(?:{_NETWORK}|localhost|(?:www\.|api\.)?example\.(?:com|org|net))"
    r"(?::\d{2,5})?/?"
)
_SITE = re.compile(r"(?:https?://)?(?:www\.)?([a-z]{4,})\.(?:com|org|net|io|gov|dev|ai|co|edu)/?")
"""The address of a whole site, which says nothing if the site is public."""
_LINK = re.compile(r"(?:([a-z][a-z0-9+.-]{1,20})://)?([\w.-]+(?::\d{2,5})?)([/?#].*)?", re.I)
_LOCAL = re.compile(
    rf"(?:localhost|{_NETWORK}|(?:www\.|api\.)?example\.(?:com|org|net))(?::\d{{2,5}})?"
)
_PUBLIC_SITE = re.compile(
    r"(?:www\.)?(?:[a-z]{2}|api|calendar|docs?|developers?|drive|gist|help|learn|mail|maps|raw"
    r"|support|wiki)\."
    r"([a-z]{4,})(?:\.(?:com|org|net|io|gov|dev|ai|co|edu|uk|de|fr|es|nl|eu)){1,2}"
)
_OF_ACCOUNTS = re.compile(
    r"behance|discord|dribbble|facebook|github|gitlab|instagram|linkedin|medium|patreon|paypal"
    r"|pinterest|quora|reddit|researchgate|snapchat|soundcloud|spotify|steam|strava|substack"
    r"|telegram|tiktok|tumblr|twitch|twitter|venmo|vimeo|whatsapp|youtube"
)
"""Sites whose pages belong to accounts."""
_WELL_KNOWN = re.compile(
    r"amazon|apple|bing|dropbox|ebay|google|microsoft|mozilla|netflix|openai|stackoverflow"
    r"|wikimedia|wikipedia|yahoo|zoom"
)
"""Sites whose names are names of persons too, or in no list."""
_PACKAGE_PATH = re.compile(r"(?!.*\d{5})[\w./@:+-]*")
_SEGMENT = re.compile(r"v?\d{1,4}(?:\.\d{1,4}){0,3}|(?:[A-Za-z]+[-_.+]){0,12}[A-Za-z]+")
"""A version or a small number, or words: a part of a link that anyone can read."""
_BETWEEN = re.compile(r"[/#:]")
_HOST = re.compile(
    r"(?:[\w-]+\.)+(?:com|org|net|edu|gov|mil|int|biz|io|co|dev|eu|uk|de|fr|es|nl|ch|se|dk|fi|pl"
    r"|cz|ru|cn|jp|kr|br|mx|au|nz|ca|us|za|ie|gr|tr|ua|example|test|local|localhost|invalid"
    r"|internal|lan|corp|home)(?:[:/?#].*)?",
    re.IGNORECASE,
)
_HOME = re.compile(r"(?:^|[\\/])(?:home|users|Documents and Settings)[\\/]+(?P<user>[^\\/]+)", re.I)
_PLACE_KEYS: Final = listed("place_keys") - {"location"}
_INNER_HOSTS: Final = listed("inner_hosts")
_NO_WORD: Final = (0, Mark.NAME, Mark.NAME | Mark.WORD)
"""Marks of words that are in no list, or names."""
_PERSON_KEYS: Final = listed("person_keys")
NOBODY: Final = listed("system_users")
"""Users of a machine that are no person."""

_LONG_NUMBER: Final = 5
"""Digits of a plain number that may belong to an account, an order or a place."""
_ROUND = re.compile(
    r"[1-9]\d{0,2}0{3,}|[1-9]0{4,}|100644|100755|120000|(?:65536|65535|32768|16384|10080|86400|31536000)"
    r"|(?:11434|15672|25519|25565|27017|32400|50051|51820)"  # ports of known services, a curve
)
BAUD = re.compile(r"115200|19200|38400|57600|74880|921600")
"""Speeds of a serial line; alone they may be codes."""
_PLAIN = re.compile(r"\d+")
_PRECISE = re.compile(r"-?\d{1,3}\.\d{5,}")
"""A number with so many decimals may be a place on a map."""
_GROUPED = re.compile(
    r"\W{0,3}\d{1,3}(?:(?:\.\d{3})*(?:,\d+)?|(?:,\d{3})*(?:\.\d+)?|(?:_\d{3})+(?:\.\d+)?)\W{0,3}"
)
"""A number whose thousands are parted by one sign, and its decimals by another."""
_SERIAL = re.compile(
    r"[A-Z]{1,6}[-/]?\d{4,}|\d{4,}[-/]?[A-Z]{1,6}|[A-Z]{2}\d{2}[A-Z]{3}|[A-Z]\d{5,}"
)
_PUBLIC_CODE = re.compile(
    r"E0\d{3}|(?:CS|LNK|MSB|TS)\d{4}|ORA-\d{5}|KB\d{6,7}|CVE-\d{4}-\d{4,7}|(?:RFC|PEP|JEP)-?\d{3,4}"
    r"|97[89]-\d{1,5}-\d{1,7}-\d{1,7}-\d|0x[\da-fA-F]{1,8}|\d{1,5}(?:[x×]\d{1,5}){1,2}|(\d{5}):\1"
    r"|\d{1,4}:\d{1,4}|\d{1,3}(?::\d{1,3}){2,3}|i[3579]-\d{4,5}[A-Z]{0,2}"
    r"|\d{2,3}\.0\.\d{4,5}\.\d{1,4}|\d\.\d{1,12}[eE][+-]?\d{1,3}"
    r"|(?:[pnbrqkPNBRQK1-8]{1,8}/){7}[pnbrqkPNBRQK1-8]{1,8}|[BCPU]0[\dA-F]{3}"
    r"|0x(?:0{4}|f{4})?[5-7f][\da-f]{11}|(?:[01]{8}){1,4}|\d{3}/\d{2}Z?R\d{2}"
    r"|[A-G][#b]?(?:maj|min|dim|aug|sus|add)\d{1,2}"
    r"|(?:990|1040|1095|1098|1099|1120)-[A-Z]{1,4}|ES20\d\d|proto[23]|(?:lib)?[xh]26[45]"
    r"|(?!\d)(?:(?>TLS|ADH|A?ECDHE?|DHE?|EDH|ECDSA|RSA|PSK|AES(?:128|256)?|GCM|CBC3?|CCM|CHACHA20|POLY1305"
    r"|SHA(?:1|256|384|512)?|3?DES|RC4|MD5|[ae]?NULL|WITH|HIGH|(?<!\d)(?:128|256)(?!\d))[-_:!+]?+){3,80}+"
    r"|BLAKE[23][bs]?|X25519|Ed25519|Curve25519|Argon2(?:id|[id])?"
    r"|[1-9]\d{3,6}L|214748364[78]|429496729[56]|9223372036854775807|9007199254740991n?|299792458"
    r"|0\.[1-9]0{12,}\d{1,2}|3\.1415\d{1,12}|2\.718\d{2,12}|1\.618\d{2,12}"
)
"""What vendors call an error, standards, books, sizes, ports, versions: "124.0.6367.91".

Also numbers of science and of processors, positions of chess, faults of cars, addresses in memory,
bits, tyres, chords, forms of tax and ciphers.
"""
_MEASURED = re.compile(r"[1-9]\d{0,6}(s|[A-Za-zµ]{2,4})")
"""A number with its unit: "30012ms"; a Spaniard's document has eight digits and a letter."""
_POSTCODE = re.compile(r"(?:GIR0AA|[A-Z]{1,2}\d[A-Z\d]?\d[A-Z]{2}|[A-Z]\d[A-Z]\d[A-Z]\d)")
_KEY = re.compile(r"(?=\S*\d)(?=\S*[A-Za-z])[\w+/=.~-]{20,}")
"""As long a run of letters and digits may be a key."""
_COLOUR = re.compile(r"(?![a-fA-F]\d{7}|\d{7}[a-fA-F])#?(?:0x)?[0-9a-fA-F]{1,8}")
"""A letter and seven digits are rather the number of a licence."""

_HASHED_COLOUR = re.compile(r"(?=.*[A-Fa-f].*[A-Fa-f])(?:[0-9A-Fa-f]{6}|[0-9A-Fa-f]{8})")
"""At least two letters, because tickets have one or two before a number."""

_ALWAYS = re.compile(
    r"[1-9][A-Z][A-Z\d]\d-?[A-Z][A-Z\d]\d-?[A-Z]{2}\d\d"
    r"|(?=\w*[CFGHJMPQRVWX])[2-9CFGHJMPQRVWX]{4,8}\+[2-9CFGHJMPQRVWX]{2,3}"
)
"""The number of a patient in the United States, and a place's plus code: "9C3X+7Q"."""

_CUT = re.compile(r"[A-Z]?[a-zß-öø-ÿ]+|[A-Z]+(?![a-z])|[^\W\d_]+|\d+")
"""The parts of a compound: words by case, and numbers."""
_ESCAPE = re.compile(r"\\[nrt]")
_TEX = re.compile(r"(?<![\w:])\\([A-Za-z]+)")
_TEX_PART = re.compile(r"([A-Za-z]++)(?:[^A-Za-z:\\]++[A-Za-z]?)*+")
_TEX_COMMANDS: Final = listed("tex_commands")
_MOST_PARTS: Final = 40
_LONGEST_DIGITS: Final = 4
_MOST_DIGITS: Final = 6
"""Digits of a compound; more may be a telephone number."""
_LIST = re.compile(r"\d{1,3}(?:,\d{1,3})+")

_DOCUMENT = re.compile(
    r"([^\\/]+)\.(?:pdf|docx?|odt|rtf|xlsx?|pptx?|pages|jpe?g|png|heic|eml|msg)", re.IGNORECASE
)
_VALUE = re.compile(r"(?:^|[&;])-{0,2}([A-Za-z_][\w.-]{0,39})=([^&;=]+)")
"""The keys and values of "ip=84.23.119.7" and "a=1&b=2"."""
_SESSION = re.compile(r"(?:.*[_.-])?(?:session|sess|sid|sessionid|cookie|nonce|auth)(?:[_.-]?id)?")
_SPAN = re.compile(
    r"(?:19|20)\d\d[-–/](?:(?:19|20)\d\d|\d\d)"
    r"|\d{1,2}(?::\d\d){1,2}(?:[ap]m)?[-–/]\d{1,2}(?::\d\d){1,2}(?:[ap]m)?",
    re.IGNORECASE,
)
"""From one year or time of day to another; other numbers of this form are drawn."""
_TAG = re.compile(r"([\w.]{2,32})#\d{4}")
"""A handle with a number, as in Discord: "mads#4471"."""
_REDDITOR = re.compile(r"/?u/(?=[\w-]*[_\d-]|\w{6})[\w-]{3,20}")
_PACKAGE = re.compile(
    r"@([\w.-]+/)([\w./-]+)(?:@.{1,20})?"
    r"|([A-Za-z][\w.-]*(?:/[\w.-]+){0,3})@[\^~<>=v]{0,2}\d{1,4}(?:\.[\dx*]{1,4}){0,2}(?:-\w+(?:\.\d+)?)?"
)
"""A package with a scope or a version: "@types/node", "react@18.2.0"."""
_DECIMAL = re.compile(r"\d{1,8}(?:\.\d{1,3})?")
_LINE_OF_FILE = re.compile(r"(\w\.[A-Za-z]\w{0,3}):\d{1,6}(?::\d{1,5})?\Z")
_FRAME = re.compile(r"\Ajava\.base/(?=java\.)|(?<![\w.])java\.lang\.")
_LINKED = re.compile(r"(\w+)@(?:PLT|plt|@?[A-Z]+_[\d.]+)")
"""A function and how it is linked: "printf@PLT"."""
_FORM_OF_DATE = re.compile(r"[dmyhDMYH]{1,4}(?:[./:-][dmyhsDMYHS]{1,4}){1,5}")
_RANGE = re.compile(r"a-z|A-Z|0-9|\\[dwsbDWSB]")
_MACHINE = re.compile(r"(?:ip|ec2)(?:-\d{1,3}){4}(?:\..*)?")
"""What hosts in a cloud are called after their address."""
_REPOSITORY = re.compile(r"(?:github|gitlab|bitbucket)\.(?:com|org):[\w.-]+/[\w./-]+")
_SESSION_DIGITS: Final = 2

Marks = Callable[[str], int]
"""Returns the marks of a word, see `Vocabulary.marks`."""


def private(text: str, marks: Marks, *, called: bool = False, hashed: bool = False) -> str:
    """Return the kind of personal data that an identifier is; "" for none.

    Args:
        text: an identifier, as `sottovoce.core.text.words` finds it.
        called: whether a parenthesis follows, as after the name of a function.
        hashed: whether "#" stands before it, as before a colour.
    """
    if hashed and _HASHED_COLOUR.fullmatch(text):
        return ""
    if _ALWAYS.fullmatch(text):
        return NUMBERS
    text = _FRAME.sub("", _LINE_OF_FILE.sub(r"\1", text))
    user, _, host = text.partition("@")
    if user.lower() in NOBODY and _INNER.fullmatch(host):
        return ""
    linked = _LINKED.fullmatch(text)
    if _FORM_OF_DATE.fullmatch(text) or (linked and compound(linked[1], marks)):
        return ""
    if _RANGE.search(text) and not any(map(str.isalnum, _RANGE.sub("", text))):
        return ""  # a regular expression
    if is_public_package(text, marks) or ((pin := pinned(text)) and compound(pin, marks)):
        return ""
    if address := compared(text):
        return private(address, marks)
    if "\\" in text:
        if _is_tex(text):
            return ""
        text = _TEX.sub(lambda command: _without_tex(command, marks), text)
        if not any(map(str.isalnum, text)):
            return ""
    for key, value in _VALUE.findall(text):
        digits = sum(map(str.isdigit, value))
        if digits >= _SESSION_DIGITS and _SESSION.fullmatch(key.lower()):
            return SECRETS
        counted = LONG_AMOUNT.match(value) and counts(key)  # "rows=11932112"
        hidden = "" if counted and _DECIMAL.fullmatch(value) else private(value, marks)
        if hidden:
            return hidden
        named = value.isalpha() and marks(value.lower()) & Mark.NAME
        keys = key_parts(key)
        if named and keys & _PERSON_KEYS and value.lower() not in NOBODY:
            return UNLISTED  # "name=hunter"
        if keys & _PLACE_KEYS and any(marks(word.lower()) in _NO_WORD for word in words_in(value)):
            return UNLISTED  # "city=leeds"
    setting = _VALUE.fullmatch(text)
    if setting and compound(setting[1], marks):
        return ""  # "scale=1280:720"
    for piece in _ESCAPE.split(text) if _ESCAPE.search(text) else ():
        if piece[:1].isupper() and piece.isalpha() and not marks(piece.lower()) & ~Mark.NAME:
            return UNLISTED  # "Lane\\nHamburg"
    if _MACHINE.fullmatch(text) or _REPOSITORY.fullmatch(text):
        return CONTACTS
    home = _HOME.search(text)
    if home and (home["user"].lower() not in NOBODY or _is_home_of(text[home.end() :])):
        return CONTACTS
    document = _DOCUMENT.fullmatch(text)
    if document and _names_person(document[1]):
        return UNLISTED
    tag = _TAG.fullmatch(text)
    if (tag and not Vocabulary.shipped().marks(tag[1].lower())) or _REDDITOR.fullmatch(text):
        return CONTACTS  # "crumbwizard#4471", and not "issue#4471"
    if tag and any(
        marks(part.lower()) in _NO_WORD or listed_names(part) & Listed.GIVEN
        for part in words_in(tag[1])
    ):
        return CONTACTS
    package = _PACKAGE.fullmatch(text) if "@" in text else None
    if package and compound("".join(package.groups("")), marks):
        owned = text[0] != "@" and "/" in text  # by a user, as in "hvogel/tracker@v1"
        public = not any(marks(word.lower()) & Mark.NAME for word in words_in(text))
        return "" if public or not owned else CONTACTS
    sort = identifiers.shape(text).sort
    measured = _MEASURED.fullmatch(text)
    if is_public_code(text) or (measured and marks(measured[1].lower()) & Mark.UNIT):
        return ""
    if sort in _PASSING or _SPAN.fullmatch(text) or formula(text):
        return ""
    site = _SITE.fullmatch(text)
    if site and marks(site[1]) & (Mark.PUBLIC | Mark.NAME) == Mark.PUBLIC:
        return ""
    if sort in ("web address", "host", "file") and not called and _public_link(text, marks):
        return ""
    if is_address(text):
        return CONTACTS
    if sort == "amount" or _GROUPED.fullmatch(text):
        return _number(text)
    if sort == identifiers.SPELLED:
        return "" if _variables(text) else UNLISTED
    if sort == "telephone" and _ROUND.fullmatch(text):
        return ""
    if sort in _BY_SORT:
        return "" if sort == "hexadecimal" and _COLOUR.fullmatch(text) else _BY_SORT[sort]
    if sort == "ip address" or (sort == "host" and not called and _HOST.fullmatch(text)):
        return CONTACTS
    if _PRECISE.fullmatch(text):
        return NUMBERS
    if _SERIAL.fullmatch(text) or _POSTCODE.fullmatch(text.upper()):
        letters = "".join(filter(str.isalpha, text))
        known = marks(letters) & Mark.PUBLIC and len(letters) > 1  # "ISO27001"
        return "" if known and len(text) - len(letters) <= _MOST_DIGITS else NUMBERS
    return "" if compound(text, marks) else _unknown(text)


def _names_person(stem: str) -> bool:
    """Return whether the name of a document holds a person's.

    A usual name that is no word tells it, two names ("Rose_Long"), a name and an initial
    ("Bly_H"), or a name beside a word for papers of persons ("Stone-payslip").
    """
    parts = [part for part in _CUT.findall(stem) if part.isalpha()]
    paper = not _PAPERS.isdisjoint(re.split(r"[\W_]+", stem.lower()))
    marks = Vocabulary.shipped().marks

    dated = any(map(str.isdigit, stem))

    def has(part: str, lists: int, *, sure: bool = False) -> bool:
        """Return whether lists of names hold a part, unless it is a word and must be none."""
        mark = marks(part.lower())
        ordinary = (
            (mark & Mark.DATE and (sure or dated))
            or (mark and not mark & Mark.NAME)
            or (sure and mark & Mark.WORD)
        )
        return len(part) > 1 and bool(listed_names(part) & lists) and not ordinary

    if any(has(part, _USUAL, sure=True) for part in parts):
        return True
    if (
        paper
        and len(parts) == _PAPER_AND_NAME
        and any(part.istitle() and has(part, _USUAL) for part in parts)
    ):
        return True
    for one, other in (*pairwise(parts), *pairwise(parts[::-1])):
        both = has(one, Listed.USUAL_GIVEN) and has(other, Listed.USUAL_SURNAME)
        if both and (paper or (one.istitle() and other.istitle())):
            return True
        initial = len(other) == 1 and other.isupper() and one.istitle()
        if initial and has(one, _USUAL | Listed.SURNAME, sure=not paper):
            return True
    return False


_PAPERS: Final = listed("papers")
"""What the papers of one person are called."""
_PAPER_AND_NAME: Final = 2
_USUAL: Final = Listed.USUAL_SURNAME | Listed.USUAL_GIVEN


def _is_home_of(path: str) -> bool:
    """Return whether a path below the home of a program begins with a usual name: "/marsh"."""
    first = (words_in(re.split(r"[\\/]+", path.lstrip("\\/"), maxsplit=1)[0]) or [""])[0]
    return bool(listed_names(first) & _USUAL) and first.lower() not in _DIRECTORIES


_DIRECTORIES: Final = listed("directories")


def home_of(text: str) -> tuple[int, int] | None:
    """Return where the name of the user stands in a path; None for none."""
    home = _HOME.search(text)
    return home.span("user") if home else None


def is_of_accounts(host: str) -> bool:
    """Return whether the pages of a host belong to accounts: "github.com"."""
    labels = host.lower().split(".")
    return any(map(_OF_ACCOUNTS.fullmatch, labels))


def is_public_host(host: str, marks: Marks) -> bool:
    """Return whether a host is a public site or this machine."""
    host = host.lower()
    if _LOCAL.fullmatch(host) or _NO_HOST.fullmatch(host) or is_package_host(host):
        return True
    site = _SITE.fullmatch(host) or _PUBLIC_SITE.fullmatch(host)
    if not site or host.endswith((".github.io", ".gitlab.io")):
        return False
    known = _OF_ACCOUNTS.fullmatch(site[1]) or _WELL_KNOWN.fullmatch(site[1])
    return bool(known or marks(site[1]) & (Mark.PUBLIC | Mark.NAME) == Mark.PUBLIC)


def words_in(text: str) -> list[str]:
    """Return the words of two letters and more in a compound: "first", "Name"."""
    return [part for part in _CUT.findall(text) if part.isalpha() and len(part) > 1]


def _without_tex(command: re.Match[str], marks: Marks) -> str:
    """Return nothing for a command of TeX that is known or a public word, as in "\\title"."""
    known = marks(command[1].lower()) if len(command[1]) > _LONGEST_DIGITS else 0
    public = known and not known & Mark.NAME
    return "" if public or command[1] in _TEX_COMMANDS else command[0]


def _is_tex(text: str) -> bool:
    r"""Return whether known commands join single letters: "n\to\infty"."""
    first, *rest = text.split("\\")
    parts = map(_TEX_PART.fullmatch, rest)
    letters = sum(map(str.isalpha, first)) < 2 and not any(map(str.isdigit, text))
    return letters and all(part and part[1] in _TEX_COMMANDS for part in parts)


def _public_link(text: str, marks: Marks) -> bool:
    """Return whether a link leads to a manual or to this machine, by public words alone.

    A word that is also a name does not count as public here, and a query never does: it may hold
    a password.
    """
    link = _LINK.fullmatch(text)
    if link is None or not (link[1] or link[3]):
        return False
    host, path = link[2].lower(), link[3] or ""
    known = [marks(word.lower()) for word in words_in(path)]
    if serves_packages(host):
        plain = _PACKAGE_PATH.fullmatch(path) is not None and not is_owned(path)
        words = Mark.WORD | Mark.UNIT
        return plain and all(found and (found & words or not found & Mark.NAME) for found in known)
    name, _, port = host.partition(":")
    inner = link[1] and port and name in _INNER_HOSTS
    if not inner and not _LOCAL.fullmatch(host):  # not of "http://backend:3000"
        site = _PUBLIC_SITE.fullmatch(host)
        if not site or not marks(site[1]) & Mark.PUBLIC:
            return False
        if _OF_ACCOUNTS.fullmatch(site[1]) and path not in ("", "/"):
            return False
    return all(found and not found & Mark.NAME for found in known) and all(
        not part or _SEGMENT.fullmatch(part) for part in _BETWEEN.split(path)
    )


def is_public_code(text: str) -> bool:
    """Return whether a text names an error, a size, this machine: "CVE-2021-44228", "127.0.0.1"."""
    known = _PUBLIC_CODE, _NO_HOST, _INNER, _HARDWARE
    return any(pattern.fullmatch(text) for pattern in known)


def is_address(text: str) -> bool:
    """Return whether a text is the address of a machine in a network: "10.0.0.1", "1.2.3.4:80"."""
    return _ADDRESS.fullmatch(text) is not None


def _number(text: str) -> str:
    plain = text.strip("+-#$€£¥%°()")
    if not _PLAIN.fullmatch(plain):
        return NUMBERS if _PRECISE.fullmatch(plain) else ""
    if len(plain) < _LONG_NUMBER or _ROUND.fullmatch(plain):
        return ""
    return "" if plain != text and text[0] in "$€£¥" else NUMBERS


def _variables(text: str) -> bool:
    """Return whether single letters are a list of variables: "a, b, c, d"."""
    letters = [letter for letter in text if letter.isalpha()]
    return "," in text and len({*letters}) == len(letters) and len({*map(str.isupper, text)}) < 3


def _unknown(text: str) -> str:
    if _KEY.fullmatch(text):
        return SECRETS
    return NUMBERS if any(map(str.isdigit, text)) else UNLISTED


def compound(text: str, marks: Marks) -> bool:
    """Return whether every part of a compound is public: "firstName", "parse_rows", "x2".

    A part is public if ``marks`` gives it any, or if it is a number of at most four digits.

    >>> compound("firstName", {"first": 1, "name": 1}.get), compound("annaKerr", lambda _: 0)
    (True, False)
    """
    if _KEY.fullmatch(text) and sum(map(str.isdigit, text)) > _LONGEST_DIGITS:
        return False
    parts = _CUT.findall(_ESCAPE.sub(" ", text))
    digits = sum(len(part) for part in parts if part.isdigit())
    if len(parts) > _MOST_PARTS or (digits > _MOST_DIGITS and not _LIST.fullmatch(text)):
        return False
    for part in parts:
        if part.isdigit():
            speed = BAUD.fullmatch(part) and "tty" in text  # "ttyS0,115200n8"
            if len(part) > _LONGEST_DIGITS and not (speed or _ROUND.fullmatch(part)):
                return False
        elif not marks(part.lower()) and not marks(part.lower().removesuffix("s")):
            return False
    return True


_POSTCODES = re.compile(
    r"[A-Z]{1,2}\d[A-Z\d]? \d[A-Z]{2}|[A-Z]\d[A-Z] \d[A-Z]\d|\d{4} [A-Z]{2}"
    r"|[AC-FHKNPRTV-Y]\d[\dW] ?(?=.{0,3}[A-Z])(?=.{0,3}\d)[0-9AC-FHKNPRTV-Y]{4}"
)


_ELEMENTS: Final = (
    "He Li Be Ne Na Mg Al Si Cl Ar Ca Sc Ti Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Zr Nb Mo"
    " Tc Ru Rh Pd Ag Cd In Sn Sb Te Xe Cs Ba La Ce Nd Sm Eu Gd Hf Ta Re Os Ir Pt Au Hg Tl Pb Bi Rn"
    " Ra Th H B C N O F P S K V Y W I U"
)
_FORMULA = re.compile(rf"(?:(?:{'|'.join(_ELEMENTS.split())})\d{{0,2}}){{2,10}}")


def formula(text: str) -> bool:
    """Return whether a text is a chemical formula with a number or two sizes of letters.

    >>> formula("NaOH"), formula("CH3COOH"), formula("COHN")
    (True, True, False)
    """
    mixed = text.upper() != text or any(map(str.isdigit, text))
    return mixed and _FORMULA.fullmatch(text) is not None


def is_postcode(text: str) -> bool:
    """Return whether a text is a postcode of Britain, Ireland, Canada or the Netherlands.

    >>> is_postcode("LS1 4AB"), is_postcode("x2 y3")
    (True, False)
    """
    return _POSTCODES.fullmatch(text) is not None or _POSTCODE.fullmatch(text) is not None
