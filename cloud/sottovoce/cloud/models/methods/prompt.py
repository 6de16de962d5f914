"""Prompt tuning: learned embeddings of virtual tokens before the text (Lester et al.)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import Tensor

from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models.methods.interface import AdaptedEncoder, Method
from sottovoce.cloud.models.rows import Row, draw_prefix, draw_prompt, misfit, prefix_width

__all__ = ["Prefix", "Prompt"]

_NAME = "prompt_embeddings"


@dataclass(frozen=True, slots=True)
class Prompt(Method):
    """Length of the prompt."""

    learning_rate: ClassVar[float] = 1e-2

    tokens: int = 20

    @classmethod
    def from_options(cls, options: TrainingOptions) -> Self:
        """The length asked for."""
        return cls(options.virtual_tokens) if options.virtual_tokens else cls()

    @property
    def virtual_tokens(self) -> int:
        """All of the prompt."""
        return self.tokens

    @property
    def front(self) -> int:
        """All of the prompt."""
        return self.tokens

    def build(self, encoder: Any) -> AdaptedEncoder:
        """Beside the encoder, from the embeddings of random tokens on."""
        return AdaptedEncoder(self, encoder, {_NAME: draw_prompt(encoder, self.tokens)})

    def row(self, encoder: Any, tensors: Mapping[str, Tensor]) -> Row:
        """Float (tokens, h)."""
        found = tensors.get(_NAME)
        if found is None or found.shape != (self.tokens, encoder.config.hidden_size):
            raise misfit()
        return Row(prompt=found)

    def tensors(self, row: Row) -> dict[str, Tensor]:
        """See `Method.tensors`."""
        return {_NAME: row.numbers}


"""PEFT's name for it."""


@dataclass(frozen=True, slots=True)
class Prefix(Method):
    """Length of the prefix."""

    learning_rate: ClassVar[float] = 1e-2

    tokens: int = 10

    @classmethod
    def from_options(cls, options: TrainingOptions) -> Self:
        """The length asked for."""
        return cls(options.virtual_tokens) if options.virtual_tokens else cls()

    @property
    def virtual_tokens(self) -> int:
        """All of the prefix, which beside the text takes no positions."""
        return self.tokens

    def build(self, encoder: Any) -> AdaptedEncoder:
        """Beside the encoder, from the keys and values of random tokens on."""
        return AdaptedEncoder(self, encoder, {_NAME: draw_prefix(encoder, self.tokens)})

    def row(self, encoder: Any, tensors: Mapping[str, Tensor]) -> Row:
        """Float (tokens, `prefix_width`)."""
        found = tensors.get(_NAME)
        if found is None or found.shape != (self.tokens, prefix_width(encoder.config)):
            raise misfit()
        return Row(prefix=found)

    def tensors(self, row: Row) -> dict[str, Tensor]:
        """See `Method.tensors`."""
        return {_NAME: row.numbers}
