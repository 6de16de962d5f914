"""OpenAI's endpoints by path, the server that answers at them, and the gate before them.

The gate admits programs with the key, and no web page.

Every user of the machine can reach a loopback port, and so can every page in the owner's browser.
The key keeps other users out. Headers of browsers give pages away: a page cannot send a request to
another site without an Origin. If its own name points to this machine (DNS rebinding), it cannot
send a Host other than that name.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import numpy as np

from sottovoce.core.errors import ConfigError, NotFound
from sottovoce.core.http.messages import CHALLENGE, HttpError, Request, Response
from sottovoce.core.http.server import Caller, Endpoint, HttpServer, Site
from sottovoce.core.platform.threads import Threads
from sottovoce.core.rpc.address import is_loopback, split_address
from sottovoce.edge.http import answers, chat_completions, requests, responses
from sottovoce.edge.http.requests import DEFAULT_MODEL, Fields, refuse
from sottovoce.edge.state.apps import App, Callers, OwnSecret, inside
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_agent_pb2 as agent

_KEY: Final = OwnSecret(
    "openai.key",
    "the OpenAI endpoint's key",
    "sk-sotto-",
    "`sotto serve` with the OpenAI endpoint",
    "openai",
)
KEY_FILE: Final = _KEY.file
"""The key's file name in the state folder."""

_OF_BROWSERS: Final = ("origin", "sec-fetch-site")
"""Headers that a page cannot omit. Sec-Fetch-Mode is not listed: Node's own fetch sends it."""


def read_key(state: Path, *, make: bool = False) -> str:
    """Return the key that the owner's programs send.

    Raises:
        ConfigError: there is no key, others can read it, or it cannot be read or written.
    """
    return _KEY.read(state, make=make)


class ApiKeyGate:
    """Gate that admits requests with the key or an app's token, but no web page."""

    def __init__(self, key: str, callers: Callers) -> None:
        self._key, self._callers = key.encode(), callers
        self._finding = Threads(1, "http-gate")  # so token lookups do not delay calls

    def close(self) -> None:
        """End the thread that looks up tokens."""
        self._finding.shutdown(wait=False, cancel_futures=True)

    async def check(self, method: str, path: str, headers: Mapping[str, str]) -> Caller:
        """Return the caller: an app, or the owner; refuse all others.

        Args:
            method, path: the request's; the key and every token are good for all.
            headers: the request's headers, with names in lower case.

        Raises:
            HttpError: 403 if a browser sent the request or it names another host; 401 without a
                valid key or token.
            SottovoceError: the tokens cannot be read.
        """
        if any(name in headers for name in _OF_BROWSERS):
            raise HttpError(403, "web pages may not use this", code="forbidden_origin")
        if not _here(headers.get("host", "")):
            raise HttpError(
                403,
                "the request is addressed to another host (use 127.0.0.1 or localhost)",
                code="forbidden_host",
            )
        scheme, _, given = headers.get("authorization", "").partition(" ")
        known = hmac.compare_digest(given.strip().encode(), self._key)
        app = None if known else await self._find(given.strip())
        if scheme.lower() != "bearer" or not (known or app):
            raise HttpError(
                401,
                "no key, or the wrong one (send the one in the agent's state folder, "
                f"{KEY_FILE}, or an app's of its own, as a bearer token; `sotto run` does it)",
                "authentication_error",
                code="invalid_api_key",
                headers=(CHALLENGE,),
            )
        return _AppCaller(app, self._callers) if app else Caller()

    async def _find(self, token: str) -> App | None:
        """Look up a token on a thread, because the state may be locked."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._finding, self._callers.find, token)


class _AppCaller(Caller):
    """An app with a token, which may call so often, and only until it is removed."""

    def __init__(self, app: App, callers: Callers) -> None:
        self._app, self._callers = app, callers

    def run(self, work: Callable[[], None]) -> None:
        inside(self._app).run(work)

    def admit(self) -> None:
        self._callers.admit(self._app)

    def check(self) -> None:
        self._callers.check(self._app)


def _here(host: str) -> bool:
    try:
        name, _ = split_address(host)
    except ConfigError:
        return False
    return is_loopback(name.lower())


MOST_TEXTS: Final = 256
LOCAL_MODEL: Final = "local"
"""The device's own model, with which no text leaves."""


def _embed(device: Parts, request: Request) -> Response:
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


_MODELS: Final = "/v1/models"


def _models(device: Parts, request: Request) -> Response:
    """List the default, the device's embedder, and the answering server's models."""
    listed = [*_each_model(device).values()]
    return Response(json.dumps({"object": "list", "data": listed}).encode())


def _model(device: Parts, request: Request) -> Response:
    """Return one model; its name may have slashes."""
    found = _each_model(device).get(unquote(request.path.removeprefix(f"{_MODELS}/")))
    if found is None:
        raise requests.no_such_model()
    return Response(json.dumps(found).encode())


def _each_model(device: Parts) -> dict[str, dict[str, Any]]:
    return {
        name: {"id": name, "object": "model", "created": 0, "owned_by": "sottovoce"}
        for name in (DEFAULT_MODEL, LOCAL_MODEL, *device.writer.models())
    }


ENDPOINTS: Final[dict[str, tuple[str, Callable[[Parts, Request], Response]]]] = {
    "/v1/chat/completions": ("POST", chat_completions.answer),
    "/v1/completions": ("POST", chat_completions.complete),
    "/v1/embeddings": ("POST", _embed),
    "/v1/responses": ("POST", responses.answer),
    _MODELS: ("GET", _models),
    f"{_MODELS}/": ("GET", _model),
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
