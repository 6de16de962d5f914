"""What is answered at which path."""

from __future__ import annotations

from typing import Final

from sottovoce.edge.daemon.doorway import (
    chat_completions,
    completions,
    embeddings,
    models,
    responses,
)
from sottovoce.edge.daemon.doorway.connection import Endpoint
from sottovoce.edge.daemon.doorway.failures import Failure

__all__ = ["find"]

_ENDPOINTS: Final[dict[str, tuple[str, Endpoint]]] = {
    "/v1/chat/completions": ("POST", chat_completions.answer),
    "/v1/completions": ("POST", completions.answer),
    "/v1/embeddings": ("POST", embeddings.answer),
    "/v1/responses": ("POST", responses.answer),
    "/v1/models": ("GET", models.answer),
}


def find(method: str, path: str) -> Endpoint:
    """The endpoint for a request.

    Raises:
        Failure: there is none (404), or it wants another method (405).
    """
    if path not in _ENDPOINTS:
        raise Failure(
            404, f"nothing is here (there are {', '.join(_ENDPOINTS)})", code="unknown_url"
        )
    wanted, endpoint = _ENDPOINTS[path]
    if method != wanted:
        allow = (("Allow", wanted),)
        raise Failure(405, f"use {wanted}", code="method_not_supported", headers=allow)
    return endpoint
