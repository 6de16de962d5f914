"""Requests for text and their answers, and the choice of each next token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from sottovoce.cloud.models.chat import Turn
from sottovoce.core.rpc.limits import NEW_TOKENS

_HEAD = 256
"""Likeliest tokens to examine first; all tokens are sorted only if these do not suffice."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """A caller's choices for drawing tokens.

    Attributes:
        max_tokens: largest number of new tokens.
        temperature: 0 always takes the likeliest token.
        top_p: probability of the nucleus to draw from (Holtzman et al.).
        seed: of all draws; None for a random one.
    """

    max_tokens: int = NEW_TOKENS
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None


class Draw:
    """The draws of one row, independent of all other rows."""

    def __init__(self, sampling: Sampling) -> None:
        self.temperature, self._top_p = sampling.temperature, sampling.top_p
        self._random = torch.Generator()
        if sampling.seed is None:
            self._random.seed()
        else:
            self._random.manual_seed(sampling.seed)

    def token(self, logits: Tensor) -> int:
        """Return a token id for logits Float32 (tokens,) on the CPU and a temperature above 0."""
        # In doubles, from 0 down: even the lowest temperature gives finite numbers.
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
    """Return the next token of every row.

    Args:
        logits: Float32 (B, tokens), all finite.
        draws: B draws.
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
        prompt: turns, of which the last is answered, or a text to continue.
        sampling: the choice of tokens.
        stops: strings that end the text, and are left out.
    """

    prompt: tuple[Turn, ...] | str
    sampling: Sampling = field(default_factory=Sampling)
    stops: tuple[str, ...] = ()


class Finish(Enum):
    """The reason for a text's end.

    The model or a stop string ended it, there was no room, or the upstream server withheld the
    rest.
    """

    STOP = auto()
    LENGTH = auto()
    CONTENT_FILTER = auto()


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a text: its reason, and the model's token counts, 0 if unknown."""

    finish: Finish
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole characters of a text; the last piece also holds the end and may have none."""

    text: str
    done: Done | None = None


class Pieces(Protocol):
    """A text in pieces, as the model writes it; for one reader."""

    def __iter__(self) -> Iterator[Piece]: ...

    def cancel(self) -> None:
        """End the work on behalf of the reader; callable from any thread, at any time."""


_BROKEN: Final = "\ufffd"
"""A tokenizer's output for bytes that are no character, or not yet."""

_CONTEXT, _LONG, _LONGEST = 6, 24, 96
"""Tokens that are decoded again with every new one, because neighbours affect spelling.

At least the first number; above the second, fewer if all characters are whole; above the third,
fewer in any case."""

_BYTES: Final = 4
"""Bytes of the longest character: among that many successive tokens, one begins a character."""


class Characters:
    """Yields whole characters of an answer, as its tokens arrive."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._shown = 0
        """Number of characters of these ids that were returned."""

    def add(self, token: int) -> str:
        """Add ``token``, and return the text that may be shown; often empty."""
        self._ids.append(token)
        text = self._text(self._ids)
        ready = text.rstrip(_BROKEN)  # an incomplete character shows as broken, at the end
        found = ready[self._shown :]
        self._shown = max(self._shown, len(ready))
        if len(self._ids) > _LONG:
            self._shorten()
        return found

    def _shorten(self) -> None:
        """Drop settled tokens, up to the beginning of a character."""
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
