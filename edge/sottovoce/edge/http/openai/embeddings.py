"""``POST /v1/embeddings``."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from sottovoce.core.errors import NotFound
from sottovoce.core.http.messages import Request, Response
from sottovoce.edge.http.fields import Fields, refuse
from sottovoce.edge.http.openai import answers, requests
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["LOCAL_MODEL", "MOST_TEXTS", "answer"]

MOST_TEXTS: Final = 256
LOCAL_MODEL: Final = "local"
"""The device's own model, with which no text leaves."""


def answer(device: Parts, request: Request) -> Response:
    """Answer with one embedding per text, in order."""
    fields = requests.read(device, request)
    name = fields.text("model", requests.DEFAULT_MODEL)
    if name not in (requests.DEFAULT_MODEL, LOCAL_MODEL):
        raise NotFound(
            "no such model of embeddings",
            fix=f'use "{requests.DEFAULT_MODEL}" or, for nothing to leave, "{LOCAL_MODEL}"',
            subject="model",
        )
    texts = _texts(fields)
    encoding = fields.text("encoding_format", "float")
    if encoding not in ("float", "base64"):
        refuse(fields.where("encoding_format"), "is unknown", 'use "float" or "base64"')
    fields.kept_here(*requests.KEPT_HERE)
    fields.end(("dimensions",))
    level = requests.privacy(request.headers).level
    asked = (
        agent.EmbedStreamRequest(
            request_id=str(n),
            request=agent.EmbedRequest(text=text, level=level, local=name == LOCAL_MODEL),
        )
        for n, text in enumerate(texts)
    )
    found = [each.response for each in device.embedder.embed_stream(asked, request.stoppable)]
    data = [
        {"object": "embedding", "index": n, "embedding": _shown(each.embedding, encoding)}
        for n, each in enumerate(found)
    ]
    tokens = sum(each.tokens for each in found)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    body = {"object": "list", "data": data, "model": name, "usage": usage}
    told = [*answers.dropped(fields)]
    told += [("x-sottovoce-level", found[0].level), ("x-sottovoce-eta", f"{found[0].eta:g}")]
    return Response(json.dumps(body).encode(), told)


def _shown(embedding: Iterable[float], encoding: str) -> str | list[float]:
    """Encode an embedding as JSON numbers, or as base64 of float32, which is faster."""
    numbers = np.fromiter(embedding, "<f4")
    if encoding == "float":
        return [float(number) for number in numbers]
    return base64.b64encode(numbers.tobytes()).decode()


def _texts(fields: Fields) -> list[str]:
    """Return the input: one string or several; refuse token ids."""
    found: Any = fields.take("input")
    listed = found if isinstance(found, list) else [found]
    if not 1 <= len(listed) <= MOST_TEXTS or not all(isinstance(text, str) for text in listed):
        refuse(fields.where("input"), f"is neither a string nor a list of 1 to {MOST_TEXTS}")
    return listed
