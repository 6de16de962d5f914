"""The head alone: a linear classifier over the frozen backbone's states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import Tensor

from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models.methods.interface import AdaptedEncoder, Method
from sottovoce.cloud.models.rows import Row, misfit

__all__ = ["Head"]


@dataclass(frozen=True, slots=True)
class Head(Method):
    """The linear head alone; it has no settings."""

    learning_rate: ClassVar[float] = 1e-3
    head_alone: ClassVar[bool] = True

    @classmethod
    def from_options(cls, options: TrainingOptions) -> Self:
        """Return the method; it has no options."""
        return cls()

    def build(self, encoder: Any) -> AdaptedEncoder:
        """Return the encoder unchanged."""
        return AdaptedEncoder(self, encoder)

    def row(self, encoder: Any, tensors: Mapping[str, Tensor]) -> Row:
        """Return an empty row."""
        if tensors:
            raise misfit()
        return Row()
