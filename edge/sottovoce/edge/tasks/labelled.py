"""What tells one labelled example from another, without telling what it is.

Why it is here: labels are charged by example, not by how often an example is sent, and a near copy
is the same example.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from sottovoce.core.text.words import iter_words
from sottovoce.edge.state.sealing import Seal

__all__ = ["choice", "label_charge", "labelled"]


def labelled(seal: Seal, text: str, label: str) -> bytes:
    """An example with its label."""
    return seal.name(b"labelled", _words(text), label.encode())


def choice(seal: Seal, labels: Iterable[str]) -> bytes:
    """The labels that an example's was one of."""
    return seal.name(b"labels", *(label.encode() for label in labels))


def label_charge(seal: Seal, example: bytes, among: bytes) -> bytes:
    """What the ledger knows an example's label by; both as the functions above give them."""
    return seal.name(b"label charged", example, among)


def _words(text: str) -> bytes:
    """A hash of what near copies share: the words, in small letters; marks and signs are none."""
    held = hashlib.sha256()
    for word in iter_words(text):
        if any(map(str.isalnum, word.text)):
            held.update(word.text.lower().encode() + b" ")
    return held.digest()
