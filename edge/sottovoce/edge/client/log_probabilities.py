"""Log-probabilities of a server model's next token, never its free text.

A teacher that is a prompt votes for one of a few labels. Free text would have to be parsed, and
could contain anything. A probability for each label could not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from sottovoce.core.errors import InvalidInput, Unavailable
from sottovoce.core.rpc.openai import request
from sottovoce.edge.client.generation import Stoppable
from sottovoce.edge.client.openai_client import OpenAIClient

if TYPE_CHECKING:
    from http.client import HTTPResponse

__all__ = ["NextTokens", "likeliest"]

_MOST: Final = (20, 5)
"""Numbers of tokens to request: for vLLM and llama-server, then for OpenAI."""

_LONGEST: Final = 1 << 20
"""Largest answer in bytes."""

_SECONDS: Final = 120.0
"""Timeout of a call; the first may have to load a model."""

_KIND: Final = "application/json"


class NextTokens:
    """Asks a server's model for the likeliest next tokens.

    Args:
        server: the server.
        model: the model's name there.
    """

    def __init__(self, server: OpenAIClient, model: str) -> None:
        self._server = server
        self._model = model
        self._most: tuple[int, ...] = _MOST

    def after(self, prompt: str, stoppable: Stoppable = lambda stop: None) -> dict[str, float]:
        """Return the likeliest tokens after ``prompt``, each with its log-probability.

        Args:
            prompt: released.
            stoppable: receives a function that ends the call from another thread.

        Raises:
            Unavailable: the answer has no log-probabilities. InvalidInput and others: the server
                refuses, see `OpenAIClient`.
        """
        path, body = request(self._model, prompt, stream=False, max_tokens=1, temperature=0)
        for most in self._most:
            try:
                with self._server.asked(
                    path,
                    {**body, "logprobs": most},
                    seconds=_SECONDS,
                    stoppable=stoppable,
                ) as response:
                    self._server.refused(response, _KIND, "with JSON")
                    told = _told(response)
                    self._most = (most,)  # a number that worked once works again
                    return told
            except InvalidInput:
                if most == self._most[-1]:
                    raise
        raise AssertionError("not reached")


def likeliest(tokens: Mapping[str, float], words: Sequence[str]) -> int | None:
    """Return which of ``words`` the likeliest fitting token begins.

    A token fits if exactly one word begins with it. Tokens are pieces of words, with or without a
    space in front, in any case.

    Returns:
        The word's index; None if no token fits.
    """
    plain = [word.casefold() for word in words]
    for token in sorted(tokens, key=lambda each: -tokens[each]):
        piece = token.strip().casefold()
        fits = [at for at, word in enumerate(plain) if word.startswith(piece)] if piece else []
        if len(fits) == 1:
            return fits[0]
    return None


def _told(response: HTTPResponse) -> dict[str, float]:
    """Return the tokens in an answer, in either of the two forms that servers use.

    Raises:
        ValueError: it is not an answer. Unavailable: it has no tokens.
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
    numbers = ((token, _number(value)) for token, value in told if isinstance(token, str))
    tokens = {token: number for token, number in numbers if number is not None}
    if not tokens:
        raise Unavailable(
            "the server does not say how likely tokens are",
            fix="use one whose /v1/completions gives logprobs, such as vLLM or llama-server",
            subject="upstream",
        )
    return tokens


def _number(value: Any) -> float | None:
    try:
        number = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:  # an integer of hundreds of digits
        return None
    return None if math.isnan(number) else number


def _at(found: Any, *path: str | int) -> Any:
    """Return the value at a path in a JSON document; None if there is none."""
    for step in path:
        if isinstance(step, str):
            found = found.get(step) if isinstance(found, dict) else None
        else:
            found = found[step] if isinstance(found, list) and len(found) > step else None
    return found
