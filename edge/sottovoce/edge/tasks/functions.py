"""Privatise functions that a model may call: their definitions and their calls.

Functions are described in JSON, and the shape of the JSON stays. Each string and number in it is
released by itself. Where the policy reads context, its key is read before it. Names of functions
and fields are released word by word and restored exactly, because code depends on them. In a call,
addresses are kept as in an answer: see `restoration`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Set
from typing import Any, Final, NoReturn

from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.release import Release
from sottovoce.core.privacy.restoration import Restoration
from sottovoce.core.privacy.surrogate_table import Place
from sottovoce.core.privacy.tables import KEYS
from sottovoce.core.rpc.limits import TOOL_NAME
from sottovoce.core.rpc.openai import whole
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation

_DEEPEST: Final = 64
_MOST_LEAVES: Final = 8_192
_LONGEST_NAME: Final = 64
_LONG_NUMBER: Final = 6
"""Characters of a number that may have lost zeros."""
_MOST_ZEROS: Final = 4

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
        read: the same with the report on its words, under a policy that reads context. Values are
            then released with their key before them.
    """

    def __init__(
        self, release: Callable[[str], str], read: Callable[[str], Release] | None = None
    ) -> None:
        self._release, self._read = release, read
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
            released_parameters=json.dumps(self._schema(parameters, "", 0), ensure_ascii=False),
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
            else json.dumps(self._schema(schema, "", 0), ensure_ascii=False),
            strict=form.strict if form.HasField("strict") else None,
        )

    def call(self, call: chats.ToolCall) -> generation.ReleasedToolCall:
        """Return an earlier call as it may leave.

        Raises:
            InvalidInput: its arguments are too deep, or hold too much.
        """
        try:
            arguments = _parsed(call.arguments, parse_constant=_no_number)
        except (ValueError, RecursionError):
            released = self._text(call.arguments)
        else:
            released = json.dumps(self._value(arguments, "", 0), ensure_ascii=False)
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

    def _schema(self, found: Any, key: str, depth: int) -> Any:
        """Return a schema as it may leave; ``key`` is the name of the value that it describes."""
        if isinstance(found, bool):
            return found
        if not isinstance(found, dict) or depth > _DEEPEST:
            _refuse("a function's parameters", "send a JSON Schema, not too deep")
        schema: dict[str, Any] = {}
        for word, value in found.items():
            if word in _LEFT_OUT:
                continue
            schema[word] = self._part(word, value, key, depth + 1)
        return schema

    def _part(self, word: str, value: Any, key: str, depth: int) -> Any:
        if word in _SCHEMAS:
            return self._schema(value, key, depth)
        if word in _LISTS and isinstance(value, list):
            return [self._schema(each, key, depth) for each in value]
        if word in _MAPS and isinstance(value, dict):
            return {
                self.name(name): self._schema(each, name, depth) for name, each in value.items()
            }
        if word in _TEXTS and isinstance(value, str):
            return self._text(value)
        if word in _VALUES:
            return self._value(value, key, depth)
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

    def _value(self, value: Any, key: str, depth: int) -> Any:
        if depth > _DEEPEST:
            _refuse("a value", "send JSON that is not so deep")
        if isinstance(value, dict):
            return {
                self.name(name): self._value(each, name, depth + 1) for name, each in value.items()
            }
        if isinstance(value, list):
            return [self._value(each, key, depth + 1) for each in value]
        if isinstance(value, str):
            released = self._keyed(key, value, '"')
            self._values.setdefault(released, set()).add(value)
            return released
        if isinstance(value, int | float) and not isinstance(value, bool):
            written = json.dumps(value)
            left = _number(self._keyed(key, written))
            self._values.setdefault(_written(left), set()).add(written)
            return left
        return value

    def _keyed(self, key: str, text: str, quote: str = "") -> str:
        """Release a value as it leaves after its key."""
        if self._read is None or not text.strip() or not 0 < len(key) <= _LONGEST_NAME:
            return self._text(text)
        self._count()
        before = f'"{key}": {quote}'
        words = _replaced(self._read(before + text + quote), len(before), len(text))
        if any(start < 0 or end > len(text) for start, end in words):
            return self._release(text)
        if "\n" in text:  # whose first line is read differently after a key
            for span, instead in _replaced(self._read(text), 0, len(text)).items():
                if not any(span[0] < end and start < span[1] for start, end in words):
                    words[span] = instead
        pieces, done = [], 0
        for (start, end), instead in sorted(words.items()):
            pieces += [text[done:start], instead]
            done = end
        return "".join((*pieces, text[done:]))

    def _words(self, name: str) -> str:
        words = _WORD.findall(name)
        labels = KEYS if self._read is not None else frozenset[str]()  # such as "cvc" and "lon"
        if labels.issuperset(map(str.lower, words)):
            self._count()
            return name
        released = self._text(" ".join(words)).split(" ")
        if len(released) != len(words):
            return "_".join(released)
        pairs = zip(words, released, strict=True)
        given = iter(word if word.lower() in labels else instead for word, instead in pairs)
        return _WORD.sub(lambda _: next(given), name)

    def _text(self, text: str) -> str:
        self._count()
        return self._release(text) if text.strip() else text

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            _refuse("the functions' definitions and calls", "send fewer or smaller ones")


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
            return _number(self._text(self._whole(json.dumps(value)), trusted))
        return value

    def _whole(self, written: str) -> str:
        """Return a number with the zeros that it lost: 2079460123 of "0207 9460123"."""
        if written in self._exact or len(written) < _LONG_NUMBER:
            return written
        forms = ("0" * zeros + written for zeros in range(_MOST_ZEROS + 1))
        return next((form for form in forms if self._restoration.value(form).restored), written)

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


def _written(value: float | str) -> str:
    """Return how a value comes back: a number as JSON writes it, "54.8" for "54.80"."""
    return value if isinstance(value, str) else json.dumps(value)


def _replaced(release: Release, begin: int, length: int) -> dict[tuple[int, int], str]:
    """Return the replaced words of a part of a document by their places in this part."""
    return {
        (word.start - begin, word.end - begin): release.text[
            word.released_start : word.released_end
        ]
        for word in release.each_word()
        if word.replaced and word.start < begin + length and word.end > begin
    }


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
