"""Reader for a request's JSON that overlooks no field.

An unknown field may hold text, and to drop a field silently would change the request. So each field
is taken by name, and `Fields.end` raises an error that names any field left over.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from sottovoce.core.errors import InvalidInput

__all__ = ["Fields", "parsed", "refuse"]

_LONGEST_NAME: Final = 64
_ABSENT: Final = object()


def refuse(where: str, problem: str, fix: str = "") -> NoReturn:
    """Raise `InvalidInput` for a field."""
    raise InvalidInput(f"{where} {problem}", fix=fix, subject=where)


def parsed(body: bytes) -> Fields:
    """Parse ``body`` as a JSON object.

    Raises:
        InvalidInput: the body is not a JSON object in UTF-8.
    """
    try:
        found = json.loads(body.decode("utf-8"), parse_constant=_no_number)
        # JSON escapes can name half a surrogate pair, which UTF-8 cannot encode.
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        refuse("the body", "is no JSON", "send a JSON object in UTF-8")
    return Fields(found, "")


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


class Fields:
    """The fields of one JSON object. A null field counts as missing.

    Args:
        found: the parsed value.
        at: its place in the request, for errors.
    """

    def __init__(self, found: Any, at: str) -> None:
        if not isinstance(found, dict):
            refuse(at or "the body", "is no object", "send a JSON object")
        self.at = at
        self._left: dict[str, Any] = found

    def where(self, name: str) -> str:
        """Return a field's name for errors, cut to the length of a name."""
        short = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."
        return f"{self.at}.{short}" if self.at else short

    def take(self, name: str) -> Any:
        """Take a field of any type, or None if it is missing."""
        return self._left.pop(name, None)

    def has(self, name: str) -> bool:
        """Return whether a field is present and not null."""
        return self._left.get(name) is not None

    def text(self, name: str, default: str | None = None) -> str:
        """Take a string.

        Raises:
            InvalidInput: the field has another type, or is missing and has no default.
        """
        found = self._default(name, default)
        if not isinstance(found, str):
            refuse(self.where(name), "is no string")
        return found

    def number(self, name: str, default: float | None, least: float, most: float) -> float | None:
        """Take a number within bounds, both included."""
        found = self._bounded(name, least, most)
        return default if found is None else float(found)

    def whole(self, name: str, default: int | None, least: int, most: int) -> int | None:
        """Take a whole number within bounds, both included."""
        found = self._bounded(name, least, most)
        if isinstance(found, float) and not found.is_integer():
            refuse(self.where(name), "is no whole number")
        return default if found is None else int(found)

    def flag(self, name: str, default: bool | None = False) -> bool | None:
        """Take a boolean."""
        found = self._default(name, _ABSENT if default is None else default)
        if found is _ABSENT:
            return None
        if not isinstance(found, bool):
            refuse(self.where(name), "is neither true nor false")
        return found

    def items(self, name: str, most: int) -> list[Any]:
        """Take a list of at most ``most`` items; a missing one is empty."""
        found = self.take(name)
        if found is None:
            return []
        if not isinstance(found, list):
            refuse(self.where(name), "is no list")
        if len(found) > most:
            refuse(self.where(name), "has too many items", f"send at most {most}")
        return found

    def nested(self, name: str) -> Fields | None:
        """Take an object, or None if it is missing."""
        found = self.take(name)
        return None if found is None else Fields(found, self.where(name))

    def only(self, name: str, *allowed: Any) -> None:
        """Take a field that may have only these values; no other value is supported."""
        found = self.take(name)
        # Types are compared too: 0 == False in Python, but not in JSON.
        if found is not None and not any(type(a) is type(found) and a == found for a in allowed):
            shown = " or ".join(json.dumps(value) for value in (*allowed, None))
            refuse(self.where(name), "cannot be honoured", f"leave it out, or send {shown}")

    def kept_here(self, *names: str) -> None:
        """Take fields that concern only the client, and are not passed on."""
        for name in names:
            self.take(name)

    def end(self, unsupported: Sequence[str] = ()) -> None:
        """Refuse all fields that were not taken.

        Args:
            unsupported: known fields, which may be null.
        """
        for name, value in self._left.items():
            if value is None and name in unsupported:
                continue
            refuse(self.where(name), "is not supported", "leave it out")

    def _bounded(self, name: str, least: float, most: float) -> int | float | None:
        """Take a number as sent, because a float cannot hold integers beyond 53 bits."""
        found = self.take(name)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int | float):
            refuse(self.where(name), "is no number")
        if not least <= found <= most:
            refuse(self.where(name), "is out of range", f"give a number from {least:g} to {most:g}")
        return found

    def _default(self, name: str, default: Any) -> Any:
        found = self.take(name)
        if found is None and default is None:
            refuse(self.where(name), "is missing")
        return default if found is None else found
