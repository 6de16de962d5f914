"""Turns token embeddings into a sentence embedding with any backbone: the cloud's half of SnD.

Why it is here: in Split-and-Denoise (section 3.2) the device holds the token representation layer
and the cloud the rest, so the backbone is driven from input embeddings. Encoders, the encoder of an
encoder-decoder and decoders are driven alike: the tokenizer's special tokens around the text (they
are the same for everyone and carry no noise), hidden states averaged over all of it, scaled to
length 1. For the default backbone that is its own published sentence embedding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.cloud.models.classifier import encoder_of, pool
from sottovoce.core.errors import InvalidInput

__all__ = ["Encoder", "special_tokens"]

LONGEST: Final = 512
"""Tokens a text may have, special ones included, where the backbone itself allows more."""


class Encoder:
    """Sentence embeddings over one backbone; not safe to share between threads.

    Args:
        backbone: as loaded; its model moves to ``device``.
        device: where to compute.
    """

    def __init__(self, backbone: LoadedBackbone, device: torch.device | str = "cpu") -> None:
        self._tokenizer = backbone.tokenizer
        self._model = encoder_of(backbone.model).to(device)
        self.device = torch.device(device)
        self._table = self._model.get_input_embeddings()
        self.width = backbone.hidden_size
        self._before, self._after = special_tokens(self._tokenizer)
        positions = getattr(self._model.config, "max_position_embeddings", None) or LONGEST
        self.max_tokens = min(positions, LONGEST) - len(self._before) - len(self._after)
        """Tokens a text may have, special ones not counted."""

    @torch.no_grad()
    def encode(self, inputs: Sequence[Tensor]) -> Tensor:
        """Sentence embeddings from token embeddings, in one forward pass.

        Args:
            inputs: Float (n_i, width) each, n_i of at least 1 and at most ``max_tokens``.

        Returns:
            Float (batch, width) on the CPU, rows of length 1.

        Raises:
            InvalidInput: a text of no tokens, too many, or of another width.
        """
        for text in inputs:
            if text.ndim != 2 or text.shape[1] != self.width:
                raise InvalidInput(
                    "the token embeddings have the wrong shape",
                    fix=f"send rows of {self.width} numbers",
                    subject="embeddings",
                )
            self._check_length(len(text))
        before, after = (
            self._table(torch.tensor(ids, dtype=torch.int64, device=self.device))
            for ids in (self._before, self._after)
        )
        rows = [torch.cat([before, text.to(before), after]) for text in inputs]
        return self._pooled(rows)

    @torch.no_grad()
    def encode_clean(self, texts: Sequence[str], *, batch: int = 32) -> Tensor:
        """Embeddings of texts as they stand, cut at ``max_tokens``: Float (texts, width)."""
        ids = self._tokenizer(list(texts), add_special_tokens=False)["input_ids"]
        cut = [row[: self.max_tokens] for row in ids]
        found = torch.empty(len(cut), self.width)
        by_length = sorted(range(len(cut)), key=lambda place: len(cut[place]))
        for start in range(0, len(by_length), batch):
            places = by_length[start : start + batch]
            rows = [
                self._table(
                    torch.tensor([*self._before, *cut[place], *self._after], device=self.device)
                )
                for place in places
            ]
            found[places] = self._pooled(rows)
        return found

    def token_embeddings(self, ids: Sequence[int]) -> Tensor:
        """The clean inputs of a text of token ``ids``: Float (n, width)."""
        with torch.no_grad():
            table: Tensor = self._table(torch.tensor(list(ids), device=self.device))
        return table

    def _pooled(self, rows: Sequence[Tensor]) -> Tensor:
        lengths = torch.tensor([len(row) for row in rows], device=self.device)
        inputs = torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True)  # (B, n, h)
        mask = torch.arange(inputs.shape[1], device=self.device) < lengths[:, None]
        states = self._model(inputs_embeds=inputs, attention_mask=mask.long()).last_hidden_state
        return F.normalize(pool(states.float(), mask.float()), dim=1).cpu()

    def _check_length(self, n: int) -> None:
        if not 1 <= n <= self.max_tokens:
            raise InvalidInput(
                f"the text has {n} tokens, this backbone takes 1 to {self.max_tokens}",
                fix="send a text in parts",
                subject="embeddings",
            )


def special_tokens(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Ids of the tokens that ``tokenizer`` puts before and after every text."""
    bare, whole = (
        tokenizer("a", add_special_tokens=special)["input_ids"] for special in (False, True)
    )
    start = next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)
    return whole[:start], whole[start + len(bare) :]
