"""Reader for a request's JSON that overlooks no field.

An unknown field may hold text, and to drop a field silently would change the request. So each
field is taken by name, and `Fields.end` raises an error that names any field left over. The owner
can have such fields dropped instead. Then the response names them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from sottovoce.core.errors import InvalidInput

__all__ = ["Fields", "parsed", "refuse"]

_LONGEST_NAME: Final = 64
_MOST_DROPPED: Final = 16
_ABSENT: Final = object()


def refuse(where: str, problem: str, fix: str = "") -> NoReturn:
    """Raise `InvalidInput` for a field."""
    raise InvalidInput(f"{where} {problem}", fix=fix, subject=where)


class _Dropped:
    """The fields that a request had and nobody uses."""

    def __init__(self, *, unknown: bool) -> None:
        self.unknown = unknown
        self.names: dict[str, None] = {}

    def note(self, name: str) -> None:
        """Note a field; beyond a number of them, only that there were more."""
        if name not in self.names and len(self.names) <= _MOST_DROPPED:
            self.names["..." if len(self.names) == _MOST_DROPPED else name] = None


def parsed(body: bytes, *, drop_unknown: bool = False) -> Fields:
    """Parse ``body`` as a JSON object.

    Args:
        drop_unknown: whether unknown fields are dropped; otherwise they are refused.

    Raises:
        InvalidInput: the body is not a JSON object in UTF-8.
    """
    try:
        found = json.loads(body.decode("utf-8"), parse_constant=_no_number)
        # JSON escapes can name half a surrogate pair, which UTF-8 cannot encode.
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        refuse("the body", "is no JSON", "send a JSON object in UTF-8")
    return Fields(found, "", _Dropped(unknown=drop_unknown))


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


class Fields:
    """The fields of one JSON object. A null field counts as missing.

    Args:
        at: its place in the request, for errors.
        dropped: notes the request's dropped fields.
    """

    def __init__(self, found: Any, at: str, dropped: _Dropped | None = None) -> None:
        if not isinstance(found, dict):
            refuse(at or "the body", "is no object", "send a JSON object")
        self.at = at
        self._left: dict[str, Any] = found
        self._dropped = dropped or _Dropped(unknown=False)

    @property
    def dropped(self) -> tuple[str, ...]:
        """The names of the whole request's dropped fields; at most a few."""
        return (*self._dropped.names,)

    def inner(self, found: Any, at: str) -> Fields:
        """Return the fields of an object within this one, at a place in the request."""
        return Fields(found, at, self._dropped)

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
        return None if found is None else self.inner(found, self.where(name))

    def choice(self, name: str, allowed: Sequence[str]) -> str:
        """Take one of a few words; empty if it is missing."""
        found = self.text(name, "")
        if found and found not in allowed:
            refuse(self.where(name), "is unknown", f"use one of {', '.join(allowed)}")
        return found

    def only(self, name: str, *allowed: Any) -> None:
        """Take a field that may have only these values; no other value is supported."""
        found = self.take(name)
        # Types are compared too: 0 == False in Python, but not in JSON.
        if found is not None and not any(type(a) is type(found) and a == found for a in allowed):
            if self._dropped.unknown:
                self._dropped.note(self.where(name))
                return
            shown = " or ".join(json.dumps(value) for value in (*allowed, None))
            refuse(self.where(name), "cannot be honoured", f"leave it out, or send {shown}")

    def kept_here(self, *names: str) -> None:
        """Take fields that concern only the client, and are not passed on."""
        for name in names:
            self.take(name)

    def drop(self, name: str, found: object) -> None:
        """Note that a field was taken and is not used, unless it was missing or false."""
        if found is not None and found is not False and found != "":
            self._dropped.note(self.where(name))

    def end(self, unsupported: Sequence[str] = ()) -> None:
        """Refuse or drop all fields that were not taken.

        Args:
            unsupported: known fields, which may be null. Without them, the answer would be to
                another request, so they are never dropped.
        """
        for name, value in self._left.items():
            if name in unsupported and value is None:
                continue
            if name in unsupported or not self._dropped.unknown:
                refuse(self.where(name), "is not supported", "leave it out")
            self._dropped.note(self.where(name))

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
