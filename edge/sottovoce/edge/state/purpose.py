"""What a text was released for: the account that the ledger keeps, and what a record says."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

__all__ = ["FOR_APPS", "KINDS", "Purpose"]

KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "app": "apps on this device",
        "predict": "classified",
        "chat": "conversations",
        "embed": "embeddings",
        "customize": "training",
        "distill": "votes of teachers",
    }
)
"""What a text is released for, and what its owner is told of that."""


class Purpose(NamedTuple):
    """One of `KINDS`, and the adapter or model that it was for, if any."""

    kind: str
    name: str = ""


FOR_APPS: Final = Purpose("app")
