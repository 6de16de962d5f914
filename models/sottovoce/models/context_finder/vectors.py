"""What a language model knows of single words, which the finder's features learn first.

The marked text is small. A language model has read far more, and places given names, towns, verbs
and terms apart. Nothing of it ships but what the hashed features keep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from sottovoce.cloud.models.backbone import LoadedBackbone, input_embeddings
from sottovoce.models.names_data import Lists, Marked

__all__ = ["MOST", "Vectors", "read_vectors"]

MOST: Final = 45_000
"""Words that vectors are read for."""
_LAYERS: Final = 3
"""Layers of the model that a word alone goes through."""
_WIDTH: Final = 64
"""Principal components of the input embeddings, and of the output of the layers."""
_LONGEST: Final = 30
_BATCH: Final = 256


@dataclass(frozen=True)
class Vectors:
    """Vectors of single words."""

    words: Sequence[str]
    """In small letters."""
    vectors: NDArray[np.float32]
    """Floats2d (n, width)."""


def read_vectors(
    backbone: LoadedBackbone,
    sentences: Iterable[Marked],
    lists: Lists,
    own: Iterable[str],
    most: int = MOST,
) -> Vectors:
    """Return vectors of the commonest words.

    Args:
        backbone: the language model.
        sentences: text whose words are counted.
        lists: names, which count too.
        own: texts of our own, which count too.
        most: the number of words.
    """
    count = Counter(word.text.lower() for sentence in sentences for word in sentence.words)
    vocabulary = (piece for piece in backbone.tokenizer.get_vocab() if piece.isalpha())
    count.update(dict.fromkeys(vocabulary, 3))
    for name in (*lists.first, *lists.last, *lists.cities):
        count.update(name.lower().split())
    for text in own:
        count.update(word.strip(".,:;!?()") for word in text.lower().split())
    words = [
        word
        for word, _ in sorted(count.items(), key=lambda each: (-each[1], each[0]))
        if len(word) < _LONGEST and any(map(str.isalpha, word))
    ][:most]
    ids: list[list[int]] = backbone.tokenizer(words)["input_ids"]
    table = input_embeddings(backbone)
    static = np.stack([table[each[1:-1]].mean(axis=0) for each in ids])
    both = [_components(static), _components(_outputs(backbone, ids))]
    return Vectors(words, np.concatenate(both, axis=1))


def _outputs(backbone: LoadedBackbone, ids: Sequence[Sequence[int]]) -> NDArray[np.float32]:
    found = np.zeros((len(ids), backbone.hidden_size), np.float32)
    order = sorted(range(len(ids)), key=lambda place: len(ids[place]))
    for start in range(0, len(order), _BATCH):
        chosen = order[start : start + _BATCH]
        inputs = torch.zeros(len(chosen), len(ids[chosen[-1]]), dtype=torch.long)
        for row, place in enumerate(chosen):
            inputs[row, : len(ids[place])] = torch.tensor(ids[place])
        mask = (inputs != 0).long()
        with torch.inference_mode():
            states = backbone.model(
                input_ids=inputs, attention_mask=mask, output_hidden_states=True
            ).hidden_states[_LAYERS]
        states = states * mask[..., None]
        found[chosen] = (states.sum(1) / mask.sum(1, keepdim=True)).numpy()
    return found


def _components(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the principal components, the first ones weighing more."""
    centred = rows - rows.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred / len(centred))
    found = centred @ directions[:, ::-1][:, :_WIDTH]
    found *= np.linspace(1.2, 0.5, _WIDTH) / found.std(axis=0)
    return np.asarray(found, np.float32)
