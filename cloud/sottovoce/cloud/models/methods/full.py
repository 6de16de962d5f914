"""Full fine-tuning: every weight of the backbone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import Tensor

from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models.methods.interface import AdaptedEncoder, Method
from sottovoce.cloud.models.rows import Row, misfit

__all__ = ["Full"]


@dataclass(frozen=True, slots=True)
class Full(Method):
    """Full fine-tuning; it has no settings."""

    learning_rate: ClassVar[float] = 5e-5

    @classmethod
    def from_options(cls, options: TrainingOptions) -> Self:
        """Return the method; it has no options."""
        return cls()

    def build(self, encoder: Any) -> AdaptedEncoder:
        """Return the encoder with all weights trained."""
        return AdaptedEncoder(self, encoder.requires_grad_(True))

    def row(self, encoder: Any, tensors: Mapping[str, Tensor]) -> Row:
        """Return a row with the backbone's weights by their names."""
        wanted = {name: p.shape for name, p in encoder.named_parameters()}
        if {name: t.shape for name, t in tensors.items()} != wanted:
            raise misfit()
        return Row(weights=tensors)
