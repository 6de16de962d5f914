"""What is asked of whatever writes, and what it answers, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from sottovoce.cloud.models.chat import Turn
from sottovoce.core.rpc.limits import NEW_TOKENS

__all__ = [
    "Asked",
    "Characters",
    "Done",
    "Draw",
    "Finish",
    "Piece",
    "Pieces",
    "Sampling",
    "StopSequences",
    "choose",
]

_HEAD = 256
"""Likeliest tokens that are looked at first: all others are sorted only where these do not do."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """What a caller chose.

    Attributes:
        max_tokens: written at most.
        temperature: 0 for the likeliest token always.
        top_p: probability of the nucleus that is drawn from (Holtzman et al.).
        seed: of all draws; None for a random one.
    """

    max_tokens: int = NEW_TOKENS
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None


class Draw:
    """The draws of one row, which no other row has any influence on."""

    def __init__(self, sampling: Sampling) -> None:
        self.temperature, self._top_p = sampling.temperature, sampling.top_p
        self._random = torch.Generator()
        if sampling.seed is None:
            self._random.seed()
        else:
            self._random.manual_seed(sampling.seed)

    def token(self, logits: Tensor) -> int:
        """A token id, by logits Float32 (tokens,) on the CPU, at any temperature above 0."""
        # In doubles, and from 0 down: the coldest temperature there is makes nothing infinite.
        probabilities = torch.softmax((logits.double() - logits.max()) / self.temperature, 0)
        values, ids = self._nucleus(probabilities)
        return int(ids[torch.multinomial(values, 1, generator=self._random)])

    def _nucleus(self, probabilities: Tensor) -> tuple[Tensor, Tensor]:
        everything = len(probabilities)
        if self._top_p >= 1:
            return probabilities, torch.arange(everything)
        for count in (min(_HEAD, everything), everything):
            values, ids = probabilities.topk(count)
            before = values.cumsum(0) - values
            inside = max(1, int((before < self._top_p).sum()))
            if inside < count:
                break
        return values[:inside], ids[:inside]


def choose(logits: Tensor, draws: Sequence[Draw]) -> list[int]:
    """The next token of every row.

    Args:
        logits: Float32 (B, tokens), all finite.
        draws: B of them.
    """
    likeliest: list[int] = logits.argmax(1).tolist()
    return [
        draw.token(logits[place].cpu()) if draw.temperature else likeliest[place]
        for place, draw in enumerate(draws)
    ]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for text.

    Attributes:
        prompt: turns of which the last is answered, or a text that is continued as it stands.
        sampling: how tokens are chosen.
        stops: strings that end the text, and are not in it.
    """

    prompt: tuple[Turn, ...] | str
    sampling: Sampling = field(default_factory=Sampling)
    stops: tuple[str, ...] = ()


class Finish(Enum):
    """Why a text ends: the model or a stop string ended it, there was no more room, or the server
    behind the cloud withheld the rest."""

    STOP = auto()
    LENGTH = auto()
    CONTENT_FILTER = auto()


@dataclass(frozen=True, slots=True)
class Done:
    """How a text ended; tokens as the model counts them, 0 where nobody says."""

    finish: Finish
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole characters of a text, and with the last ones, which may be none, how it ended."""

    text: str
    done: Done | None = None


class Pieces(Protocol):
    """A text as it is written; for one reader."""

    def __iter__(self) -> Iterator[Piece]: ...

    def cancel(self) -> None:
        """Ends the work: the reader wants no more. From any thread, at any time."""


_BROKEN: Final = "\ufffd"
"""What a tokenizer gives for bytes that are no character, or none yet."""

_CONTEXT, _LONG, _LONGEST = 6, 24, 96
"""Tokens that are decoded again with every new one: at least so many, as neighbours settle how one
is spelt; beyond the second number fewer once all characters are whole, beyond the third anyhow."""

_BYTES: Final = 4
"""Of the longest character: of so many tokens in a row one begins one."""


class Characters:
    """Whole characters of an answer, as its tokens come.

    Args:
        tokenizer: of the fast kind.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._shown = 0
        """Characters of the text of these ids that were given out."""

    def add(self, token: int) -> str:
        """What may be shown now that ``token`` is known; often nothing."""
        self._ids.append(token)
        text = self._text(self._ids)
        ready = text.rstrip(_BROKEN)  # what is not whole yet shows as broken, and comes last
        found = ready[self._shown :]
        self._shown = max(self._shown, len(ready))
        if len(self._ids) > _LONG:
            self._shorten()
        return found

    def _shorten(self) -> None:
        """Leaves out what is settled, up to where a character begins."""
        for kept in range(_CONTEXT, _CONTEXT + _BYTES):
            text = self._text(self._ids[-kept:])
            if _BROKEN not in text or len(self._ids) > _LONGEST:
                self._ids = self._ids[-kept:]
                self._shown = len(text.rstrip(_BROKEN))
                return

    def _text(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text


class StopSequences:
    """Ends a text before the first string of some.

    Args:
        strings: none of them empty.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        self._strings = tuple(strings)
        self._held = ""

    def add(self, text: str) -> tuple[str, bool]:
        """What may be shown, and whether the text ends there."""
        text = self._held + text
        # Of several the first that is complete, so that it does not matter how the text arrives.
        found = [(at + len(stop), at) for stop in self._strings if (at := text.find(stop)) >= 0]
        if found:
            self._held = ""
            return text[: min(found)[1]], True
        kept = max((_overlap(text, stop) for stop in self._strings), default=0)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept], False

    def rest(self) -> str:
        """What was held back, once nothing more can come."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """The longest end of ``text`` that ``stop`` begins with, short of all of it."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
