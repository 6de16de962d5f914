"""``GET /v1/models``."""

from __future__ import annotations

import json

from sottovoce.edge.daemon.doorway import asking
from sottovoce.edge.daemon.doorway.embeddings import LOCAL_MODEL
from sottovoce.edge.daemon.doorway.exchange import Call, Reply

__all__ = ["answer"]


def answer(call: Call) -> Reply:
    """List the default, the device's embedder, and the answering server's models."""
    names = dict.fromkeys([asking.DEFAULT_MODEL, LOCAL_MODEL, *call.device.writer.models()])
    listed = [
        {"id": name, "object": "model", "created": 0, "owned_by": "sottovoce"} for name in names
    ]
    return Reply(json.dumps({"object": "list", "data": listed}).encode())
