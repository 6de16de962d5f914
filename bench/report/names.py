"""What things are called on the page.

Why it is here: pictures, tables and sentences should call one thing by one name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

__all__ = ["KINDS", "LEVELS", "UTILITIES", "number", "of", "signed", "words_of"]

LEVELS: Final = ("strong", "balanced", "light")
UTILITIES: Final = {"accuracy": "sentiment accuracy", "cosine": "embedding cosine"}
KINDS: Final = {"all": "all words", "rare": "rare words", "names": "names", "numbers": "numbers"}

_NAMES: Final = {
    "pct2t.v1": "ours, PCT2T",
    "t2t.v1": "ours, T2T",
    "token-embedding.v1": "ours, token embeddings",
    "pct2t.v1, full width": "full-width PCT2T",
    "t2t.v1, full width": "full-width T2T",
    "token-embedding, full width": "full-width token embeddings",
    "none": "no privacy",
}


def of(mechanism: str) -> str:
    """The name of a mechanism."""
    return _NAMES.get(mechanism, mechanism)


def words_of(names: Sequence[str]) -> str:
    """Names in a row.

    >>> words_of(["a"]), words_of(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def number(value: Any, digits: int = 2) -> str:
    """A share as the page writes it; nothing where there is none.

    >>> number(0.123), number(1.0), number(None)
    ('.12', '1.00', '')
    """
    if value is None:
        return ""
    return f"{value:.{digits}f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.{digits}f}"


def signed(value: float, digits: int = 3) -> str:
    """A difference.

    >>> signed(0.05), signed(-0.0204)
    ('+.050', '−.020')
    """
    return ("+" if value >= 0 else "−") + number(abs(value), digits)
