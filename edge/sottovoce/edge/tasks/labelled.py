"""Identify labelled examples without revealing them.

Labels are charged once for each example, even if the example is sent again. A near copy counts as
the same example.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from sottovoce.core.text.words import iter_words
from sottovoce.edge.state.sealing import Seal

__all__ = ["choice", "label_charge", "labelled"]


def labelled(seal: Seal, text: str, label: str) -> bytes:
    """Return the identifier of an example with its label."""
    return seal.name(b"labelled", _words(text), label.encode())


def choice(seal: Seal, labels: Iterable[str]) -> bytes:
    """Return the identifier of the set of labels that an example could have had."""
    return seal.name(b"labels", *(label.encode() for label in labels))


def label_charge(seal: Seal, example: bytes, among: bytes) -> bytes:
    """Return the ledger's key for an example's label.

    Both arguments come from the functions above.
    """
    return seal.name(b"label charged", example, among)


def _words(text: str) -> bytes:
    """Return a hash that near copies share: lower-case words without punctuation."""
    held = hashlib.sha256()
    for word in iter_words(text):
        if any(map(str.isalnum, word.text)):
            held.update(word.text.lower().encode() + b" ")
    return held.digest()
