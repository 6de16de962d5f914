"""Prompt tuning (Lester et al.) and prefix tuning (Li and Liang): learned virtual tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import Tensor

from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models.methods.interface import AdaptedEncoder, Method
from sottovoce.cloud.models.rows import Row, draw_prefix, draw_prompt, misfit, prefix_width

_NAME = "prompt_embeddings"
"""PEFT's name for the parameter."""


@dataclass(frozen=True, slots=True)
class _VirtualTokens(Method):
    """Learned numbers of virtual tokens before the text; one tensor."""

    learning_rate: ClassVar[float] = 1e-2

    tokens: int = 20

    @classmethod
    def from_options(cls, options: TrainingOptions) -> Self:
        """Return the method with the requested length."""
        return cls(options.virtual_tokens) if options.virtual_tokens else cls()

    @property
    def virtual_tokens(self) -> int:
        return self.tokens

    def tensors(self, row: Row) -> dict[str, Tensor]:
        return {_NAME: row.numbers}


@dataclass(frozen=True, slots=True)
class Prompt(_VirtualTokens):
    """Prompt tuning: learned embeddings of virtual tokens before the text."""

    @property
    def front(self) -> int:
        return self.tokens

    def build(self, encoder: Any) -> AdaptedEncoder:
        """Put the prompt beside the encoder, starting from embeddings of random tokens."""
        return AdaptedEncoder(self, encoder, {_NAME: draw_prompt(encoder, self.tokens)})

    def row(self, encoder: Any, tensors: Mapping[str, Tensor]) -> Row:
        """Return a row of Float (tokens, h)."""
        found = tensors.get(_NAME)
        if found is None or found.shape != (self.tokens, encoder.config.hidden_size):
            raise misfit()
        return Row(prompt=found)


@dataclass(frozen=True, slots=True)
class Prefix(_VirtualTokens):
    """Prefix tuning: learned keys and values before the text, in every attention layer.

    The virtual tokens take no positions beside the text.
    """

    tokens: int = 10

    def build(self, encoder: Any) -> AdaptedEncoder:
        """Put the prefix beside the encoder, starting from keys and values of random tokens."""
        return AdaptedEncoder(self, encoder, {_NAME: draw_prefix(encoder, self.tokens)})

    def row(self, encoder: Any, tensors: Mapping[str, Tensor]) -> Row:
        """Return a row of Float (tokens, `prefix_width`)."""
        found = tensors.get(_NAME)
        if found is None or found.shape != (self.tokens, prefix_width(encoder.config)):
            raise misfit()
        return Row(prefix=found)
