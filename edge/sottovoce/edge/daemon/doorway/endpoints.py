"""What is answered at which path."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sottovoce.edge.daemon.doorway import (
    chat_completions,
    completions,
    embeddings,
    models,
    responses,
)
from sottovoce.edge.daemon.doorway.connection import Endpoint

__all__ = ["ENDPOINTS"]

ENDPOINTS: Final[Mapping[str, tuple[str, Endpoint]]] = MappingProxyType(
    {
        "/v1/chat/completions": ("POST", chat_completions.answer),
        "/v1/completions": ("POST", completions.answer),
        "/v1/embeddings": ("POST", embeddings.answer),
        "/v1/responses": ("POST", responses.answer),
        "/v1/models": ("GET", models.answer),
    }
)
