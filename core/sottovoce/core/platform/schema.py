"""Reads JSON that another party wrote into dataclasses; their annotations are the schema.

A field's annotation gives its type, and rules beside it (``Annotated[int, Range(0, 9)]``) give its
bounds. A value of another type raises `Malformed`, which names the field.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sized
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import (
    Annotated,
    Any,
    Final,
    NoReturn,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

_DEEPEST: Final = 32
_SHOWN: Final = 60

_T = TypeVar("_T")
_NAMES: Final = {
    dict: "an object",
    list: "a list",
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    type(None): "null",
}


class Malformed(ValueError):
    """A value has another type or size than its field. The message names the field."""


@dataclass(frozen=True, slots=True)
class Range:
    """A number from ``least`` to ``most``."""

    least: float
    most: float

    def check(self, found: float, at: str) -> None:
        """Raise `Malformed` for a number outside the range."""
        if not self.least <= found <= self.most:
            raise Malformed(f"{at} is not a number from {self.least} to {self.most}")


@dataclass(frozen=True, slots=True)
class Longest:
    """At most ``most`` characters or items, and at least ``least``."""

    most: int
    least: int = 0

    def check(self, found: Sized, at: str) -> None:
        """Raise `Malformed` for a longer or shorter value."""
        if not self.least <= len(found) <= self.most:
            raise Malformed(f"{at} has {len(found)} items, not {self.least} to {self.most}")


@dataclass(frozen=True, slots=True)
class Match:
    """Text of the form ``pattern``, called ``what`` in errors."""

    pattern: str
    what: str

    def check(self, found: str, at: str) -> None:
        """Raise `Malformed` for text of another form."""
        if re.fullmatch(self.pattern, found) is None:
            raise Malformed(f"{at} is not {self.what}")


Sha256 = Annotated[str, Match("[0-9a-f]{64}", "a SHA-256 in hexadecimal")]


def parse(data: bytes | str) -> Any:
    """Return the value of a JSON text.

    Raises:
        Malformed: it is no JSON, has NaN or Infinity, a name twice in one object, or is nested too
            deeply.
    """
    try:
        found = json.loads(data, object_pairs_hook=_object, parse_constant=_no_number)
        deep = _deeper(found, _DEEPEST)
    except RecursionError:
        deep = True
    except Malformed:
        raise
    except ValueError:
        raise Malformed("it is not JSON") from None  # the cause would quote it
    if deep:
        raise Malformed(f"it is nested more than {_DEEPEST} levels deep")
    return found


def parse_object(data: bytes | str) -> tuple[str, dict[str, Any]]:
    """Return the field ``format`` of a JSON object, and the object without it.

    Raises:
        Malformed: see `parse`; or it is no object, or names no format.
    """
    raw = _expect(dict, parse(data), "it")
    if "format" not in raw:
        raise Malformed("format is missing")
    return _expect(str, raw.pop("format"), "format"), raw


def decode(kind: type[_T], raw: Any, at: str = "", *, more: bool = False) -> _T:
    """Return a value of type ``kind`` from parsed JSON.

    Args:
        kind: a dataclass (an object), a named tuple (a list), or another annotation: ``str``,
            ``bool``, ``int``, ``float``, ``None``, ``tuple``, ``dict``, ``Mapping``, or one of
            these in ``Annotated`` with rules.
        raw: the result of `parse`.
        at: the field's name, for errors.
        more: the object may have other fields than the dataclass; they are ignored.

    Raises:
        Malformed: a field is missing, unknown, or of another type or size.
    """
    return cast(_T, _decode(kind, raw, at, more))


def _decode(kind: Any, raw: Any, at: str, more: bool = False) -> Any:
    outer, inner = get_origin(kind), get_args(kind)
    if outer is Annotated:
        found = _decode(inner[0], raw, at)
        for rule in inner[1:]:
            rule.check(found, at)
        return found
    if is_dataclass(kind):
        return _record(kind, _expect(dict, raw, at), at, more)
    if isinstance(kind, type) and issubclass(kind, tuple):
        return kind(*_decode(tuple[tuple(_hints(kind).values())], raw, at))  # type: ignore[misc]
    if outer is tuple:
        items = _expect(list, raw, at)
        kinds = [inner[0]] * len(items) if inner[-1] is ... else inner
        if len(items) != len(kinds):
            raise Malformed(f"{at} has {len(items)} items, not {len(kinds)}")
        return tuple(
            _decode(each, item, f"{at}[{place}]")
            for place, (each, item) in enumerate(zip(kinds, items, strict=True))
        )
    if outer in (dict, Mapping):
        return {
            _decode(inner[0], name, _under(at, name)): _decode(inner[1], item, _under(at, name))
            for name, item in _expect(dict, raw, at).items()
        }
    if kind is float:
        return _number(raw, at)
    found = _expect(type(None) if kind is None else kind, raw, at)
    if kind is str:
        _check_text(found, at)
    return found


def _record(kind: Any, raw: Mapping[str, Any], at: str, more: bool) -> Any:
    hints = _hints(kind)
    known = {each.name: each for each in fields(kind)}
    for name in raw:
        if name not in known and not more:
            raise Malformed(f"{_under(at, name)} is not a known field")
    found = {}
    for name, each in known.items():
        if name in raw:
            found[name] = _decode(hints[name], raw[name], _under(at, name))
        elif each.default is MISSING and each.default_factory is MISSING:
            raise Malformed(f"{_under(at, name)} is missing")
    return kind(**found)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _expect(kind: Any, raw: Any, at: str) -> Any:
    if type(raw) is not kind:  # a bool is an int to `isinstance`
        raise Malformed(f"{at or 'it'} is {_NAMES[type(raw)]}, not {_NAMES[kind]}")
    return raw


def _number(raw: Any, at: str) -> float:
    try:
        found = float(raw) if type(raw) is int else _expect(float, raw, at)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise Malformed(f"{at} is too large a number")
    return float(found)


def _check_text(found: str, at: str) -> None:
    try:
        found.encode()
    except UnicodeEncodeError:
        raise Malformed(f"{at} is not valid Unicode") from None
    if "\0" in found:
        raise Malformed(f"{at} has a NUL in it")


def _under(at: str, name: str) -> str:
    """Return the name of a field of ``at``.

    Names come from the other party too, so an error shows only a readable part.
    """
    shown = name if len(name) <= _SHOWN and name.isprintable() else f"{name[:_SHOWN]!a}..."
    return f"{at}.{shown}" if at else shown


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise Malformed(f"{_under('', name)} stands twice in one object")
        found[name] = value
    return found


def _no_number(name: str) -> NoReturn:
    raise Malformed(f"{name} is not a number in JSON")


def _deeper(value: Any, levels: int) -> bool:
    """Return whether ``value`` nests lists and objects deeper than the given number of levels."""
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return False
    return levels == 0 or any(_deeper(each, levels - 1) for each in inner)
