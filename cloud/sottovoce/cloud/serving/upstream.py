"""Texts from a server with OpenAI's protocol: vLLM, llama-server, ollama and others.

Large models run on engines made for them. The cloud stands in front of such an engine. It knows the
tenants, and their adapters are names of models there. It passes on released text only, and keeps
nothing. The other server's error messages are neither passed on nor logged, because they may quote
a prompt. The log holds the kind and place of a failure.
"""

from __future__ import annotations

import json
import logging
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlsplit

from sottovoce.cloud.serving.generator import Asked, Done, Finish, Piece
from sottovoce.core.errors import (
    InvalidInput,
    NotFound,
    NotReady,
    Overloaded,
    SottovoceError,
    Unavailable,
)
from sottovoce.core.rpc.error_status import kind_and_place
from sottovoce.core.rpc.openai import cut, heard, message, request, timed
from sottovoce.core.rpc.streams import Stops

PATIENCE: Final = 120.0
"""Seconds without a byte; the server may be reading a long prompt."""
CONNECT: Final = 10.0
"""Seconds until a connection is open."""

_LARGEST_TOKEN: Final = 64
"""Bytes of text for each token; above this, the other server counts tokens differently."""

_log = logging.getLogger(__name__)

_FINISHES: Final = {
    "length": Finish.LENGTH,
    "content_filter": Finish.CONTENT_FILTER,
}


class Upstream:
    """A server behind the cloud.

    Args:
        url: of its API, "http://127.0.0.1:8000/v1", which is also the default path.
        model: its name for the model that answers without an adapter.
        adapters: its names for the tenants' adapters, by tenant and adapter.
        patience: seconds to wait for the next byte.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key: str = "",
        adapters: Mapping[tuple[str, str], str] | None = None,
        patience: float = PATIENCE,
    ) -> None:
        parts = urlsplit(url)
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._path = parts.path.rstrip("/") or "/v1"
        self._model, self._adapters = model, dict(adapters or {})
        self._headers = {"Content-Type": "application/json", "Connection": "close"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._patience = patience

    def write(self, tenant: str, adapter: str, bundle_id: str, asked: Asked) -> _Answer:
        """Return a text that begins when its first piece is read.

        Args:
            adapter: one of the tenant's adapters, or empty.
            bundle_id: ignored: only the server behind the cloud knows a model's training.

        Raises:
            NotFound: the tenant has no adapter of this name there. Reading raises InvalidInput if
                the prompt is refused, NotReady if the cloud is misconfigured, and Overloaded or
                Unavailable if a retry may help.
        """
        model = self._adapters.get((tenant, adapter)) if adapter else self._model
        if model is None:
            raise NotFound(
                "no such adapter for this tenant",
                fix="ask the provider for `sotto-cloud serve --upstream-adapter "
                "TENANT/ADAPTER=MODEL`",
                subject="adapter",
            )
        where, body = _request(model, asked)
        place = str(self._host), self._port
        line = HTTPConnection(*place, timeout=CONNECT)
        if self._secure:
            line = HTTPSConnection(*place, timeout=CONNECT, context=ssl.create_default_context())
        call = _Call(self._path + where, json.dumps(body).encode(), self._headers)
        return _Answer(line, call, self._patience, asked)


def _request(model: str, asked: Asked) -> tuple[str, dict[str, Any]]:
    sampling = asked.sampling
    prompt: str | list[dict[str, Any]]
    if isinstance(asked.prompt, str):
        prompt = asked.prompt
    else:
        prompt = [
            message(turn.role, turn.text, call_id="0" if turn.role == "tool" else "")
            for turn in asked.prompt
        ]
    return request(
        model,
        prompt,
        max_tokens=sampling.max_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        seed=sampling.seed,
        stops=asked.stops,
    )


@dataclass(frozen=True, slots=True)
class _Call:
    path: str
    body: bytes
    headers: dict[str, str]


class _Answer:
    """The pieces of one text; see `generation.Pieces`."""

    def __init__(self, line: HTTPConnection, call: _Call, patience: float, asked: Asked) -> None:
        self._line, self._call, self._patience = line, call, patience
        self._stops = Stops(asked.stops)
        self._most = _LARGEST_TOKEN * asked.sampling.max_tokens
        self._cancelled = threading.Event()
        self._socket: socket.socket | None = None

    def cancel(self) -> None:
        """Close the connection, which ends the work; see `generation.Pieces`."""
        self._cancelled.set()
        if self._socket is not None:
            cut(self._socket)

    def __iter__(self) -> Iterator[Piece]:
        try:
            yield from self._pieces()
        except (OSError, HTTPException, ValueError, RecursionError) as e:
            if self._cancelled.is_set():
                raise CancelledError from None
            _log.warning("upstream %s failed: %s", self._place(), kind_and_place(e))
            raise _broken() from e
        finally:
            self._line.close()

    def _place(self) -> str:
        return f"{self._line.host}:{self._line.port}"

    def _pieces(self) -> Iterator[Piece]:
        self._line.connect()
        self._socket = self._line.sock
        self._socket.settimeout(self._patience)
        if self._cancelled.is_set():
            raise CancelledError
        with timed(self._socket):
            self._line.request("POST", self._call.path, self._call.body, self._call.headers)
            with self._line.getresponse() as response:
                if response.status != 200:
                    _log.warning("upstream %s gave status %d", self._place(), response.status)
                    raise _refused(response.status)
                yield from self._read(response)

    def _read(self, response: HTTPResponse) -> Iterator[Piece]:
        finish, usage = None, (0, 0)
        for event in heard(response):
            usage = event.usage or usage
            text = self._stops.feed(event.text)
            self._most -= len(text)
            if self._stops.found or self._most < 0:
                yield Piece(text, Done(Finish.STOP if self._stops.found else Finish.LENGTH))
                return
            if text:
                yield Piece(text)
            if event.finish:
                finish = _FINISHES.get(event.finish, Finish.STOP)
        if self._cancelled.is_set():
            raise CancelledError
        if finish is None:
            raise ValueError("no end")
        yield Piece(self._stops.finish(), Done(finish, *usage))


def _broken() -> Unavailable:
    return Unavailable(
        "the server behind the cloud does not answer, or broke off",
        fix="send the same message again later; the provider sees to what --upstream names",
        subject="upstream",
    )


def _refused(status: int) -> SottovoceError:
    if status in (400, 413, 422):
        return InvalidInput(
            "the server behind the cloud refused the request",
            fix="shorten the prompt, or begin with the user's turn and alternate",
            subject="prompt",
        )
    if status in (401, 403):
        return NotReady(
            "the server behind the cloud does not accept the cloud's key",
            fix="ask the provider to check `sotto-cloud serve --upstream-key-file`",
            subject="upstream",
        )
    if status == 404:
        return NotReady(
            "the server behind the cloud does not have the model",
            fix="ask the provider to check --upstream, --upstream-model and --upstream-adapter",
            subject="upstream",
        )
    if status in (429, 503):
        return Overloaded(
            "the server behind the cloud has too much to do",
            fix="send the same message again later",
            subject="upstream",
        )
    return _broken()
