"""What a PEFT method is, to everybody who handles one.

Why it is here: trainer, files, checks and server know a method by this interface and by its name in
the registry. A new one is a module that implements it, and a line in `registry.METHODS`.

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
from sottovoce.cloud.models.rows import Row, run

__all__ = ["AdaptedEncoder", "Method"]


@dataclass(frozen=True, slots=True)
class Method(ABC):
    """What is trained of a backbone (RAPT, section III-B1); its fields are what can be chosen.

    Attributes:
        learning_rate: where the tenant gives none.
        head_alone: whether nothing but the linear head is trained.
    """

    learning_rate: ClassVar[float]
    head_alone: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def from_options(cls, options: TrainingOptions) -> Self:
        """What a tenant chose; zeros take the defaults of the fields."""

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """The reverse of `to_dict`, also for what earlier versions wrote.

        Raises:
            TypeError: ``facts`` are of something else.
        """
        return cls(**facts)

    def to_dict(self) -> dict[str, Any]:
        """Its choices, as an adapter's description holds them."""
        return asdict(self)

    def check_available(self) -> None:  # noqa: B027 - most methods run anywhere
        """Refuses what this machine cannot run.

        Raises:
            NotReady: with what would do instead.
        """

    @property
    def quantized(self) -> bool:
        """Whether the backbone is to be loaded in 4 bits."""
        return False

    @property
    def virtual_tokens(self) -> int:
        """Tokens nobody wrote; it begins as the states of as many, so there must be positions."""
        return 0

    @property
    def front(self) -> int:
        """Positions it takes before every text."""
        return 0

    @abstractmethod
    def build(self, encoder: Any) -> AdaptedEncoder:
        """Makes it part of an encoder, of which nothing is trained yet; the encoder is spent."""

    @abstractmethod
    def row(self, encoder: Any, tensors: Mapping[str, Tensor]) -> Row:
        """What `AdaptedEncoder.tensors` gave, as it joins passes of ``encoder``.

        Everything is checked here: what does not fit must not fail in a pass with others' rows.

        Args:
            encoder: nothing is built into it.
            tensors: by the names files use.

        Raises:
            SottovoceError: they are not of this method's and this encoder's shapes, see `misfit`.
        """

    def tensors(self, row: Row) -> dict[str, Tensor]:
        """The reverse of `row`, for methods whose row is one tensor.

        Raises:
            ValueError: this method's is not.
        """
        raise ValueError("this method's row is not one tensor")


class AdaptedEncoder(nn.Module):
    """An encoder with a method built in, as it is trained.

    Args:
        method: which one.
        encoder: what it trains inside of it requires gradients, and nothing else does.
        beside: what it trains beside it, by the names files use. It joins every pass as a row, the
            way it will when it is served.
    """

    def __init__(
        self, method: Method, encoder: Any, beside: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__()
        self.method = method
        self.encoder = encoder
        self.beside = nn.ParameterDict(beside)

    def forward(self, inputs: Tensor, attention: Tensor) -> Tensor:
        """Last hidden states of the texts, see `rows.run`: (B, n) or (B, n, h) -> (B, n, h)."""
        beside = dict(self.beside.items())
        row = self.method.row(self.encoder, beside) if beside else Row()
        return run(self.encoder, inputs, attention, [row] * len(inputs))

    def tensors(self) -> dict[str, Tensor]:
        """All that is trained, by the names files use: its own, or else the encoder's."""
        inside = {name: p for name, p in self.encoder.named_parameters() if p.requires_grad}
        return {**inside, **self.beside}
