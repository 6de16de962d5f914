"""The purpose of a release, for the ledger's accounts and for records."""

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
"""The kinds of purposes, and their descriptions for the owner."""


class Purpose(NamedTuple):
    """One of `KINDS`, and the adapter or model of the release, if any."""

    kind: str
    name: str = ""


FOR_APPS: Final = Purpose("app")
