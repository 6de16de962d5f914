"""Text to measure with: the helpdesk messages of the example, which anyone may use."""

from __future__ import annotations

from pathlib import Path
from typing import Final

MESSAGES: Final = Path(__file__).parents[2] / "examples" / "helpdesk" / "train.tsv"


def document(words: int, start: int = 0) -> str:
    """Real messages from word ``start`` on, repeated to the length asked for."""
    lines = MESSAGES.read_text(encoding="utf-8").splitlines()[1:]
    running = " ".join(line.split("\t")[0] for line in lines).split()[start:]
    return " ".join((running * (words // len(running) + 1))[:words])
