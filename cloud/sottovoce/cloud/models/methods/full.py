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
    """Nothing to choose."""

    learning_rate: ClassVar[float] = 5e-5

    @classmethod
    def from_options(cls, options: TrainingOptions) -> Self:
        """Nothing was chosen."""
        return cls()

    def build(self, encoder: Any) -> AdaptedEncoder:
        """The encoder itself."""
        return AdaptedEncoder(self, encoder.requires_grad_(True))

    def row(self, encoder: Any, tensors: Mapping[str, Tensor]) -> Row:
        """A backbone's weights by their names."""
        wanted = {name: p.shape for name, p in encoder.named_parameters()}
        if {name: t.shape for name, t in tensors.items()} != wanted:
            raise misfit()
        return Row(weights=tensors)
