"""Who writes: our cloud's models, or any server that speaks as OpenAI's do.

Why it is here: both get the same message, whose every text is released, and answer with the same
pieces, so nothing else on the device knows which of them it was.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, Protocol

from sottovoce.core.errors import SottovoceError
from sottovoce.edge.client.cloud import Stoppable
from sottovoce.v1 import generation_pb2 as generation

__all__ = ["LARGEST_ANSWER", "Stoppable", "Writer", "check_size"]

LARGEST_ANSWER: Final = 1 << 20
"""Characters of an answer, calls of functions included. A model that is asked for 8,192 tokens
writes fewer."""


def check_size(characters: int) -> None:
    """Refuse an answer of more than `LARGEST_ANSWER` characters; checked while the answer arrives.

    Raises:
        SottovoceError: the answer has more.
    """
    if characters > LARGEST_ANSWER:
        raise SottovoceError(
            f"the answer has more than {LARGEST_ANSWER} characters", fix="ask for fewer tokens"
        )


class Writer(Protocol):
    """Answers released prompts."""

    @property
    def peer(self) -> str:
        """Who it is; what one was told another was not."""

    @property
    def calls_functions(self) -> bool:
        """Whether its models can ask for functions to be called."""

    def models(self) -> list[str]:
        """The names by which models can be asked for."""

    def has(self, model: str) -> bool:
        """Whether ``model`` is one of them, so that whoever answers learns nothing by its name."""

    def check(self, model: str) -> str:
        """Refuses what cannot be asked, and calls nobody.

        Args:
            model: as the app names it.

        Returns:
            The customisation that trained it on this device, empty where none did.
        """

    def write(
        self, model: str, request: generation.GenerateRequest, stoppable: Stoppable
    ) -> Generator[generation.GenerateResponse, None, None]:
        """The answer in pieces, the last of which says how it ended.

        Args:
            model: as the app names it.
            request: without an adapter.
            stoppable: is given what ends the answer from another thread.
        """
