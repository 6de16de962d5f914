"""OpenAI's endpoints, and the server that answers at them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Final

from sottovoce.core.http.connection import Endpoint, Site
from sottovoce.core.http.messages import Request, Response
from sottovoce.core.http.server import HttpServer
from sottovoce.edge.http.gate import ApiKeyGate, read_key
from sottovoce.edge.http.openai import chat_completions, completions, embeddings, responses
from sottovoce.edge.http.openai.embeddings import LOCAL_MODEL
from sottovoce.edge.http.openai.requests import DEFAULT_MODEL
from sottovoce.edge.tasks.parts import Parts

__all__ = ["ENDPOINTS", "openai_server"]


def _models(device: Parts, request: Request) -> Response:
    """List the default, the device's embedder, and the answering server's models."""
    names = dict.fromkeys([DEFAULT_MODEL, LOCAL_MODEL, *device.writer.models()])
    listed = [
        {"id": name, "object": "model", "created": 0, "owned_by": "sottovoce"} for name in names
    ]
    return Response(json.dumps({"object": "list", "data": listed}).encode())


ENDPOINTS: Final[dict[str, tuple[str, Callable[[Parts, Request], Response]]]] = {
    "/v1/chat/completions": ("POST", chat_completions.answer),
    "/v1/completions": ("POST", completions.answer),
    "/v1/embeddings": ("POST", embeddings.answer),
    "/v1/responses": ("POST", responses.answer),
    "/v1/models": ("GET", _models),
}
"""Method and endpoint by path."""


@contextmanager
def openai_server(device: Parts, address: str) -> Iterator[HttpServer]:
    """Serve OpenAI's API at ``address`` for programs with the key or an app's token.

    Raises:
        ConfigError: the address is not on loopback or not free, or the key cannot be read or
            created.
    """
    with closing(HttpServer(address, "openai.address")) as server:
        gate = ApiKeyGate(read_key(device.config.agent.state, make=True), device.callers)
        endpoints: dict[str, tuple[str, Endpoint]] = {
            path: (method, partial(answer, device)) for path, (method, answer) in ENDPOINTS.items()
        }
        server.site = Site(gate, endpoints)
        try:
            server.start()
            yield server
        finally:
            server.close()
            gate.close()
