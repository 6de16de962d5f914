"""What a text was released for: the account that the ledger keeps, and what a record says."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["FOR_APPS", "KINDS", "Purpose"]

KINDS: Final = ("app", "predict", "chat", "embed", "customize")
"""Given to an app of the device; sent to be classified, answered, embedded, learnt from."""


class Purpose(NamedTuple):
    """One of `KINDS`, and the adapter or model that it was for, if any."""

    kind: str
    name: str = ""


FOR_APPS: Final = Purpose("app")
