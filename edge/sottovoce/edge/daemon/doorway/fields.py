"""Reads a request's JSON so that no field of it goes unnoticed.

Why it is here: an unknown field may hold text, and to drop one in silence would be to answer
another question than was asked. So each field is taken by name, and what is left over at the end is
an error that names it.
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
    """Raises `InvalidInput` for a field."""
    raise InvalidInput(f"{where} {problem}", fix=fix, subject=where)


def parsed(body: bytes) -> Fields:
    """The object that ``body`` is.

    Raises:
        InvalidInput: it is no JSON object in UTF-8.
    """
    try:
        found = json.loads(body.decode("utf-8"), parse_constant=_no_number)
        # JSON can name halves of characters, which nothing could pass on.
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        refuse("the body", "is no JSON", "send a JSON object in UTF-8")
    return Fields(found, "")


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


class Fields:
    """The fields of one JSON object. null stands for a field that is not there.

    Args:
        found: what was parsed.
        at: where it stands in the request, for errors.
    """

    def __init__(self, found: Any, at: str) -> None:
        if not isinstance(found, dict):
            refuse(at or "the body", "is no object", "send a JSON object")
        self.at = at
        self._left: dict[str, Any] = found

    def where(self, name: str) -> str:
        """How errors call a field: no longer than a name is."""
        short = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."
        return f"{self.at}.{short}" if self.at else short

    def take(self, name: str) -> Any:
        """A field of any kind, None where there is none."""
        return self._left.pop(name, None)

    def has(self, name: str) -> bool:
        """Whether a field is there and not null."""
        return self._left.get(name) is not None

    def text(self, name: str, default: str | None = None) -> str:
        """A string.

        Raises:
            InvalidInput: it is something else, or is not there and has no default.
        """
        found = self._default(name, default)
        if not isinstance(found, str):
            refuse(self.where(name), "is no string")
        return found

    def number(self, name: str, default: float | None, least: float, most: float) -> float | None:
        """A number within bounds, both included."""
        found = self._bounded(name, least, most)
        return default if found is None else float(found)

    def whole(self, name: str, default: int | None, least: int, most: int) -> int | None:
        """A whole number within bounds, both included."""
        found = self._bounded(name, least, most)
        if isinstance(found, float) and not found.is_integer():
            refuse(self.where(name), "is no whole number")
        return default if found is None else int(found)

    def flag(self, name: str, default: bool | None = False) -> bool | None:
        """true or false."""
        found = self._default(name, _ABSENT if default is None else default)
        if found is _ABSENT:
            return None
        if not isinstance(found, bool):
            refuse(self.where(name), "is neither true nor false")
        return found

    def items(self, name: str, most: int) -> list[Any]:
        """A list of at most so many, empty where there is none."""
        found = self.take(name)
        if found is None:
            return []
        if not isinstance(found, list):
            refuse(self.where(name), "is no list")
        if len(found) > most:
            refuse(self.where(name), "has too many items", f"send at most {most}")
        return found

    def nested(self, name: str) -> Fields | None:
        """An object, None where there is none."""
        found = self.take(name)
        return None if found is None else Fields(found, self.where(name))

    def only(self, name: str, *allowed: Any) -> None:
        """Takes a field that may have these values alone, as others could not be honoured."""
        found = self.take(name)
        # 0 and False are one and the same to Python, not to JSON.
        if found is not None and not any(type(a) is type(found) and a == found for a in allowed):
            shown = " or ".join(json.dumps(value) for value in (*allowed, None))
            refuse(self.where(name), "cannot be honoured", f"leave it out, or send {shown}")

    def kept_here(self, *names: str) -> None:
        """Takes fields that are nobody's business but the client's: they are not passed on."""
        for name in names:
            self.take(name)

    def end(self, unsupported: Sequence[str] = ()) -> None:
        """Refuses what is left.

        Args:
            unsupported: known ones, which may be null.
        """
        for name, value in self._left.items():
            if value is None and name in unsupported:
                continue
            refuse(self.where(name), "is not supported", "leave it out")

    def _bounded(self, name: str, least: float, most: float) -> int | float | None:
        """As it was sent: a float holds no whole number beyond 53 bits."""
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
