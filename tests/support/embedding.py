"""What tests ask an embedder."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sottovoce.v1 import edge_agent_pb2 as agent

TEXT = "the river in winter"


def embed_request(text: str = TEXT, level: str = "", *, local: bool = False) -> agent.EmbedRequest:
    return agent.EmbedRequest(text=text, level=level, local=local)


def embed_stream(*requests: agent.EmbedRequest) -> Iterator[agent.EmbedStreamRequest]:
    for number, request in enumerate(requests):
        yield agent.EmbedStreamRequest(request_id=str(number), request=request)


def row(response: agent.EmbedResponse) -> NDArray[np.float32]:
    return np.array(response.embedding, np.float32)
