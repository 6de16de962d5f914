"""Finds secrets: values after a label like "password", keys in groups, and seed phrases.

People write secrets without a separator: "pw swordfish99", "the PIN is 4711", "gate code 5519". So
a value without one counts if it looks like a secret.

A seed phrase is twelve or more words from which anyone can make the keys of a wallet. Most phrases
are words of the English list of BIP-39, `seed_words.txt`, from the package `mnemonic` (MIT,
`seed_words.license.txt`). After a label, any twelve short words count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Final

from sottovoce.core.privacy.identifying import is_public_code
from sottovoce.core.privacy.sight import Sight
from sottovoce.core.privacy.signs import QUOTES, Sign, key_parts, listed, value_after
from sottovoce.core.text.vocabulary import Mark
from sottovoce.core.text.words import Kind, Word

_FEWEST: Final = 12
_LENGTHS: Final = (12, 15, 18, 21, 24)
_WORD = re.compile(r"[a-z]{3,8}|[A-Z][a-z]{2,7}|[A-Z]{3,8}")
_JOINTS: Final = frozenset(",;:|-/\\\"'“”`[](){}#*•")
_DIGITS: Final = 2
"""Digits of a number that counts the words."""
_LISTED: Final = 0.8
"""The share of listed words from which a run without a label is a phrase."""
_EVEN: Final = 0.9
"""The share of equal marks between the words of a list."""
_PHRASE_LABELS: Final = frozenset(
    {"seed", "mnemonic", "recovery", "backup", "wallet", "passphrase"}
)
_PHRASE_NOUNS: Final = _PHRASE_LABELS | {"phrase", "phrases", "word", "words", "key"}
_BEFORE_PHRASES: Final = 10
"""Words before a phrase in which a label may stand."""


def seed_phrases(words: Sequence[Word], lower: Sequence[str]) -> Iterator[int]:
    """Yield the places of the words of seed phrases.

    Args:
        lower: each in small letters.
    """
    for run in _runs(words):
        labelled = not _PHRASE_LABELS.isdisjoint(lower[max(run[0] - _BEFORE_PHRASES, 0) : run[0]])
        while lower[run[0]] in _PHRASE_NOUNS and len(run) > _FEWEST and len(run) not in _LENGTHS:
            labelled = labelled or lower[run[0]] in _PHRASE_LABELS
            del run[0]
        if sum(lower[place] in _list() for place in run) >= _LISTED * len(run):
            for end in (0, -1):
                while len(run) > _FEWEST and lower[run[end]] not in _list():
                    del run[end]
            if not labelled and not _even(words, run):
                continue
        elif not labelled:
            continue
        yield from run


def _runs(words: Sequence[Word]) -> Iterator[list[int]]:
    """Yield runs of twelve or more short words, between which only marks and numbers stand."""
    run: list[int] = []
    for place, word in enumerate(words):
        if _WORD.fullmatch(word.text) and not word.clitic:
            run.append(place)
        elif run and not _joins(words, place):
            if len(run) >= _FEWEST:
                yield run
            run = []
    if len(run) >= _FEWEST:
        yield run


def _even(words: Sequence[Word], run: Sequence[int]) -> bool:
    """Return whether the same marks stand between all words, as in a list and not in a sentence."""
    marks = Counter(
        "".join(word.text for word in words[one + 1 : other] if word.kind is Kind.PUNCTUATION)
        for one, other in pairwise(run)
    )
    return marks.most_common(1)[0][1] >= _EVEN * (len(run) - 1)


def _joins(words: Sequence[Word], place: int) -> bool:
    """Return whether a mark or number may stand between the words of a list: "1. hill, 2. rice"."""
    word = words[place]
    if word.kind is Kind.IDENTIFIER:
        return len(word.text.strip(".):")) <= _DIGITS
    if word.text == ".":
        return words[place - 1].kind is Kind.IDENTIFIER and len(words[place - 1].text) <= _DIGITS
    return not set(word.text) - _JOINTS


@cache
def _list() -> frozenset[str]:
    text = resources.files(__package__).joinpath("seed_words.txt").read_text("utf-8")
    return frozenset(text.split())


_SECRETS: Final = "secrets"
_KEYS: Final = listed("secret_keys")
_ENDS: Final = ("password", "passwd", "passphrase")
_ASSIGNED: Final = frozenset({"pass", "psk"})
"""Keys of a secret if the value follows at once."""
_PHRASES: Final = frozenset(
    {
        *(("seed", "phrase"), ("recovery", "phrase"), ("backup", "phrase"), ("pass", "phrase")),
        *(("licence", "key"), ("license", "key"), ("product", "key"), ("secret", "key")),
        *(("private", "key"), ("api", "key"), ("access", "key"), ("security", "answer")),
        *(("recovery", "key"), ("recovery", "words"), ("seed", "words"), ("activation", "key")),
        *(("recovery", "code"), ("recovery", "codes"), ("backup", "code"), ("backup", "codes")),
        *(
            ("de", "passe"),
            ("access", "token"),
            ("auth", "token"),
            ("memorable", "word"),
            ("pin", "code"),
            ("wifi", "key"),
            ("network", "key"),
            ("wlan", "key"),
        ),
    }
)
_ANSWERS: Final = frozenset(
    {
        *(("first", "pet"), ("favourite", "teacher"), ("favorite", "teacher")),
        *(("memorable", "date"), ("memorable", "place")),
    }
)
"""Questions of banks, whose answers follow a separator."""
_NETWORKS: Final = frozenset({"wifi", "wi-fi", "wlan"})
_SSIDS: Final = frozenset({"ssid", "essid"})
_LABELS: Final = (
    _KEYS
    | {"pass", "code", "codes", "combination", "combo", "key"}
    | _NETWORKS
    | _SSIDS
    | {"alarm", "box", "door", "gate", "keypad", "keysafe", "lockbox", "padlock", "safe"}
    | {second for _, second in _PHRASES | _ANSWERS}
)
_NAMING: Final = frozenset({"is", "was", "are", "'s", "’s", "to"})
_STATES: Final = listed("secret_states")
"""Words after "the password is" that are no password."""
_PLAIN: Final = listed("plain_values")
_HOLDERS: Final = listed("holders")
_LOCKS: Final = listed("locks")
"""What a code opens."""
_CODES: Final = frozenset({"code", "codes", "combination", "combo", "key"})
_ALARMS: Final = frozenset({"alarm", "keypad", "keysafe", "lockbox", "padlock"})
"""What a code follows at once: "alarm 9920", "keysafe: 9920"."""
_BOXES: Final = frozenset({("key", "safe"), ("key", "box"), ("lock", "box")})
_DOORS: Final = frozenset({"door", "gate"})
"""What a code follows after a separator, or with "#"."""
_LOCK_CODE = re.compile(r"[A-Z]?\d{4,6}[A-Z]?")
_LOGINS: Final = (
    _NETWORKS
    | {"account", "login", "network", "ssid", "user", "username"}
    | {"amazon", "apple", "bank", "ebay", "email", "facebook", "gmail", "hotmail", "icloud"}
    | {"instagram", "laptop", "netflix", "outlook", "paypal", "router", "spotify", "yahoo"}
)
_NEAR_LOGIN: Final = 6
_ASSIGNING: Final = frozenset({"set", "setx", "export"})
_IN_SENTENCES: Final = listed("in_sentences")
_NO_PHRASE: Final = _STATES | _IN_SENTENCES | {"i", "must", "should", "you", "we", "me", "us"}
_IN_TALK: Final = _STATES | _IN_SENTENCES | {"can", "could", "i", "please", "you"}
_FEWEST_WORDS: Final = 4
"""Words of a phrase that counts although it begins like "the password is correct"."""
_SHORT_KEYS: Final = frozenset(
    {
        *("token", "secret", "credential", "credentials", "mnemonic"),
        *("hasło", "heslo", "parola", "senha", "şifre"),
    }
)
"""Keys that are also common words, so a value without a separator needs letters and digits."""

_ASSIGNMENT = re.compile(r"(?:^|[&;?,|])-{0,2}([A-Za-z_][\w.-]{0,39})[=:]([^&;?,|=:]+)")
_OPTION = re.compile(r"[\w.@-]+:[^/\s]\S{2,}")
_GROUPS = re.compile(
    r"(?<![\w:-])(?!00[:-]00[:-]00[:-]00|(?i:ff[:-]ff[:-]ff[:-]ff))(?:[0-9A-Fa-f]{2}([:-]))(?:[0-9A-Fa-f]{2}\1){4}[0-9A-Fa-f]{2}(?![\w:-])"
    r"|(?<![\w-])[A-Z0-9]{3,8}(?:-[A-Z0-9]{3,8}){3,8}(?![\w-])"
)
"""Hardware addresses, also of letters alone, and keys in groups."""
_SHORTEST: Final = 3
_FEWEST_DIGITS: Final = 3
_FEWEST_LETTERS: Final = 3
"""Letters of a network's name or key; standards and units have fewer: "802.11ax", "5GHz"."""
_MIXED: Final = 5
"""Characters of the shortest value with letters and digits that counts without a separator."""
_MOST: Final = 30
"""Words of a labelled value."""
_PARSED: Final = listed("parsed")
"""What a parser calls a token."""


def secret_values(document: str, sight: Sight) -> Iterator[Sign]:
    """Yield the words that are secrets or parts of one; a word may come several times."""
    words = sight.words
    for match in _GROUPS.finditer(document, words[0].start, words[-1].end):
        for at in sight.within(*match.span()):
            if not is_public_code(words[at].text):  # "TLS-RSA-AES128-GCM-SHA256"
                yield Sign(at, _SECRETS)
    for place, word in enumerate(words):
        if word.kind is Kind.PUNCTUATION:
            continue
        if word.kind is Kind.IDENTIFIER and (_assigns(word.text) or _is_option(sight, place)):
            yield Sign(place, _SECRETS)
        if word.kind is Kind.IDENTIFIER and "@" in word.text:
            yield from _after_login(sight, place)
        text, lower = word.text, sight.lower[place]
        plain = text == lower or text[1:] == lower[1:]  # else "dbPassword" has parts
        if plain and text.isalpha() and lower not in _LABELS and not lower.endswith(_ENDS):
            continue  # most words
        for at in _labelled(sight, place):
            yield Sign(at, _SECRETS)
    yield from (Sign(at, _SECRETS) for at in seed_phrases(words, sight.lower))


def _labelled(sight: Sight, place: int) -> Iterator[int]:
    """Yield the words of a value after a label."""
    keys = key_parts(sight.words[place].text) if len(sight.lower[place]) <= 40 else set[str]()
    if keys == {"token"} and _before(sight, place) in _PARSED and not _has_digits(sight, place):
        return  # "Unexpected token '<' in JSON"
    if _before(sight, place) == "/" and sight.words[place - 2].text[-1] == "<":
        return  # "</password>"
    if _is_key(keys) or (_before(sight, place), sight.lower[place]) in _PHRASES:
        start = value_after(sight, place)
        if start:
            yield from _value(sight, start, separated=True)
        else:
            yield from _bare(sight, place, strict=not _SHORT_KEYS.isdisjoint(keys))
    elif (_before(sight, place), sight.lower[place]) in _ANSWERS:
        if start := value_after(sight, place):
            yield from _value(sight, start, separated=True)
    elif sight.lower[place] == "pass" or (
        sight.lower[place] in _CODES and _before(sight, place) in _LOCKS
    ):
        start = value_after(sight, place)
        at = start or place + 1 + (place + 1 < len(sight.words) and _names(sight, place + 1))
        token = _token(sight, at) if start or at > place + 1 or keys & _CODES else []
        mixed = _mixed(sight, token) or (start > 0 and _signed(sight, token))
        if _digits(sight, token) >= _FEWEST_DIGITS or (keys == {"pass"} and mixed):
            yield from token
        near = sight.lower[max(place - _NEAR_LOGIN, 0) : place]
        if keys == {"pass"} and not token and not _LOGINS.isdisjoint(near):
            bare = _token(sight, place + 1)  # "network HeronNest pass otter2291"
            yield from bare if _mixed(sight, bare) else ()
    elif (
        sight.lower[place] in _ALARMS | _DOORS
        or (_before(sight, place), sight.lower[place]) in _BOXES
    ):
        yield from _lock_code(sight, place)
    elif sight.lower[place] in _SSIDS:
        at = value_after(sight, place) or place + 1 + (
            place + 1 < len(sight.words) and _names(sight, place + 1)
        )
        if at < len(sight.words) and sight.words[at].kind is Kind.IDENTIFIER:
            yield from _token(sight, at)
    elif sight.lower[place] in _NETWORKS and (start := value_after(sight, place)):
        for at in _value(sight, start, separated=True):
            text = sight.words[at].text
            letters = sum(map(str.isalpha, text))
            if letters >= _FEWEST_LETTERS and _digits(sight, [at]) >= _DIGITS:
                yield at


def _has_digits(sight: Sight, place: int) -> bool:
    """Return whether a digit stands among the next words: "unexpected token: abx99"."""
    return any(map(str.isdigit, "".join(word.text for word in sight.words[place + 1 : place + 4])))


def _lock_code(sight: Sight, place: int) -> Iterator[int]:
    """Yield the code of a lock after its name: "alarm 9920", "the alarm is 9920", "gate: 2290"."""
    start = value_after(sight, place)
    named = place + 1 < len(sight.words) and _names(sight, place + 1)
    for at in _token(sight, start or place + 1 + named)[:1]:
        last = at + 1 == len(sight.words)
        closed = not last and not sight.gaps[at + 1] and sight.words[at + 1].text[0] == "#"
        measure = not last and sight.marks[at + 1] & Mark.UNIT  # "gate: 4000 mm"
        sure = start or closed or sight.lower[place] not in _DOORS
        if sure and not measure and _LOCK_CODE.fullmatch(sight.words[at].text):
            yield at


def _is_key(keys: set[str]) -> bool:
    return bool(keys & _KEYS) or any(key.endswith(_ENDS) for key in keys)


def _before(sight: Sight, place: int) -> str:
    """Return the word before a word, also over a hyphen; "" for none."""
    joined = place > 1 and sight.words[place - 1].text == "-" and not sight.gaps[place]
    before = place - 2 if joined else place - 1
    return sight.lower[before] if before >= 0 and not sight.breaks(place) else ""


def _names(sight: Sight, place: int) -> bool:
    return sight.lower[place] in _NAMING and not sight.breaks(place)


def _value(sight: Sight, start: int, *, separated: bool) -> Iterator[int]:
    """Yield the words of a value that begins at ``start``, up to the end of the line or quote.

    After a word with digits a full stop ends it, and a sentence may go on: "is sunny22 and it was".
    From there only numbers, codes and words in no list are of the value.
    """
    quoted = sight.words[start - 1].text[0] in QUOTES
    coded = loose = False
    for at in range(start, min(start + _MOST, len(sight.words))):
        word = sight.words[at]
        if at > start and (sight.breaks(at) or (word.text[0] == "<" and not quoted)):
            return
        if word.kind is Kind.PUNCTUATION:
            if word.text[0] in (QUOTES if quoted else () if separated else ","):
                return
            alone = at + 1 == len(sight.words) or (
                sight.gaps[at + 1] and sight.words[at + 1].kind is not Kind.IDENTIFIER
            )
            ends = word.text == "." and (
                sight.words[at - 1].kind is Kind.WORD or (alone and not quoted)
            )
            if word.text[0] in "([{<;" or ends:
                return
        elif at == start and sight.lower[at] in _PLAIN:
            return
        else:
            told = coded and not quoted and (not separated or sight.words[at - 1].text == ",")
            loose = loose or (told and _goes_on(sight, at))
            coded = coded or word.kind is Kind.IDENTIFIER
            if not loose or (not sight.marks[at] and len(word.text) >= _SHORTEST):
                yield at


def _goes_on(sight: Sight, place: int) -> bool:
    """Return whether a sentence goes on at a word: "it was", "please tell"."""
    near = sight.lower[place : place + 2]
    return near[0] == "please" or (len(near) > 1 and _IN_TALK.issuperset(near))


def _bare(sight: Sight, place: int, *, strict: bool) -> Iterator[int]:
    """Yield the words of a value after no separator: "password is x", "pw x1", 'pin "x"'."""
    at = place + 1
    named = at < len(sight.words) and _names(sight, at)
    at += named
    if at >= len(sight.words) or sight.breaks(at):
        return
    if sight.words[at].text[0] in QUOTES and sight.gaps[at]:
        if at + 1 < len(sight.words):
            yield from _value(sight, at + 1, separated=True)
        return
    token = _token(sight, at)
    assigned = sight.words[place].text.isupper() and _before(sight, place) in _ASSIGNING
    sure = (
        assigned or _mixed(sight, token) or (not strict and _digits(sight, token) > _FEWEST_DIGITS)
    )
    told = sight.lower[at] not in _STATES or _is_phrase(sight, at)
    if named and sight.lower[place + 1] != "to" and told:
        yield from _value(sight, at, separated=False)
    elif sure or (not named and not strict and _is_odd(sight, token)):
        yield from token
    elif not named and not strict:
        yield from _plain_phrase(sight, place)


def _plain_phrase(sight: Sight, place: int) -> Iterator[int]:
    """Yield ordinary words after a label: "the passphrase three goats dancing", but no compound.

    A label is "passphrase" or the password of a network. No question may ask about it.
    """
    before = _before(sight, place)
    if sight.lower[place] not in _PASSPHRASES and before not in _NETWORKS | _ROUTERS:
        return
    if not _ASKING.isdisjoint(sight.lower[max(place - _NEAR_ASKING, 0) : place]):
        return
    end = start = place + 1
    while end < len(sight.words) and sight.words[end].text.islower() and not sight.breaks(end):
        if not sight.marks[end] & Mark.WORD or sight.lower[end] in _NO_PHRASE:
            break
        if sight.lower[end] in _COMPOUNDS:
            return
        end += 1
    closed = end == len(sight.words) or sight.breaks(end) or sight.words[end].text in _CLOSING
    if not closed and sight.lower[end] in _DETERMINERS:
        end, closed = end - 1, end - start > _FEWEST_PLAIN  # "... dancing opens the vault"
    if closed and end - start >= _FEWEST_PLAIN:
        yield from range(start, end)


_PASSPHRASES: Final = frozenset({"passphrase", "phrase"})
_ROUTERS: Final = frozenset({"fi", "hotspot", "network", "router", "vault"})
_CLOSING: Final = frozenset({".", ",", ";", "!", ")", "and", "but", "so"})
_DETERMINERS: Final = frozenset({"a", "an", "her", "his", "its", "my", "our", "the", "their"})
_FEWEST_PLAIN: Final = 2
_NEAR_ASKING: Final = 8
_ASKING: Final = listed("asking") | listed("secret_questions")
_COMPOUNDS: Final = listed("secret_compounds")
"""Words that make another thing of a password: "password manager", "passphrase prompt"."""


def _is_phrase(sight: Sight, start: int) -> bool:
    """Return whether four words or more follow, none of which goes on with the sentence."""
    end = start
    while end < len(sight.words) and sight.words[end].text.isalpha() and not sight.breaks(end):
        if end > start and sight.lower[end] in _STATES | _IN_SENTENCES:
            return False
        end += 1
    return end - start >= _FEWEST_WORDS


def _token(sight: Sight, start: int) -> list[int]:
    """Return the words that are written together from a word on; no marks at the end."""
    end = start
    while end < len(sight.words) and (end == start or not sight.gaps[end]):
        end += 1
    while end > start and sight.words[end - 1].kind is Kind.PUNCTUATION:
        end -= 1
    if start < len(sight.words) and (
        sight.breaks(start) or sight.words[start].kind is Kind.PUNCTUATION
    ):
        return []
    return [at for at in range(start, end) if sight.words[at].kind is not Kind.PUNCTUATION]


def _digits(sight: Sight, token: list[int]) -> int:
    return sum(map(str.isdigit, "".join(sight.words[at].text for at in token)))


def _mixed(sight: Sight, token: list[int]) -> bool:
    """Return whether a value has letters with digits, or with a sign that joins no words."""
    if not token:
        return False
    text = "".join(sight.words[at].text for at in range(token[0], token[-1] + 1))
    letters = any(map(str.isalpha, text))
    marked = any(map(str.isdigit, text)) or not {*"!$#%^*"}.isdisjoint(text)
    return letters and marked and len(text) >= _MIXED and "(" not in text


def _signed(sight: Sight, token: list[int]) -> bool:
    """Return whether a value in quotes ends in a sign: '"pass": "zzTop!!"'."""
    if not token or sight.words[token[0] - 1].text[-1] not in QUOTES:
        return False
    after = token[-1] + 1
    sign = after < len(sight.words) and not sight.gaps[after] and sight.words[after].text[0]
    return sign in ("!", "$", "#", "%", "^", "*", "?")


def _is_odd(sight: Sight, token: list[int]) -> bool:
    """Return whether a value is one word in small letters that no list has."""
    one = len(token) == 1 and sight.words[token[0]].kind is Kind.WORD
    return one and not sight.marks[token[0]] and sight.words[token[0]].text.islower()


def _after_login(sight: Sight, place: int) -> Iterator[Sign]:
    """Yield what follows a mail address and a slash: "jo@mail.example / Pebble$22"."""
    at = place + 1
    if at < len(sight.words) and sight.words[at].text in ("/", ":", "|") and not sight.breaks(at):
        token = _token(sight, at + 1)
        if _mixed(sight, token):
            yield from (Sign(each, _SECRETS) for each in token)


def _assigns(text: str) -> bool:
    """Return whether an identifier gives a secret key a value, which is no name in a program.

    >>> _assigns("DB_PASSWORD=hunter2"), _assigns("password=self.password")
    (True, False)
    """
    for key, value in _ASSIGNMENT.findall(text):
        keys = key_parts(key)
        if not (_is_key(keys) or keys & _ASSIGNED):
            continue
        if value.lower() in _PLAIN or value[0] in "$%{<" or len(value) < _SHORTEST:
            continue
        if value.split(".")[0].lower() in _HOLDERS or _is_key(key_parts(value)):
            continue  # "token=os.environ", "password=user_password"
        return True
    return False


def _is_option(sight: Sight, place: int) -> bool:
    """Return whether an identifier is a user and a password: "curl -u admin:hunter2"."""
    option = sight.lower[place - 1] in ("u", "user") and sight.words[place - 2].text[0] == "-"
    return place > 1 and option and _OPTION.fullmatch(sight.words[place].text) is not None
