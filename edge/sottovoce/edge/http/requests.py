"""Requests in OpenAI's formats, read as the agent's own: messages, tools, and sampling.

This module decides which parts of a message are text. Parts that this device cannot privatise
(images, audio, files) are refused.

No field is overlooked. An unknown field may hold text, and to drop a field silently would change
the request. So each field is taken by name, and `Fields.end` raises an error that names any field
left over. The owner can have these fields dropped instead. Then the response names them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from sottovoce.core.errors import InvalidInput, NotFound
from sottovoce.core.http.messages import Request
from sottovoce.core.rpc.limits import (
    HIGHEST_PENALTY,
    HIGHEST_TEMPERATURE,
    MOST_NEW_TOKENS,
    MOST_STOPS,
    MOST_TOOLS,
    MOST_TURNS,
)
from sottovoce.edge.client.generation import EFFORTS, VERBOSITIES
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation

_LONGEST_NAME: Final = 64
_MOST_DROPPED: Final = 16
_ABSENT: Final = object()


def refuse(where: str, problem: str, fix: str = "") -> NoReturn:
    """Raise `InvalidInput` for a field."""
    raise InvalidInput(f"{where} {problem}", fix=fix, subject=where)


class _Dropped:
    """The fields of a request that are dropped, unknown or known."""

    def __init__(self, *, unknown: bool) -> None:
        self.unknown = unknown
        self.names: dict[str, None] = {}

    def note(self, name: str) -> None:
        """Note a field; after `_MOST_DROPPED` fields, note only that there were more."""
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


DEFAULT_MODEL: Final = "default"
"""The name for the configured model, or for the cloud's base model."""

KEPT_HERE: Final = (
    "metadata",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "user",
)
"""Fields about the client's users, which are not passed on."""

KEPT_OF_TURNS: Final = ("name", "reasoning", "reasoning_content", "reasoning_details")
"""Fields of a message that are not passed on: often a person's name, and earlier thoughts."""

PREFIX: Final = "x-sottovoce-"
"""The start of the names of our own headers."""
MOST_PARTS: Final = 1_024
MOST_CALLS: Final = 128
MOST_CHOICES: Final = 8
_MOST_TOP: Final = 20
_MOST_TOP_K: Final = 1_000_000
ROLES: Final = {
    "system": generation.ROLE_SYSTEM,
    "developer": generation.ROLE_SYSTEM,
    "user": generation.ROLE_USER,
    "assistant": generation.ROLE_ASSISTANT,
    "tool": generation.ROLE_TOOL,
}
_NULL_IN_MESSAGES: Final = ("audio", "refusal")
"""Null fields that clients copy from an earlier answer."""
_USES: Final = {
    "auto": generation.TOOL_USE_UNSPECIFIED,
    "none": generation.TOOL_USE_NONE,
    "required": generation.TOOL_USE_REQUIRED,
}
_EFFORTS: Final = {word: number for number, word in EFFORTS.items()}
_VERBOSITIES: Final = {word: number for number, word in VERBOSITIES.items()}
_TIERS: Final = ("auto", "default", "flex", "priority", "scale")
_SEEDS: Final = 1 << 63
_FUNCTION: Final = "function"


def read(device: Parts, request: Request) -> Fields:
    """Parse a request's body; the owner chose what becomes of unknown fields."""
    return parsed(request.body, drop_unknown=device.config.openai.drop_unknown)


def model(device: Parts, fields: Fields) -> str:
    """Return the requested model as the agent names it; empty for the default.

    A name is text as well. It leaves the device only if the owner or the answering server defined
    it.
    """
    name = fields.text("model", DEFAULT_MODEL)
    if name == DEFAULT_MODEL:
        return ""
    if not device.writer.has(name):
        raise no_such_model()
    return name


def no_such_model() -> NotFound:
    """Return the error for an unknown model."""
    return NotFound("no such model", fix="GET /v1/models lists those there are", subject="model")


def privacy(headers: Mapping[str, str]) -> agent.PrivacyOptions:
    """Return the privacy options from headers; empty ones mean as configured."""
    names = ("level", "mechanism", "policy")
    return agent.PrivacyOptions(**{name: headers.get(PREFIX + name, "") for name in names})


def conversation(headers: Mapping[str, str]) -> str:
    """Return the client's name for its conversation, or an empty string."""
    return headers.get(f"{PREFIX}conversation", "")


def sampling(fields: Fields, *, most: str = "max_tokens") -> chats.Sampling:
    """Return the sampling settings of a request.

    Args:
        most: the name of the field for the most tokens, which differs by format.
    """
    seed = fields.whole("seed", None, -_SEEDS, _SEEDS)
    top_k = fields.whole("top_k", 0, -1, _MOST_TOP_K) or 0  # some clients say -1 for all
    return chats.Sampling(
        presence_penalty=_penalty(fields, "presence_penalty"),
        frequency_penalty=_penalty(fields, "frequency_penalty"),
        top_k=max(0, top_k),
        min_p=fields.number("min_p", 0, 0, 1),
        max_tokens=fields.whole(most, 0, 1, MOST_NEW_TOKENS),
        temperature=fields.number("temperature", None, 0, HIGHEST_TEMPERATURE),
        top_p=fields.number("top_p", 0, 0, 1),
        seed=None if seed is None else seed % _SEEDS,  # other servers take at most 63 bits
    )


def _penalty(fields: Fields, name: str) -> float | None:
    return fields.number(name, None, -HIGHEST_PENALTY, HIGHEST_PENALTY) or None


def add_reasoning(sampling: chats.Sampling, fields: Fields, effort: str) -> None:
    """Add how long the model thinks; ``effort`` names the field."""
    if chosen := fields.choice(effort, [*_EFFORTS]):
        sampling.reasoning_effort = _EFFORTS[chosen]


def add_verbosity(sampling: chats.Sampling, fields: Fields) -> None:
    """Add how long the answer is."""
    if chosen := fields.choice("verbosity", [*_VERBOSITIES]):
        sampling.verbosity = _VERBOSITIES[chosen]


def choices(fields: Fields) -> int:
    """Return how many answers are wanted."""
    return fields.whole("n", 1, 1, MOST_CHOICES) or 1


def another(sampling: chats.Sampling) -> None:
    """Change the seed, if there is one, for another answer to the same request."""
    if sampling.HasField("seed"):
        sampling.seed = (sampling.seed + 1) % _SEEDS


def log_probabilities(fields: Fields) -> None:
    """Take the wish for tokens with their probabilities, which is dropped.

    A surrogate's tokens could not be restored one by one.
    """
    fields.drop("logprobs", fields.flag("logprobs"))
    fields.drop("top_logprobs", fields.whole("top_logprobs", None, 0, _MOST_TOP))


def never_passed(fields: Fields) -> None:
    """Take fields that concern the client's account at the server, which is the owner's."""
    fields.kept_here(*KEPT_HERE)
    fields.drop("store", fields.flag("store"))
    tier = fields.choice("service_tier", _TIERS)
    fields.drop("service_tier", tier not in ("", "auto", "default"))
    truncation = fields.choice("truncation", ("auto", "disabled"))
    fields.drop("truncation", truncation == "auto")


def add_schema(asked: chats.ChatRequest, fields: Fields | None, *, nested: bool) -> None:
    """Add the form of the answer.

    Args:
        fields: the form; None means text.
        nested: whether the schema stands in a field.
    """
    kinds = ("text", "json_object", "json_schema")
    kind = "text" if fields is None else fields.choice("type", kinds)
    if fields is None or kind == "text":
        if fields is not None:
            fields.end()
        return
    if not kind:
        refuse(fields.where("type"), "is missing", f"use one of {', '.join(kinds)}")
    asked.format.SetInParent()
    if kind == "json_schema":
        inner = fields.nested("json_schema") if nested else fields
        schema: Any = inner and inner.take("schema")
        if inner is None or not isinstance(schema, dict):
            refuse(fields.where("schema"), "is no object", "send a JSON Schema")
        asked.format.name = inner.text("name", "")
        asked.format.description = inner.text("description", "")
        asked.format.schema = json.dumps(schema)
        strict = inner.flag("strict", None)
        if strict is not None:
            asked.format.strict = strict
        inner.end()
    fields.end()


def stops(fields: Fields) -> list[str]:
    """Return the strings that end an answer; the list may be empty."""
    found = fields.take("stop")
    listed = [] if found is None else found if isinstance(found, list) else [found]
    if len(listed) > MOST_STOPS or not all(isinstance(stop, str) for stop in listed):
        refuse(fields.where("stop"), "is neither a string nor a list of a few")
    return listed


def counted(fields: Fields) -> bool:
    """Return whether a stream should end with the number of tokens used."""
    options = fields.nested("stream_options")
    if options is None:
        return False
    found = options.flag("include_usage")
    options.flag("include_obfuscation")
    options.end()
    return bool(found)


def turns(fields: Fields) -> list[chats.ChatTurn]:
    found = fields.items("messages", MOST_TURNS)
    if not found:
        refuse(fields.where("messages"), "is missing or empty", "send at least one message")
    called: dict[str, str] = {}
    return [_turn(fields.inner(each, f"messages[{n}]"), called) for n, each in enumerate(found)]


def _turn(fields: Fields, called: dict[str, str]) -> chats.ChatTurn:
    """Return a turn.

    Args:
        called: ids of earlier calls in the older form, by the function's name. That form has none.
    """
    role = fields.text("role")
    answered = ""
    if role == _FUNCTION:
        answered = called.get(fields.text("name"), "")
        if not answered:
            refuse(fields.where("name"), "is no function that was called", "send the call before")
    elif role not in ROLES:
        refuse(fields.where("role"), "is no role", f"use one of {', '.join((*ROLES, _FUNCTION))}")
    fields.kept_here(*KEPT_OF_TURNS)
    fields.only("annotations", [])
    turn = chats.ChatTurn(
        role=ROLES.get(role, generation.ROLE_TOOL),
        text=content(fields, "content", ("text",)),
        tool_calls=_calls(fields),
        tool_call_id=answered or fields.text("tool_call_id", ""),
    )
    older = fields.nested("function_call")
    if older is not None:
        identity = f"{fields.where('function_call')}"
        call = _call(older, identity)
        called[call.name] = identity
        turn.tool_calls.append(call)
    fields.end(_NULL_IN_MESSAGES)
    return turn


def _call(function: Fields, identity: str) -> chats.ToolCall:
    name, arguments = function.text("name"), function.text("arguments")
    function.end()
    return chats.ToolCall(id=identity, name=name, arguments=arguments)


def _calls(fields: Fields) -> list[chats.ToolCall]:
    calls = []
    for number, each in enumerate(fields.items("tool_calls", MOST_CALLS)):
        call = fields.inner(each, f"{fields.where('tool_calls')}[{number}]")
        function = call.nested("function")
        if call.text("type", "function") != "function" or function is None:
            refuse(call.where("type"), "is not supported", "send calls of functions")
        call.kept_here("index")
        calls.append(_call(function, call.text("id")))
        call.end()
    return calls


def content(fields: Fields, name: str, kinds: tuple[str, ...]) -> str:
    """Return a message's text: a string, or parts of these kinds, joined."""
    found: Any = fields.take(name)
    if found is None or isinstance(found, str):
        return found or ""
    where = fields.where(name)
    if not isinstance(found, list) or len(found) > MOST_PARTS:
        refuse(where, f"is neither a string nor a list of at most {MOST_PARTS} parts")
    parts = []
    for number, each in enumerate(found):
        part = fields.inner(each, f"{where}[{number}]")
        if part.text("type") not in kinds:
            refuse(part.where("type"), "is not supported", f'send text alone, as "{kinds[0]}"')
        parts.append(part.text("text"))
        part.only("annotations", [])
        part.only("logprobs", [])
        part.end()
    return "\n".join(parts)


def add_tools(asked: chats.ChatRequest, fields: Fields, *, nested: bool) -> None:
    """Add a request's functions, and which functions may or must be called.

    Args:
        nested: whether a tool holds its function in a field.
    """
    for number, each in enumerate(fields.items("tools", MOST_TOOLS)):
        tool = fields.inner(each, f"tools[{number}]")
        asked.tools.append(_definition(_inner(tool, nested)))
        tool.end()
    chosen: Any = fields.take("tool_choice")
    if isinstance(chosen, dict):
        choice = fields.inner(chosen, "tool_choice")
        function = _inner(choice, nested)
        asked.tool = function.text("name")
        function.end()
        choice.end()
    elif chosen is not None:
        if not isinstance(chosen, str) or chosen not in _USES:
            refuse(fields.where("tool_choice"), "is unknown", f"use one of {', '.join(_USES)}")
        asked.tool_use = _USES[chosen]
    parallel = fields.flag("parallel_tool_calls", None)
    if parallel is not None:
        asked.parallel_tool_calls = parallel


def add_functions(asked: chats.ChatRequest, fields: Fields) -> bool:
    """Add functions in the older form, without tools; return whether there are any."""
    found = fields.items("functions", MOST_TOOLS)
    if found and asked.tools:
        refuse(fields.where("functions"), "stands beside tools", "send tools alone")
    for number, each in enumerate(found):
        asked.tools.append(_definition(fields.inner(each, f"functions[{number}]")))
    chosen: Any = fields.take("function_call")
    if isinstance(chosen, dict):
        choice = fields.inner(chosen, "function_call")
        asked.tool = choice.text("name")
        choice.end()
    elif chosen is not None:
        if chosen not in ("auto", "none"):
            refuse(fields.where("function_call"), "is unknown", "use auto or none")
        asked.tool_use = _USES[chosen]
    if found:
        asked.parallel_tool_calls = False  # an answer in this form holds one call
    return bool(found)


def _inner(tool: Fields, nested: bool) -> Fields:
    if tool.text("type") != "function":
        refuse(tool.where("type"), "is not supported", 'use "function"')
    if not nested:
        return tool
    function = tool.nested("function")
    if function is None:
        refuse(tool.where("function"), "is missing")
    return function


def _definition(function: Fields) -> chats.ChatTool:
    name, description = function.text("name"), function.text("description", "")
    parameters: Any = function.take("parameters")
    function.flag("strict")  # the client checks the arguments; the schema leaves without bounds
    found = chats.ChatTool(
        name=name,
        description=description,
        parameters="" if parameters is None else json.dumps(parameters),
    )
    function.end()
    return found
