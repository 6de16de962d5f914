"""Scores the words of the labels with a decoder's own output weights, in place of a trained head.

Why it is here: a decoder already knows what follows "Answer:"; with few examples that is worth more
than a head from nothing (RAPT v2 section V-A uses it for Qwen2.5). After the text comes a cue; the
state of the cue's last token is compared with the output embedding of each label's first token
(what all labels begin with becomes part of the cue).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import Any, Final

import torch
from safetensors import safe_open
from torch import Tensor
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.core.errors import InvalidInput

__all__ = ["CUE", "LabelWords", "check"]

CUE: Final = "\nAnswer:"
_OUTPUT: Final = "lm_head.weight"


@dataclass(frozen=True, slots=True)
class LabelWords:
    """Token ids: of the cue, and for every label of its word."""

    cue: tuple[int, ...]
    words: tuple[int, ...]

    @classmethod
    def of(cls, backbone: LoadedBackbone, labels: Sequence[str]) -> LabelWords:
        """The words for ``labels``: the first token in which each, after a space, is itself.

        Raises:
            InvalidInput: see `check`, or two labels begin with the same token.
        """
        check(backbone)

        def ids(text: str) -> list[int]:
            return list(backbone.tokenizer(text, add_special_tokens=False)["input_ids"])

        spelt = [ids(f" {label}") for label in labels]
        alike = takewhile(lambda column: len(set(column)) == 1, zip(*spelt, strict=False))
        shared = sum(1 for _ in alike)
        words = tuple(row[shared] for row in spelt if len(row) > shared)
        if len(set(words)) < len(labels):
            raise InvalidInput(
                "labels are told apart by their first token, and two have the same",
                fix="rename a label, or train a classification head: leave label words off",
                subject="training.label_words",
            )
        return cls((*ids(CUE), *spelt[0][:shared]), words)

    def weight(self, backbone: LoadedBackbone) -> Tensor:
        """The words' output embeddings: Float (labels, h)."""
        for file in sorted(backbone.folder.glob("*.safetensors")):
            with safe_open(file, framework="pt") as opened:
                if _OUTPUT in opened.keys():  # noqa: SIM118 - no mapping
                    rows = opened.get_slice(_OUTPUT)
                    return torch.cat([rows[i : i + 1] for i in self.words]).float()
        # Without one of its own the model is tied: words come out as they went in.
        table: Tensor = backbone.model.get_input_embeddings().weight.detach()
        return table[list(self.words)].float().cpu()

    def described(self) -> dict[str, Any]:
        """As an adapter's description holds it."""
        return asdict(self)

    @classmethod
    def read(cls, facts: dict[str, Any]) -> LabelWords:
        """The reverse of `described`."""
        return cls(tuple(facts["cue"]), tuple(facts["words"]))


def check(backbone: LoadedBackbone) -> None:
    """Refuses a backbone that says no words.

    Raises:
        InvalidInput: it is no decoder.
    """
    config = backbone.model.config
    if config.is_encoder_decoder or config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        raise InvalidInput(
            "label words need a decoder (Qwen2.5, Llama, Mistral)",
            fix="train a classification head: leave label words off",
            subject="training.label_words",
        )
