"""Separates lines of programs from sentences, by the look of their signs.

A name in a program is rarely a person's, and a word with "@" rarely a handle.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from sottovoce.core.privacy.identifier_parts import part_marks
from sottovoce.core.privacy.identifying import compound
from sottovoce.core.privacy.signs import listed
from sottovoce.core.text.words import Word

_CODE_LINE = re.compile(
    r"[;{}]\s*$|\w\(.*\)|^\s*(?:def|class|import|from|return|const|let|var|func|fn|public|#include"
    r"|select|insert|update|</?\w)"
    r"|^\s*(?:@\w+\s+)*(?:(?:pub(?:\(\w+\))?|private|protected|internal|override|data|sealed|suspend"
    r"|inline|open|abstract|static|final|lateinit|mutating)\s+)*(?:(?:enum|extension|fun|impl|interface"
    r"|mod|object|protocol|struct|trait|typealias|val|use|var)\s+\w+\s*[<({:=;]"
    r"|impl\s+\w+\s+for\s|va[lr]\s+\w+\s+by\s|(?:enum|interface|protocol|struct|trait)\s+\w+\s*$)|\w\s*(?:[=!<>+*/-]=|=>|->|::|&&|\|\|)\s*\w|\w\[\w",
    re.IGNORECASE,
)
_DECORATORS: Final = listed("decorators")
_RULE: Final = frozenset("|:- \t")
"""Signs of the line under the header of a table in Markdown."""
_LONGEST_LINE: Final = 1_000
_STEP: Final = 256
"""Characters whose words are judged by the same part of a long line."""
_MOST_DECORATORS: Final = 8
_DOCUMENTED: Final = listed("doc_tags")
_TIMES: Final = frozenset(
    {"annually", "daily", "hourly", "midnight", "monthly", "reboot", "weekly", "yearly"}
)
"""What crontab writes before a command; elsewhere it may be a handle."""
_COMMAND = re.compile(
    r"[ \t]+(?:[\w.~$-]*/|(?:bash|cd|certbot|cp|curl|docker|echo|node|php|python3?|rm|root|rsync|sh"
    r"|sleep|sudo|systemctl|tar)[ \t])"
)
_OF_DECORATORS = re.compile(r"`| (?:annotation|decorator|directive)s?\b")


def in_code(document: str, start: int) -> bool:
    """Return whether the line of a word looks like a program's, or is the header of a table."""
    first = max(start - start % _STEP - _LONGEST_LINE, 0)
    last = start - start % _STEP + _STEP + _LONGEST_LINE
    begin = document.rfind("\n", first, start) + 1
    end = document.find("\n", start, last)
    line = document[max(begin, first) : end if end >= 0 else last]
    below = document[end + 1 : end + _LONGEST_LINE].partition("\n")[0] if end >= 0 else ""
    header = "|" in below and "-" in below and _RULE.issuperset(below)
    return header or _is_code(line)


@lru_cache(4)
def _is_code(line: str) -> bool:
    """Return whether a line looks like a program's; the words of a line ask one by one."""
    return _CODE_LINE.search(line) is not None


def is_decorator(document: str, word: Word) -> bool:
    """Return whether a word with "@" is of a program: "@dataclass", "`@media`"."""
    if word.text[1:] in _DECORATORS and word.text[1:] not in _TIMES:
        return True
    if not compound(word.text[1:], part_marks):
        return False
    begin = document.rfind("\n", max(word.start - _LONGEST_LINE, 0), word.start) + 1
    line = document[word.end : word.end + _LONGEST_LINE].partition("\n")[0]
    before = document[begin : word.start].strip()
    if word.text[1:] in _TIMES:
        command = not before.strip("*/#") and _COMMAND.match(line)
        return bool(command) or in_code(document, word.start)
    if _OF_DECORATORS.match(line) or line[:2] in ("='", '="'):
        return True
    if before:  # of a comment: " * @param x"
        return not before.strip("*/#") and word.text[1:] in _DOCUMENTED
    if line.strip():
        return in_code(document, word.start)
    at = word.end + len(line) + 1
    for _ in range(_MOST_DECORATORS):
        if document[at : at + _LONGEST_LINE].lstrip()[:1] != "@":
            break
        at = (document.find("\n", at, at + _LONGEST_LINE) + 1) or len(document)
    return in_code(document, at)
