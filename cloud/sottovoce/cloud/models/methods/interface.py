"""The interface of a PEFT method, and the two methods without settings: full and head.

Trainer, files, checks and server know a method by this interface and by its name in the registry.
A new method is a module that implements the interface, and a line in `METHODS`.

    options --from_options--> method --build--> AdaptedEncoder --tensors--> files
    files --from_dict--> method --row--> a `Row` that joins a pass with any others
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models.rows import Row, misfit, run


@dataclass(frozen=True, slots=True)
class Method(ABC):
    """The trained part of a backbone (RAPT, section III-B1); the fields are its settings.

    Attributes:
        learning_rate: the default.
        head_alone: whether only the linear head is trained.
    """

    learning_rate: ClassVar[float]
    head_alone: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def from_options(cls, options: TrainingOptions) -> Self:
        """Return the method of a tenant's options; zeros take the fields' defaults."""

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """Return the method from the JSON form of `to_dict`; TypeError for other facts."""
        return cls(**facts)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings in the JSON form of an adapter's description."""
        return asdict(self)

    def check_available(self) -> None:  # noqa: B027 - most methods run anywhere
        """Raise `NotReady`, with an alternative, if this machine cannot run the method."""

    @property
    def quantized(self) -> bool:
        """Whether the backbone is loaded in 4 bits."""
        return False

    @property
    def virtual_tokens(self) -> int:
        """Number of virtual tokens; they start from real tokens, which need positions."""
        return 0

    @property
    def front(self) -> int:
        """Positions before every text."""
        return 0

    @abstractmethod
    def build(self, encoder: Any) -> AdaptedEncoder:
        """Build the method into an untrained encoder, which is changed."""

    @abstractmethod
    def row(self, encoder: Any, tensors: Mapping[str, Tensor]) -> Row:
        """Return the tensors of `AdaptedEncoder.tensors` as a row for passes of ``encoder``.

        All checks happen here, because a misfit must not fail a pass with other tenants' rows.

        Args:
            encoder: without any method built in.
            tensors: by their names in files.

        Raises:
            SottovoceError: the shapes do not fit this method and encoder, see `misfit`.
        """

    def tensors(self, row: Row) -> dict[str, Tensor]:
        """Return the tensors of a row: the reverse of `row`, if the row is one tensor."""
        raise ValueError("this method's row is not one tensor")


class AdaptedEncoder(nn.Module):
    """An encoder with a method built in, for training.

    Args:
        encoder: only its trained parameters require gradients.
        beside: parameters trained beside the encoder, by their names in files. They join every
            pass as a row, as in serving.
    """

    def __init__(
        self, method: Method, encoder: Any, beside: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__()
        self.method = method
        self.encoder = encoder
        self.beside = nn.ParameterDict(beside)

    def forward(self, inputs: Tensor, attention: Tensor) -> Tensor:
        """Return the last hidden states, see `rows.run`: (B, n) or (B, n, h) -> (B, n, h)."""
        beside = dict(self.beside.items())
        row = self.method.row(self.encoder, beside) if beside else Row()
        return run(self.encoder, inputs, attention, [row] * len(inputs))

    def tensors(self) -> dict[str, Tensor]:
        """Return all trained tensors by their names in files: those beside, or the encoder's."""
        inside = {name: p for name, p in self.encoder.named_parameters() if p.requires_grad}
        return {**inside, **self.beside}


@dataclass(frozen=True, slots=True)
class Full(Method):
    """Full fine-tuning: every weight of the backbone. It has no settings."""

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


@dataclass(frozen=True, slots=True)
class Head(Method):
    """The head alone: a linear classifier over the frozen backbone. It has no settings."""

    learning_rate: ClassVar[float] = 1e-3
    head_alone: ClassVar[bool] = True

    @classmethod
    def from_options(cls, options: TrainingOptions) -> Self:
        """Return the method; it has no options."""
        return cls()

    def build(self, encoder: Any) -> AdaptedEncoder:
        return AdaptedEncoder(self, encoder)

    def row(self, encoder: Any, tensors: Mapping[str, Tensor]) -> Row:
        if tensors:
            raise misfit()
        return Row()
