"""How likely a server's model holds a word to be next: its log-probabilities, never its free text.

Why it is here: a teacher that is a prompt votes for one of a few labels. What a model writes freely
would have to be read, and could say anything; how likely it holds each label to be cannot.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from sottovoce.core.errors import InvalidInput, Unavailable
from sottovoce.edge.client.openai_server import OpenAIServer

if TYPE_CHECKING:
    from http.client import HTTPResponse

__all__ = ["likeliest", "next_tokens"]

_MOST: Final = (20, 5)
"""Tokens to ask for: as vLLM and llama-server give, and as OpenAI's own servers do."""

_LONGEST: Final = 1 << 20
"""Bytes of an answer."""

_KIND: Final = "application/json"


def next_tokens(server: OpenAIServer, model: str, prompt: str) -> dict[str, float]:
    """Tokens that could come next, each with its log-probability.

    Args:
        server: is asked once, or twice where it gives few at a time.
        model: its name there.
        prompt: released.

    Raises:
        Unavailable: no such answer. InvalidInput and others: it refuses, see `OpenAIServer`.
    """
    body = {"model": model, "prompt": prompt, "max_tokens": 1, "temperature": 0}
    for most in _MOST:
        try:
            with server.asked("/completions", {**body, "logprobs": most}) as response:
                server.refused(response, _KIND, "with JSON")
                return _told(response)
        except InvalidInput:
            if most == _MOST[-1]:
                raise
    raise AssertionError("not reached")


def likeliest(tokens: Mapping[str, float], words: Sequence[str]) -> int | None:
    """Which of ``words`` is begun by the likeliest token that begins one of them and no other.

    Tokens are pieces of words, with a space in front or without, in any case.

    Returns:
        Its place; None if no token fits.
    """
    plain = [word.casefold() for word in words]
    for token in sorted(tokens, key=lambda each: -tokens[each]):
        piece = token.strip().casefold()
        fits = [at for at, word in enumerate(plain) if word.startswith(piece)] if piece else []
        if len(fits) == 1:
            return fits[0]
    return None


def _told(response: HTTPResponse) -> dict[str, float]:
    """The tokens in an answer, in either of the two forms that servers give them in.

    Raises:
        ValueError: it is none. Unavailable: it has none.
    """
    data = response.read(_LONGEST + 1)
    if len(data) > _LONGEST:
        raise ValueError("an answer without end")
    found = _at(json.loads(data), "choices", 0, "logprobs")
    listed, named = _at(found, "content", 0, "top_logprobs"), _at(found, "top_logprobs", 0)
    told: list[tuple[Any, Any]] = []
    if isinstance(listed, list):
        told = [(_at(each, "token"), _at(each, "logprob")) for each in listed]
    elif isinstance(named, dict):
        told = [*named.items()]
    tokens = {
        token: float(value)
        for token, value in told
        if isinstance(token, str) and isinstance(value, int | float) and not math.isnan(value)
    }
    if not tokens:
        raise Unavailable(
            "the server does not say how likely tokens are",
            fix="use one whose /v1/completions gives logprobs, such as vLLM or llama-server",
            subject="upstream",
        )
    return tokens


def _at(found: Any, *path: str | int) -> Any:
    """What lies there in something of JSON; None if there is nothing."""
    for step in path:
        if isinstance(step, str):
            found = found.get(step) if isinstance(found, dict) else None
        else:
            found = found[step] if isinstance(found, list) and len(found) > step else None
    return found
