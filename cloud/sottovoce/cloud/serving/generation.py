"""What is asked of whatever writes, and what it answers, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from sottovoce.cloud.models.chat import Turn
from sottovoce.cloud.serving.sampling import Sampling

__all__ = ["Asked", "Done", "Finish", "Piece", "Pieces"]


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
