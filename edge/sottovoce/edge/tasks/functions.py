"""Privatise functions that a model may call: their definitions and their calls.

Functions are described in JSON, and the shape of the JSON stays. Each string and number in it is a
text by itself. Names of functions and fields are released word by word and restored exactly,
because code depends on them. In a call, addresses are kept as in an answer: see `restoration`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Set
from typing import Any, Final, NoReturn

from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.restoration import Restoration
from sottovoce.core.privacy.surrogate_table import Place
from sottovoce.core.rpc.limits import TOOL_NAME
from sottovoce.core.rpc.openai import whole
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation

_DEEPEST: Final = 64
_MOST_LEAVES: Final = 8_192
_LONGEST_NAME: Final = 64
_HALF: Final = re.compile(r"\\u[dD][89A-Fa-f]")
"""The start of an escape of half a surrogate pair, which may stand in a whole pair."""
_REFERENCE: Final = re.compile(r"#/(\$defs|definitions)/([^/]+)")
_PLAIN: Final = re.compile(r"(?:[^\W\d]|-)*\d{0,4}")
"""Plain names in snake_case, kebab-case or camelCase, which split into words.

Any other name is released as a text, because it may hold an address or an order number.
"""
_WORD: Final = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+(?![^\W\d_A-Z])|\d+|[^\W\d_]+")
"""Words of a name: marks, digits and the capitals of camelCase end a word."""

# A JSON Schema's keywords (2020-12). Keywords that only narrow a value are not sent. They hold
# numbers and patterns, and the app that receives the arguments checks them anyway.
_SCHEMAS: Final = frozenset({"items", "additionalProperties", "not"})
_LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_MAPS: Final = frozenset({"properties", "$defs", "definitions"})
_TEXTS: Final = frozenset({"title", "description"})
_VALUES: Final = frozenset({"enum", "const", "default", "examples"})
_FLAGS: Final = frozenset({"nullable", "deprecated", "readOnly", "writeOnly", "uniqueItems"})
_LEFT_OUT: Final = frozenset(
    {
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "pattern", "format", "minItems", "maxItems"),
        *("minContains", "maxContains", "minProperties", "maxProperties"),
        *("$schema", "$id", "$comment"),
    }
)
_TYPES: Final = ("object", "array", "string", "number", "integer", "boolean", "null")


def canonical(arguments: str) -> str:
    """Return arguments in canonical form: clients vary JSON's white space."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


class Functions:
    """The functions of one request, on their way out.

    Args:
        release: releases one text as the conversation does.
    """

    def __init__(self, release: Callable[[str], str]) -> None:
        self._release = release
        self._names: dict[str, str] = {}
        self._taken: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._values: dict[str, set[str]] = {}
        self._ids: dict[str, str] = {}
        self._left = _MOST_LEAVES

    def definition(self, tool: chats.ChatTool) -> generation.ReleasedTool:
        """Return a function's definition as it may leave.

        Raises:
            InvalidInput: its name is not a name, or its parameters are not a supported schema.
        """
        if not TOOL_NAME.fullmatch(tool.name):
            _refuse("the name of a function", "use letters, digits, _ and -, at most 64")
        parameters = _loaded(tool.parameters) if tool.parameters else {}
        if not isinstance(parameters, dict):
            _refuse("a function's parameters", "send a JSON Schema, an object")
        return generation.ReleasedTool(
            released_name=self.name(tool.name),
            released_description=self._text(tool.description),
            released_parameters=json.dumps(self._schema(parameters, 0), ensure_ascii=False),
        )

    def form(self, form: chats.ChatFormat) -> generation.ReleasedFormat:
        """Return the form of the answer as it may leave.

        Raises:
            InvalidInput: its name is not a name, or its schema is not supported.
        """
        if form.name and not TOOL_NAME.fullmatch(form.name):
            _refuse("the name of the answer's form", "use letters, digits, _ and -, at most 64")
        schema = _loaded(form.schema) if form.schema else None
        if form.schema and not isinstance(schema, dict):
            _refuse("the schema of the answer's form", "send a JSON Schema, an object")
        return generation.ReleasedFormat(
            released_name=self.name(form.name) if form.name else "",
            released_description=self._text(form.description),
            released_schema=""
            if schema is None
            else json.dumps(self._schema(schema, 0), ensure_ascii=False),
            strict=form.strict if form.HasField("strict") else None,
        )

    def call(self, call: chats.ToolCall) -> generation.ReleasedToolCall:
        """Return an earlier call as it may leave."""
        try:
            arguments = _parsed(call.arguments, parse_constant=_no_number)
        except (ValueError, RecursionError):
            released = self._text(call.arguments)
        else:
            released = json.dumps(self._value(arguments, 0), ensure_ascii=False)
        return self.known(call, released)

    def known(self, call: chats.ToolCall, arguments: str) -> generation.ReleasedToolCall:
        """Return a call with arguments that came through here and leave unchanged."""
        return generation.ReleasedToolCall(
            id=self._ids.setdefault(call.id, f"call_{len(self._ids) + 1}"),
            released_name=self.name(call.name),
            released_arguments=arguments,
        )

    def answered(self, identity: str) -> str:
        """Return the outgoing id of the call that a turn answers."""
        if identity and identity not in self._ids:
            raise InvalidInput(
                "a tool answers a call that nobody made",
                fix="send the turn with the call before it",
                subject="tool_call_id",
            )
        return self._ids.get(identity, "")

    def name(self, name: str) -> str:
        """Return a function's or field's name as it may leave.

        In a plain name, the words are released and the characters between them stay. Any other name
        is released whole. Two different names never become the same.
        """
        if name not in self._names:
            released = self._words(name) if _PLAIN.fullmatch(name) else self._text(name)
            joined = re.sub(r"[^A-Za-z0-9_-]", "_", released)[: _LONGEST_NAME - 5] or "_"
            chosen, number = joined, self._numbers.get(joined, 1)
            while chosen in self._taken:
                number += 1
                chosen = f"{joined}_{number}"
            self._numbers[joined] = number
            self._names[name], self._taken[chosen] = chosen, name
        return self._names[name]

    def back(
        self,
        places: Iterable[Place],
        restoration: Restoration,
        trusted: Set[str] = frozenset(),
    ) -> Returning:
        """Return the object that restores incoming calls.

        Args:
            places: of the conversation; a value that consists of one surrogate is restored to the
                surrogate's original, regardless of its neighbours.
            restoration: for all other values.
        """
        values = {released: {*true} for released, true in self._values.items()}
        for place in places:
            values.setdefault(place.released, set()).add(place.true)
        exact = {released: true.pop() for released, true in values.items() if len(true) == 1}
        return Returning(dict(self._taken), exact, restoration, trusted)

    def _schema(self, found: Any, depth: int) -> Any:
        if isinstance(found, bool):
            return found
        if not isinstance(found, dict) or depth > _DEEPEST:
            _refuse("a function's parameters", "send a JSON Schema, not too deep")
        schema: dict[str, Any] = {}
        for word, value in found.items():
            if word in _LEFT_OUT:
                continue
            schema[word] = self._part(word, value, depth + 1)
        return schema

    def _part(self, word: str, value: Any, depth: int) -> Any:
        if word in _SCHEMAS:
            return self._schema(value, depth)
        if word in _LISTS and isinstance(value, list):
            return [self._schema(each, depth) for each in value]
        if word in _MAPS and isinstance(value, dict):
            return {self.name(name): self._schema(each, depth) for name, each in value.items()}
        if word in _TEXTS and isinstance(value, str):
            return self._text(value)
        if word in _VALUES:
            return self._value(value, depth)
        if word in _FLAGS and isinstance(value, bool):
            return value
        if word == "required" and isinstance(value, list) and all(map(_is_text, value)):
            return [self.name(name) for name in value]
        if word == "type" and all(
            each in _TYPES for each in (value if isinstance(value, list) else [value])
        ):
            return value
        if word == "$ref" and _is_text(value) and (place := _REFERENCE.fullmatch(value)):
            return f"#/{place[1]}/{self.name(place[2])}"
        raise InvalidInput(
            "a function's parameters hold what is not supported, or not in this form: "
            f"{word[:_LONGEST_NAME]}",
            fix="leave it out",
            subject="tools",
        )

    def _value(self, value: Any, depth: int) -> Any:
        if depth > _DEEPEST:
            _refuse("a value", "send JSON that is not so deep")
        if isinstance(value, dict):
            return {self.name(name): self._value(each, depth + 1) for name, each in value.items()}
        if isinstance(value, list):
            return [self._value(each, depth + 1) for each in value]
        if isinstance(value, str):
            released = self._text(value)
            self._values.setdefault(released, set()).add(value)
            return released
        if isinstance(value, int | float) and not isinstance(value, bool):
            written = json.dumps(value)
            released = self._text(written)
            self._values.setdefault(released, set()).add(written)
            return _number(released)
        return value

    def _words(self, name: str) -> str:
        words = _WORD.findall(name)
        released = self._text(" ".join(words)).split(" ")
        if len(released) != len(words):
            return "_".join(released) if words else name
        given = iter(released)
        return _WORD.sub(lambda _: next(given), name)

    def _text(self, text: str) -> str:
        self._left -= 1
        if self._left < 0:
            _refuse("the functions' definitions and calls", "send fewer or smaller ones")
        return self._release(text) if text.strip() else text


class Returning:
    """Restores calls: names and released values exactly, other values as in answers.

    Args:
        names: true names by released names.
        exact: true values by released values.
        restoration: for all other values.
        trusted: true names of the functions whose addresses have their surrogates restored.
    """

    def __init__(
        self,
        names: dict[str, str],
        exact: dict[str, str],
        restoration: Restoration,
        trusted: Set[str] = frozenset(),
    ) -> None:
        self._names, self._exact, self._restoration = names, exact, restoration
        self._trusted = trusted
        self.restored: Counter[tuple[str, str]] = Counter()
        self.doubtful: Counter[str] = Counter()
        self.addresses = 0
        """Number of addresses that hold a surrogate and stayed unchanged."""

    def name(self, came: str) -> str:
        """Restore a function's or field's name."""
        return self._names.get(came, came)

    def arguments(self, function: str, came: str) -> str:
        """Restore the arguments of a call; arguments that are no JSON are one text.

        Args:
            function: the true name of the function.
        """
        return self._json(came, trusted=function in self._trusted)

    def answer(self, came: str) -> str:
        """Restore an answer in JSON; an answer that is no JSON is one text."""
        return self._json(came, trusted=False)

    def _json(self, came: str, *, trusted: bool) -> str:
        try:
            return json.dumps(self._value(_parsed(came), trusted), ensure_ascii=False)
        except (ValueError, RecursionError):
            return self._text(came, trusted)

    def _value(self, value: Any, trusted: bool) -> Any:
        if isinstance(value, dict):
            return {self.name(name): self._value(each, trusted) for name, each in value.items()}
        if isinstance(value, list):
            return [self._value(each, trusted) for each in value]
        if isinstance(value, str):
            return self._text(value, trusted)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _number(self._text(json.dumps(value), trusted))
        return value

    def _text(self, came: str, trusted: bool) -> str:
        if came in self._exact:
            true = self._exact[came]
            if true != came:
                self.restored[came, true] += 1
            return true
        turned = self._restoration.value(came, trusted=trusted)
        self.restored.update(turned.restored)  # `+=` would scan all earlier counts
        self.doubtful.update(turned.doubtful)
        self.addresses += turned.addresses
        return turned.text


def _number(text: str) -> int | float | str:
    """Return ``text`` as a number without leading zeros, or unchanged."""
    plain = re.sub(r"(?<![\d.])0+(?=\d)", "", text)
    try:
        found = json.loads(plain, parse_constant=_no_number)
    except ValueError:
        return text
    return found if isinstance(found, int | float) and not isinstance(found, bool) else text


def _parsed(text: str, **options: Any) -> Any:
    """Parse JSON; escapes of half a surrogate pair, which no message can hold, are replaced."""
    found = json.loads(text, **options)
    if _HALF.search(text):
        found = json.loads(whole(json.dumps(found, ensure_ascii=False)))
    return found


def _loaded(text: str) -> Any:
    try:
        return _parsed(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        _refuse("a function's parameters", "send a JSON Schema")


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _refuse(what: str, fix: str) -> NoReturn:
    raise InvalidInput(f"{what} cannot be taken", fix=fix, subject="tools")
