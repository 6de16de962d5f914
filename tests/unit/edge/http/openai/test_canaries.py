"""Canaries at every place that the endpoints read: none reaches the server behind.

A placement is a place in a request, a form of writing and a kind of canary. The places come from
`BODIES`, which must hold every field that the reader takes. So a new field fails this test until it
is listed here, and is then planted like all others.
"""

from __future__ import annotations

import copy
import http.client
import json
import logging
import re
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count, cycle, pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from sottovoce.core.privacy.policies import POLICIES
from sottovoce.edge.http.requests import Fields
from tests.support.openai_endpoint import Door
from tests.support.openai_upstream import before_a_server
from tests.support.upstream_server import Server, event
from tests.unit.edge.http.openai.test_leaks import CALL, CHAT, COMPLETION, FUNCTION, RESPONSE

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "title": "a lamp",
    "description": "a lamp",
    "$comment": "a lamp",
    "$id": "a lamp",
    "properties": {
        "place": {
            "type": "string",
            "description": "the pond",
            "enum": ["a lamp", 7, {"pond": ["the pond"]}],
            "const": "a lamp",
            "default": {"pond": "a lamp"},
            "examples": ["the pond", [8]],
            "pattern": "a lamp",
            "format": "date",
            "minimum": 3,
        },
        "pond": {"$ref": "#/$defs/lamp"},
        "river": {"anyOf": [{"type": "array", "items": {"title": "a lamp"}}, {"type": "null"}]},
    },
    "$defs": {"lamp": {"type": "number", "default": 9, "deprecated": True}},
    "required": ["place"],
    "additionalProperties": False,
}
TOOL: Final = FUNCTION | {"parameters": SCHEMA, "strict": True}
FORM: Final = {"name": "form", "description": "a lamp", "strict": True, "schema": SCHEMA}
KEPT: Final = {
    "metadata": {"topic": "a lamp"},
    "prompt_cache_key": "a lamp",
    "prompt_cache_retention": "24h",
    "safety_identifier": "a lamp",
    "user": "a lamp",
}
SAMPLING: Final = {
    "temperature": 1,
    "top_p": 0.5,
    "seed": 5,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "top_k": 5,
    "min_p": 0.5,
}
ACCOUNT: Final = {**KEPT, "store": False, "service_tier": "auto", "truncation": "disabled"}
SHARED: Final = {**SAMPLING, **ACCOUNT, "model": "default", "stream": True}
COUNTED: Final = {"stream_options": {"include_usage": True, "include_obfuscation": False}}
OF_CHAT: Final = {
    **SHARED,
    **COUNTED,
    "max_tokens": 5,
    "n": 1,
    "stop": ["the end"],
    "logit_bias": {},
    "modalities": ["text"],
    "logprobs": False,
    "top_logprobs": 0,
    "reasoning_effort": "low",
    "verbosity": "low",
    "response_format": {"type": "json_object"},
}
THOUGHT: Final = {"name": "Ann", "reasoning_content": "a lamp", "reasoning": "a lamp"}
CALLING: Final = {
    "role": "assistant",
    "content": "a lamp",
    "tool_calls": [CALL | {"index": 0}],
    "annotations": [],
    "reasoning_details": [{"text": "a lamp"}],
    **THOUGHT,
}
PARTS: Final = [{"type": "text", "text": "the pond", "annotations": [], "logprobs": []}]
EARLIER: Final = {"name": "find", "arguments": '{"place": "pond"}'}

BODIES: Final[list[tuple[str, dict[str, Any]]]] = [
    (
        "chat/completions",
        {
            **OF_CHAT,
            "messages": [
                *CHAT["messages"][:3],
                CALLING,
                CHAT["messages"][4],
                {"role": "user", "content": PARTS},
            ],
            "tools": [{"type": "function", "function": TOOL}],
            "tool_choice": {"type": "function", "function": {"name": "find"}},
            "parallel_tool_calls": True,
        },
    ),
    (
        "chat/completions",
        {
            **OF_CHAT,
            "max_completion_tokens": 5,
            "messages": [
                {"role": "user", "content": "the pond"},
                {"role": "assistant", "function_call": EARLIER},
                {"role": "function", "name": "find", "content": "a lamp"},
            ],
            "functions": [{**FUNCTION, "strict": True}],
            "response_format": {"type": "json_schema", "json_schema": FORM},
            "function_call": {"name": "find"},
        },
    ),
    (
        "completions",
        {
            **SHARED,
            **COUNTED,
            **COMPLETION,
            "max_tokens": 5,
            "n": 1,
            "best_of": 1,
            "echo": False,
            "logit_bias": {},
            "logprobs": 0,
            "stop": ["the end"],
        },
    ),
    (
        "responses",
        {
            **SHARED,
            "stream_options": {"include_obfuscation": False},
            "instructions": "the pond",
            "input": [
                {**RESPONSE["input"][0], "id": "a lamp", "status": "completed"},
                {
                    "type": "reasoning",
                    "id": "a lamp",
                    "summary": [{"type": "summary_text", "text": "a lamp"}],
                    "content": [{"type": "reasoning_text", "text": "a lamp"}],
                    "encrypted_content": "a lamp",
                },
                *RESPONSE["input"][1:],
                {"type": "message", "role": "user", "content": PARTS},
            ],
            "tools": [{"type": "function", **FUNCTION, "strict": True}],
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            "max_output_tokens": 5,
            "max_tool_calls": 5,
            "logprobs": False,
            "top_logprobs": 0,
            "background": False,
            "include": ["reasoning.encrypted_content"],
            "reasoning": {"effort": "low", "summary": "auto", "generate_summary": "auto"},
            "text": {"verbosity": "low", "format": {"type": "json_schema", **FORM}},
        },
    ),
    ("embeddings", {**KEPT, "model": "local", "input": ["the pond"], "encoding_format": "float"}),
]
MARKS: Final = ("place", "river", "lamp", "find", "form", "call_a", "a")
"""Names that stand at several places of a body, and must be alike there."""

Path_ = tuple[str | int, ...]
_OF_KINDS: Final = ("mail", "phone", "number", "name")
_LETTERS: Final = "bdfgklmnprst"


@dataclass
class Canaries:
    """Makes canaries, each with a core that occurs nowhere else."""

    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def make(self, kind: str) -> tuple[str, str]:
        """A canary of a kind, and its core."""
        at = next(self.numbers)
        digits = f"{(at * 7_919 + 104_729) % 10**6:06}{at:05}"
        word = "".join(f"{_LETTERS[int(d)]}{'aeiou'[int(d) % 5]}" for d in digits[-7:])
        match kind:
            case "mail":
                return f"{word}.zyx@{word[::-1]}.example", f"{word}zyx"
            case "phone":
                return f"+49 171 {digits}", f"49171{digits}"
            case "number":
                return f"KX-{digits}-Q", digits
            case _:
                return f"Zyxé{word}", f"zyxé{word}"


def squeezed(text: str) -> str:
    """Letters and digits alone, in one form and case, without JSON's escapes."""
    text = re.sub(r"\\+u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text)
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFC", "".join(filter(str.isalnum, _composed(folded))))


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def nodes(found: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Every value in a document, with its path."""
    yield path, found
    items: Any = found.items() if isinstance(found, dict) else ()
    for step, inner in enumerate(found) if isinstance(found, list) else items:
        yield from nodes(inner, (*path, step))


def replaced(body: dict[str, Any], path: Path_, value: Any) -> dict[str, Any]:
    """The body with another value at a path, which must lead to it but for its last step."""
    found = copy.deepcopy(body)
    put(found, path, value)
    return found


def put(body: dict[str, Any], path: Path_, value: Any) -> None:
    """Set the value at a path."""
    inner: Any = body
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value


def pruned(body: dict[str, Any], path: Path_) -> dict[str, Any]:
    """The field of a path, and the few that it needs; so that many requests take little time."""
    needed = {"tool_choice": "tools", "function_call": "functions", "best_of": "n"}
    kept = {path[0], needed.get(str(path[0]), path[0])}
    found = {name: value for name, value in body.items() if name in kept}
    if "messages" in body:
        before = body["messages"][: int(path[1]) + 1] if path[0] == "messages" and path[1:] else []
        found["messages"] = [*before, {"role": "user", "content": "the pond"}]
        if path == ("messages",):
            found["messages"] = body["messages"]
    found |= {name: body[name] for name in ("prompt", "input") if name in body}
    inner: Any = copy.deepcopy(found)
    found, in_schema = inner, False
    for step, after in pairwise(path):
        if in_schema and isinstance(inner[step], dict):
            inner[step] = {after: inner[step][after]}
        in_schema = in_schema or step in ("parameters", "schema")
        inner = inner[step]
    return found


def _read_as(endpoint: str, path: Path_) -> tuple[str, str]:
    """Return the endpoint and place, or the place within a schema, which has one reader."""
    for depth in (path.index(each) + 1 for each in ("parameters", "schema") if each in path):
        if path[depth:]:
            return "schema", written(path[depth:])
    return endpoint, written(path)


def written(path: Path_) -> str:
    """A path as the reader writes it, without numbers of items."""
    text = "".join("[]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


SENTENCES: Final = {
    "mail": "Write to {} today.",
    "phone": "Ring {} today.",
    "number": "The order {} is late.",
    "name": "I met Mrs {} at the pond.",
}


def escaped(text: str) -> str:
    """A JSON document with all letters and digits of its strings escaped."""

    def inner(found: re.Match[str]) -> str:
        return found[0] if found[0][0] == "\\" else f"\\u{ord(found[0]):04x}"

    def string(found: re.Match[str]) -> str:
        return re.sub(r"\\u[0-9a-f]{4}|\\.|\w", inner, found[0])

    return re.sub(r'"(?:[^"\\]|\\.)*"', string, text)


def _full(text: str) -> str:
    """In full-width letters, which NFKC undoes."""
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


WRITINGS: Final[dict[str, Callable[[str, str], str]]] = {
    "plain": lambda said, canary: said,
    "capitals": lambda said, canary: said.upper(),
    "decomposed": lambda said, canary: unicodedata.normalize("NFD", said),
    "full width": lambda said, canary: _full(said),
    "JSON": lambda said, canary: json.dumps({"note": said, canary: [[said], {"n": canary}]}),
    "escaped JSON": lambda said, canary: escaped(json.dumps({"note": [{"deep": said}]})),
    "table": lambda said, canary: f"a,b\n1,{canary}\n\n| a | b |\n|---|---|\n| 1 | {said} |",
    "markup": lambda said, canary: f'<p title="{canary}">{said}</p> **{canary}** `{canary}`',
    "lines": lambda said, canary: f"\t{said}\r\n\n> {said}\n- {canary}",
}


def shapes(canary: str, number: int) -> list[Any]:
    """Values of many types that hold a canary."""
    part = {"type": "text", "text": canary}
    return [
        canary,
        [canary],
        {canary: canary},
        {"type": canary},
        [part],
        [{"type": "input_text", "text": canary}],
        {"a": {"b": [canary, {canary: number}]}},
        {"type": "string", "title": canary},
        number,
        [number],
    ]


@dataclass
class Probe:
    """Asks an OpenAI endpoint with canaries, and looks for them in the server's requests."""

    door: Door
    server: Server
    policy: str
    connection: http.client.HTTPConnection
    canaries: Canaries = field(default_factory=Canaries)
    placed: int = 0
    told: bytes = b""
    refused: list[bytes] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    cores: set[str] = field(default_factory=set)
    in_turn: Iterator[str] = field(default_factory=lambda: cycle((*_OF_KINDS, "word")))

    def ask(self, endpoint: str, body: Any, cores: dict[str, str], *, escape: bool = False) -> int:
        """Return the status; ``cores`` are the canaries' by their places."""
        data = json.dumps(body, ensure_ascii=False)
        data = escaped(data) if escape else data
        headers = {
            "Authorization": f"Bearer {self.door.key}",
            "Content-Type": "application/json",
            "X-Sottovoce-Policy": self.policy,
        }
        self.server.asked.clear()
        try:
            self.connection.request("POST", f"/v1/{endpoint}", data.encode(), headers)
            response = self.connection.getresponse()
        except ConnectionError:  # after a number of requests
            self.connection.close()
            self.connection.request("POST", f"/v1/{endpoint}", data.encode(), headers)
            response = self.connection.getresponse()
        self.told = response.read()
        told = json.dumps(self.server.asked, ensure_ascii=False, default=str)
        assert (response.status == 200) >= bool(self.server.asked)
        self.placed += len(cores)
        self.cores |= {*cores.values()}
        if self.server.asked:
            squeezed_ = squeezed(told)
            self.found += [f"{endpoint} {at}" for at, core in cores.items() if core in squeezed_]
        return response.status

    def shaped(
        self, endpoint: str, whole: dict[str, Any], seen: set[tuple[str, str, str]]
    ) -> list[Path_]:
        """Put canaries of every shape at every place; return the places for any text."""
        texts = []
        for path, value in nodes(whole):
            body = pruned(whole, path) if path else whole
            place = (*_read_as(endpoint, path), type(value).__name__)
            new = place not in seen
            seen.add(place)
            for number, kind in enumerate(_OF_KINDS) if path and new else ():
                canary, core = self.canaries.make(kind)
                digits = int(self.canaries.make("number")[1])
                for shape in shapes(canary, digits)[number::4]:
                    at, text = f"{written(path)} as {shape!r}", squeezed(json.dumps(shape))
                    cores = {f"{at}, {one}": one for one in (core, str(digits)) if one in text}
                    assert cores
                    self.ask(endpoint, replaced(body, path, shape), cores)
            if isinstance(value, dict) and new:
                for kind, inner in zip(
                    _OF_KINDS, (1, "a lamp", {"type": "string"}, None), strict=True
                ):
                    canary, core = self.canaries.make(kind)
                    planted = replaced(body, (*path, canary), inner)
                    self.ask(endpoint, planted, {f"a key of {written(path)}": core})
                canary, core = self.canaries.make("mail")
                planted = replaced(body, (*path, "surprise"), [canary])
                self.ask(endpoint, planted, {f"{written(path)}.surprise": core})
            elif isinstance(value, str) and value not in MARKS:
                canary, core = self.canaries.make("mail")
                said = SENTENCES["mail"].format(canary)
                if self.ask(endpoint, replaced(body, path, said), {written(path): core}) == 200:
                    texts.append(path)
        return texts

    def said(self, endpoint: str, body: dict[str, Any], texts: list[Path_], turns: int) -> None:
        """Put canaries at all places for text at once.

        Args:
            endpoint, body, texts: the request, and its places for text.
            turns: how often; each time, every place gets another kind and another writing.
        """
        for turn in range(turns):
            planted, cores = copy.deepcopy(body), {}
            for at, path in enumerate(texts):
                kind = _OF_KINDS[(turn + at) % len(_OF_KINDS)]
                writing = [*WRITINGS][(turn * 3 + at) % len(WRITINGS)]
                canary, core = self.canaries.make(kind)
                text = said = SENTENCES[kind].format(canary)
                if path[0] != "stop":  # which is bounded
                    text = WRITINGS[writing](said, canary)
                put(planted, path, text)
                cores[f"{written(path)}, {kind}, {writing}"] = core
            if self.ask(endpoint, planted, cores, escape=turn % 2 == 1) != 200:
                self.refused.append(self.told)

    def named(self, endpoint: str, body: dict[str, Any], kinds: int) -> None:
        """Put canaries in place of names at several places; each name has this number of kinds."""
        for mark in MARKS:
            for _ in range(kinds):
                kind = next(self.in_turn)
                canary, core = self.canaries.make(kind)
                if kind == "word":  # fit for a function's name
                    canary, core = canary.replace("é", "e"), core.replace("é", "e")
                text = json.dumps(body).replace(json.dumps(mark), json.dumps(canary))
                text = text.replace(f'\\"{mark}', f'\\"{json.dumps(canary)[1:-1]}')
                self.ask(endpoint, json.loads(text), {f"{mark} as a {kind}": core})


def ended(body: dict[str, Any]) -> list[bytes]:
    """A short answer."""
    return [event("ok", reason="stop", chat="messages" in body), b"data: [DONE]\n\n"]


def test_no_canary_reaches_the_server(
    tmp_path: Path,
    bundle_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    read: set[tuple[str, str]] = set()
    take = Fields.take
    endpoint = ""

    def noting(self: Fields, name: str) -> Any:
        read.add((endpoint, re.sub(r"\[\d+\]", "[]", self.where(name))))
        return take(self, name)

    known = {(endpoint, written(path)) for endpoint, body in BODIES for path, _ in nodes(body)}
    settings = {
        "SOTTO_PRIVACY_LEAST_POLICY": "personal",
        "SOTTO_CHAT_KEEP_DAYS": "0",  # quicker
        "SOTTO_OPENAI_DROP_UNKNOWN": "true",  # what is refused could not leave
    }
    with (
        before_a_server(tmp_path, bundle_folder, **settings) as (door, server),
        closing(http.client.HTTPConnection(*door.place, timeout=60)) as connection,
        caplog.at_level(logging.DEBUG),
    ):
        server.answer = ended
        probe = Probe(door, server, "personal", connection)
        with monkeypatch.context() as patched:
            patched.setattr(Fields, "take", noting)
            for endpoint, body in BODIES:
                assert probe.ask(endpoint, body, {}) == 200, probe.told
        assert read <= known, "list these in BODIES"
        seen: set[tuple[str, str, str]] = set()
        places = [(endpoint, body, probe.shaped(endpoint, body, seen)) for endpoint, body in BODIES]
        for policy in POLICIES:
            probe.policy = policy
            for endpoint, body, texts in places:
                turns, kinds = (10, len(_OF_KINDS) + 1) if policy == "personal" else (2, 1)
                probe.said(endpoint, body, texts, turns)
                probe.named(endpoint, body, kinds)
    with capsys.disabled():
        print(f" {probe.placed} placements ", end="")
    assert not probe.found
    logged = squeezed(caplog.text)
    assert not [core for core in probe.cores if core in logged]
    assert not probe.refused
    assert probe.placed >= 4_000
