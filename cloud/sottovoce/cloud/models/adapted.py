"""A model in training, whatever its task: a backbone with a method built in, and a head that names
plain tokens.

Why it is here: what is trained, how it is kept and how it is brought back are one question, and
reconstruction is one head, for models that classify and for models that write.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sottovoce.cloud.models.methods import Method

__all__ = ["AdaptedModel", "ReconstructionHead"]


class ReconstructionHead(nn.Module):
    """Two linear layers that name the plain token at a position.

    RAPT v2, eq. 5-6: p(k) = softmax(h W2^T W1^T), W2 (c, h), W1 (T, c); c is
    ``width``, T the number of plain tokens the job knows. Dropped after training.
    """

    def __init__(self, hidden: int, vocabulary: int, width: int = 96) -> None:
        super().__init__()
        self.w2 = nn.Linear(hidden, width, bias=False)
        self.w1 = nn.Linear(width, vocabulary, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """(positions, h) -> logits (positions, T)."""
        return self.w1(self.w2(hidden))  # type: ignore[no-any-return]


class AdaptedModel(nn.Module):
    """A frozen stack of blocks and what a method and training add to it.

    Args:
        encoder: the method is built into it, so it is spent.
        method: what is trained besides the heads.
        vocabulary: plain tokens the reconstruction head can name; 0 for no head.
        width: of the reconstruction head.

    Attributes:
        task: what it learns, as `TrainingOptions` calls it.
    """

    task: ClassVar[str]

    def __init__(self, encoder: Any, method: Method, vocabulary: int = 0, width: int = 96) -> None:
        super().__init__()
        hidden = encoder.config.hidden_size
        self.adapted = method.build(encoder.requires_grad_(False))
        self.reconstruction = ReconstructionHead(hidden, vocabulary, width) if vocabulary else None

    @property
    def method(self) -> Method:
        """What is trained besides the heads."""
        return self.adapted.method

    @property
    def encoder(self) -> Any:
        """The backbone's, with what the method put inside."""
        return self.adapted.encoder

    def head_tensors(self) -> dict[str, Tensor]:
        """What is kept beside the method's own: nothing, unless there is a head for the task."""
        return {}

    def trained(self) -> dict[str, Tensor]:
        """The parameters that training changes, by name."""
        return {name: p for name, p in self.named_parameters() if p.requires_grad}

    @torch.no_grad()
    def restore(self, state: dict[str, Tensor]) -> None:
        """Copies back what ``trained`` gave, all of it or a part."""
        trained = self.trained()
        for name, value in state.items():
            trained[name].copy_(value)
