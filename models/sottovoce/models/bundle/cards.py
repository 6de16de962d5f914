"""The cards of the models that a bundle is made from: whose texts they learnt, and the licence.

Why it is here: some of the texts ask that their authors be named and the licence kept wherever what
was made of them goes, and a bundle goes to every device.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from sottovoce.core.bundle.folder import CARDS

__all__ = ["add"]

_CARD = "README.md"


def add(models: Path, parts: Iterable[str], folder: Path) -> None:
    """Copies the cards of the parts that have one.

    Args:
        models: the models folder.
        parts: of it that went into the bundle.
        folder: the bundle's.
    """
    (folder / CARDS).mkdir()
    for part in parts:
        card = models / part / _CARD
        if card.is_file():
            shutil.copyfile(card, folder / CARDS / f"{part}.md")
