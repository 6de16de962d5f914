"""A stand-in for the backbone on a device, and adapters for it: for tests of what happens around.

A text is pooled to the shares of its words by a hash of each; an adapter that counted words by
label the same way tells labels apart. No graph, no tokenizer, any bundle.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.adapter import LocalAdapter
from sottovoce.core.bundle.encoder import Additions, Shape
from sottovoce.core.bundle.folder import Bundle

WIDTH = 64


def shape(backbone_sha256: str) -> Shape:
    """Of the stand-in over a backbone with these weights."""
    return Shape(backbone_sha256, WIDTH, 100, 512, 256, (), (), (), 2 * WIDTH)


class PlainEncoder:
    """The stand-in. Notes every text it is asked about."""

    def __init__(self, bundle: Bundle) -> None:
        self.shape = shape(bundle.manifest.backbone.sha256)
        self.asked: list[str] = []

    def pooled(self, text: str, additions: Additions) -> NDArray[np.float32]:
        self.asked.append(text)
        return _counts([text])


def counted(examples: Iterable[tuple[str, str]], backbone_sha256: str) -> LocalAdapter:
    """An adapter that counted the words of (text, label) pairs."""
    pairs = list(examples)
    labels = tuple(sorted({label for _, label in pairs}))
    texts = {label: [text for text, of in pairs if of == label] for label in labels}
    return LocalAdapter(
        labels=labels,
        backbone_sha256=backbone_sha256,
        layers=(),
        additions=Additions.none(shape(backbone_sha256)),
        weight=np.stack([10 * _counts(texts[label]) for label in labels]),
        bias=np.zeros(len(labels), np.float32),
    )


def _counts(texts: Iterable[str]) -> NDArray[np.float32]:
    places = [zlib.crc32(word.encode()) % WIDTH for text in texts for word in text.lower().split()]
    found: NDArray[np.float32] = np.bincount(places, minlength=WIDTH).astype(np.float32)
    return found / max(len(places), 1)
