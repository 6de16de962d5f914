"""Score label words with a decoder's output weights, instead of a trained head.

A decoder already knows the likely words after "Answer:". With few examples, this beats a head
without pre-training (RAPT v2 section V-A uses it for Qwen2.5). A cue follows the text. The state of
the cue's last token is compared with the output embedding of each label's first token. A common
beginning of all labels becomes part of the cue.
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

CUE: Final = "\nAnswer:"
_OUTPUT: Final = "lm_head.weight"


@dataclass(frozen=True, slots=True)
class LabelWords:
    """Token ids: of the cue, and of each label's word."""

    cue: tuple[int, ...]
    words: tuple[int, ...]

    @classmethod
    def of(cls, backbone: LoadedBackbone, labels: Sequence[str]) -> LabelWords:
        """Return each label's first token after the common beginning of all labels.

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
        """Return the words' output embeddings: Float (labels, h)."""
        for file in sorted(backbone.folder.glob("*.safetensors")):
            with safe_open(file, framework="pt") as opened:
                if _OUTPUT in opened.keys():  # noqa: SIM118 - no mapping
                    rows = opened.get_slice(_OUTPUT)
                    return torch.cat([rows[i : i + 1] for i in self.words]).float()
        # A model without output weights is tied: the input embeddings are its output weights.
        table: Tensor = backbone.model.get_input_embeddings().weight.detach()
        return table[list(self.words)].float().cpu()

    def described(self) -> dict[str, Any]:
        """Return the JSON form for an adapter's description."""
        return asdict(self)

    @classmethod
    def read(cls, facts: dict[str, Any]) -> LabelWords:
        """Return the words from the JSON form of `described`."""
        return cls(tuple(facts["cue"]), tuple(facts["words"]))


def check(backbone: LoadedBackbone) -> None:
    """Refuse a backbone that is no decoder.

    Raises:
        InvalidInput: the backbone is no decoder.
    """
    config = backbone.model.config
    if config.is_encoder_decoder or config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        raise InvalidInput(
            "label words need a decoder (Qwen2.5, Llama, Mistral)",
            fix="train a classification head: leave label words off",
            subject="training.label_words",
        )
