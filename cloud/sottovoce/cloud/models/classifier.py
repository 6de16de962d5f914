"""Models in training: a backbone, the method's additions, and heads.

Backbones of every family (encoder, decoder, encoder-decoder) run in the same way: the hidden
states of the text's sub-tokens are averaged. For label words, the average is over the one token
after the text.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.cloud.models.batches import Batch
from sottovoce.cloud.models.methods import Method


class ReconstructionHead(nn.Module):
    """Two linear layers that name the plain token at a position; dropped after training.

    RAPT v2, eq. 5-6: p(k) = softmax(h W2^T W1^T), W2 (c, h), W1 (T, c); c is ``width``, T the
    number of plain tokens that the job knows.
    """

    def __init__(self, hidden: int, vocabulary: int, width: int = 96) -> None:
        super().__init__()
        self.w2 = nn.Linear(hidden, width, bias=False)
        self.w1 = nn.Linear(width, vocabulary, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return logits (positions, T) for states (positions, h)."""
        return self.w1(self.w2(hidden))  # type: ignore[no-any-return]


class AdaptedModel(nn.Module):
    """A frozen stack of blocks with the additions of a method and of training.

    Args:
        encoder: is changed, because the method is built into it.
        vocabulary: plain tokens that the reconstruction head can name; 0 for no head.
        width: of the reconstruction head.

    Attributes:
        task: as in `TrainingOptions`.
    """

    task: ClassVar[str]

    def __init__(self, encoder: Any, method: Method, vocabulary: int = 0, width: int = 96) -> None:
        super().__init__()
        hidden = encoder.config.hidden_size
        self.adapted = method.build(encoder.requires_grad_(False))
        self.reconstruction = ReconstructionHead(hidden, vocabulary, width) if vocabulary else None

    @property
    def method(self) -> Method:
        """The training method, apart from the heads."""
        return self.adapted.method

    @property
    def encoder(self) -> Any:
        """The backbone's encoder, including the parts that the method put inside."""
        return self.adapted.encoder

    def head_tensors(self) -> dict[str, Tensor]:
        """Return the tensors to keep beside the method's: none without a head for the task."""
        return {}

    def trained(self) -> dict[str, Tensor]:
        """Return the parameters that training changes, by name."""
        return {name: p for name, p in self.named_parameters() if p.requires_grad}

    @torch.no_grad()
    def restore(self, state: dict[str, Tensor]) -> None:
        trained = self.trained()
        for name, value in state.items():
            trained[name].copy_(value)


def encoder_of(model: Any) -> Any:
    """Return the part that reads text: the encoder of an encoder-decoder, or the model."""
    return model.get_encoder() if model.config.is_encoder_decoder else model


def pool(hidden: Tensor, text: Tensor) -> Tensor:
    """Return the mean over the text's sub-tokens: (B, n, h), (B, n) -> (B, h)."""
    return (hidden * text.unsqueeze(-1)).sum(1) / text.sum(1, keepdim=True)


class TextClassifier(AdaptedModel):
    """A backbone with the additions of training.

    Args:
        backbone: freshly loaded; is changed, because the method is built into its model.
        labels: number of classes.
        vocabulary, width: see `AdaptedModel`.
        words: output embeddings of the label words, Float (labels, h), which replace a trained
            head.
    """

    task: ClassVar[str] = "classification"

    def __init__(
        self,
        backbone: LoadedBackbone,
        method: Method,
        labels: int,
        *,
        vocabulary: int = 0,
        width: int = 96,
        words: Tensor | None = None,
    ) -> None:
        super().__init__(encoder_of(backbone.model), method, vocabulary, width)
        hidden = backbone.hidden_size
        self.head = nn.Linear(hidden, labels, bias=words is None)
        if words is not None:
            self.head.weight = nn.Parameter(words, requires_grad=False)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return class logits (B, C), and (plain tokens, T) logits if there are any."""
        hidden = self.states(batch)  # (B, n, h)
        logits = self.head(pool(hidden, batch.text))  # (B, C)
        plain = batch.plain >= 0  # (B, n)
        if self.reconstruction is None or not bool(plain.any()):
            return logits, None
        return logits, self.reconstruction(hidden[plain])  # (plain tokens, T)

    def states(self, batch: Batch) -> Tensor:
        """Return the last hidden states (B, n, h) in float32."""
        return self.adapted(batch.ids, batch.attention).float()  # type: ignore[no-any-return]

    def head_tensors(self) -> dict[str, Tensor]:
        """Return the head's tensors; none if label words replace it."""
        if self.head.bias is None:
            return {}
        return {"weight": self.head.weight, "bias": self.head.bias}
