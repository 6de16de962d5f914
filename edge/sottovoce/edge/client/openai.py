"""Any server that speaks as OpenAI's do, as a writer: completions in pieces (server-sent events).

Why it is here: big models run on what is built for them (vLLM, llama-server, ollama, a provider's
API). What they get is what our cloud would get, over TLS beyond loopback, with a key of their own;
what they send is not trusted (see `server_sent`). Neither proxies nor redirects are followed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from sottovoce.core.errors import (
    ConfigError,
    InvalidInput,
    NotFound,
    Overloaded,
    SottovoceError,
    Unauthenticated,
    Unavailable,
)
from sottovoce.core.wire.address import is_loopback
from sottovoce.core.wire.server_sent import cut, heard, timed
from sottovoce.edge.client.generation import Stoppable
from sottovoce.edge.client.secret_file import SecretFile
from sottovoce.edge.config import ChatConfig
from sottovoce.v1 import generation_pb2 as generation

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

__all__ = ["OpenAIWriter"]

_SECONDS: Final = 120.0
"""Without a byte, before a server counts as gone; the first may have to load a model."""
_LISTING_SECONDS: Final = 10.0
"""The same where it is asked for its models, which takes none; and for all of its answer."""
_LONGEST_LIST: Final = 1 << 20
_MOST_STOPS: Final = 4
"""As their API has it; the device looks for all of them in any case."""
_MODEL = re.compile(r"[\w.:/@+-]{1,128}", re.ASCII)
_ROLES: Final = {
    generation.ROLE_SYSTEM: "system",
    generation.ROLE_USER: "user",
    generation.ROLE_ASSISTANT: "assistant",
    generation.ROLE_TOOL: "user",  # where it answers no call: theirs needs one
}
_REASONS: Final = {
    "length": generation.FINISH_REASON_LENGTH,
    "tool_calls": generation.FINISH_REASON_TOOL_CALLS,
    "content_filter": generation.FINISH_REASON_CONTENT_FILTER,
}
_USES: Final = {generation.TOOL_USE_NONE: "none", generation.TOOL_USE_REQUIRED: "required"}
_MOST_CALLS: Final = 128
_ERRORS: Final[dict[int, tuple[type[SottovoceError], str]]] = {
    400: (InvalidInput, "ask for fewer tokens, or shorten the conversation"),
    401: (Unauthenticated, "set chat.key_file to a file with the server's key"),
    403: (Unauthenticated, "set chat.key_file to a file with the server's key"),
    404: (NotFound, "check chat.upstream (it often ends in /v1) and the model's name"),
    413: (InvalidInput, "shorten the conversation"),
    422: (InvalidInput, "ask for fewer tokens, or shorten the conversation"),
    429: (Overloaded, "try again later"),
}


class _Server(NamedTuple):
    tls: bool
    host: str
    port: int | None
    path: str


class OpenAIWriter:
    """Asks the server at ``config.upstream``.

    Args:
        config: where it is, and what it is told beside.
        is_adapter: whether a name is an adapter's of this device, and so no one else's to know.

    Raises:
        ConfigError: that is no address, or one beyond loopback without TLS.
    """

    def __init__(
        self, config: ChatConfig, is_adapter: Callable[[str], bool] = lambda name: False
    ) -> None:
        self._config = config
        self._is_adapter = is_adapter
        self._server = _parsed(config.upstream)
        file = config.key_file
        self._secret = SecretFile(file, "chat.key_file", "key") if file else None
        self._models: tuple[str, ...] = (config.model,) if config.model else ()

    @property
    def peer(self) -> str:
        """See `Writer.peer`."""
        return self._config.upstream

    @property
    def calls_functions(self) -> bool:
        """See `Writer.calls_functions`: most such servers have models that do."""
        return True

    def models(self) -> list[str]:
        """See `Writer.models`: the configured one, and those that the server lists, if it does."""
        listed: list[str] = []
        with suppress(SottovoceError), self._explained(), closing(self._connection()) as line:
            line.timeout = _LISTING_SECONDS
            line.connect()
            with timed(line.sock, _LISTING_SECONDS):
                line.request("GET", f"{self._server.path}/models", headers=self._headers())
                with line.getresponse() as response:
                    listed = _listed(response)
        names = dict.fromkeys([self._config.model, *listed])
        self._models = tuple(n for n in names if _MODEL.fullmatch(n) and not self._is_adapter(n))
        return [*self._models]

    def has(self, model: str) -> bool:
        """See `Writer.has`."""
        return model in self._models or model in self.models()

    def check(self, model: str) -> str:
        """See `Writer.check`."""
        if model and not _MODEL.fullmatch(model):
            raise InvalidInput(
                "that cannot be the name of a model",
                fix="use letters, digits and any of . : / @ + - _, at most 128",
                subject="model",
            )
        if model and self._is_adapter(model):
            raise InvalidInput(
                "that is an adapter of this device, and its name does not leave it",
                fix="ask the cloud, without an upstream; a model that the server calls so as well "
                "can be set as chat.model",
                subject="model",
            )
        self._key()
        return ""

    def write(
        self, model: str, request: generation.GenerateRequest, stoppable: Stoppable
    ) -> Generator[generation.GenerateResponse, None, None]:
        """See `Writer.write`."""
        body = _body(request, model or self._config.model or "default")
        asked = "chat/completions" if "messages" in body else "completions"
        path = f"{self._server.path}/{asked}"
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        headers |= self._headers()
        connection = self._connection()
        with self._explained():
            try:
                connection.connect()
                with timed(connection.sock):
                    stoppable(partial(cut, connection.sock))
                    connection.request("POST", path, json.dumps(body).encode(), headers)
                    with connection.getresponse() as response:
                        self._refused(response)
                        yield from _pieces(response)
            finally:
                connection.close()

    def _headers(self) -> dict[str, str]:
        headers = {"Accept-Encoding": "identity", "User-Agent": "sottovoce"}
        if key := self._key():
            headers["Authorization"] = f"Bearer {key}"
        return headers

    def _connection(self) -> HTTPConnection:
        from http import client  # 2 MB with TLS, for those who have such a server

        tls, host, port, _ = self._server
        if not tls:
            return client.HTTPConnection(host, port, timeout=_SECONDS)
        import ssl

        try:
            context = ssl.create_default_context(cafile=self._config.ca_file)
        except OSError as error:
            raise ConfigError(
                f"cannot read {self._config.ca_file}",
                fix="set chat.ca_file to a file with certificates in PEM",
                subject="chat.ca_file",
            ) from error
        return client.HTTPSConnection(host, port, timeout=_SECONDS, context=context)

    def _key(self) -> str:
        return self._secret.read() if self._secret else ""

    def _refused(self, response: HTTPResponse) -> None:
        """Raises what a status other than 200 means; what the server says beside is not quoted."""
        status, kind = response.status, response.headers.get_content_type()
        if status == 200 and kind == "text/event-stream":
            return
        if status == 200:
            raise Unavailable(
                f"{self.peer} answers, but not in pieces", fix="use a server that can stream"
            )
        usual = (Unavailable, "check that it is the right server")
        error, fix = _ERRORS.get(status, usual)
        raise error(f"{self.peer} answered with HTTP status {status}", fix=fix, subject="upstream")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        from http.client import HTTPException

        try:
            yield
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            # Of a certificate that is not to be trusted as well: ssl's errors are OSErrors.
            reason = type(error).__name__
            raise Unavailable(
                f"{self.peer} does not answer as agreed ({reason})",
                fix="check that it runs, that chat.upstream is right, and its certificate",
                subject="upstream",
            ) from None


def _parsed(upstream: str) -> _Server:
    try:
        url = urlsplit(upstream)
        host, port = url.hostname or "", url.port
    except ValueError:
        host, port = "", None
    tidy = not (url.query or url.fragment or "@" in url.netloc) if host else False
    if not tidy or url.scheme not in ("http", "https") or not upstream.isascii():
        raise ConfigError(
            "chat.upstream is not an address",
            fix='give one such as "https://llm.example.org/v1" or "http://127.0.0.1:8080/v1"',
            subject="chat.upstream",
        )
    if url.scheme == "http" and not is_loopback(host):
        raise ConfigError(
            "chat.upstream would send over the network without TLS",
            fix="use https://, or a server on this machine",
            subject="chat.upstream",
        )
    return _Server(url.scheme == "https", host, port, url.path.rstrip("/"))


def _body(request: generation.GenerateRequest, model: str) -> dict[str, Any]:
    """The same prompt in their words; what is not said takes their defaults."""
    sampling = request.sampling
    body: dict[str, Any] = {"model": model, "stream": True}
    body["stream_options"] = {"include_usage": True}
    if request.WhichOneof("prompt") == "conversation":
        body["messages"] = [_message(turn) for turn in request.conversation.turns]
        if request.tools:
            body |= _functions(request)
    else:
        body["prompt"] = request.released_text
    if sampling.max_tokens:
        body["max_tokens"] = sampling.max_tokens
    if sampling.top_p:
        body["top_p"] = sampling.top_p
    for name in ("temperature", "seed"):
        if sampling.HasField(name):
            body[name] = getattr(sampling, name)
    if request.released_stops:
        body["stop"] = [*request.released_stops][:_MOST_STOPS]
    return body


def _message(turn: generation.ReleasedTurn) -> dict[str, Any]:
    message: dict[str, Any] = {"role": _ROLES[turn.role], "content": turn.released_text}
    if turn.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.released_name, "arguments": call.released_arguments},
            }
            for call in turn.tool_calls
        ]
    if turn.tool_call_id:
        message |= {"role": "tool", "tool_call_id": turn.tool_call_id}
    return message


def _functions(request: generation.GenerateRequest) -> dict[str, Any]:
    tools = [
        {
            "type": "function",
            "function": {
                "name": tool.released_name,
                "description": tool.released_description,
                "parameters": json.loads(tool.released_parameters),
            },
        }
        for tool in request.tools
    ]
    found: dict[str, Any] = {"tools": tools}
    if request.released_tool:
        chosen = {"name": request.released_tool}
        found["tool_choice"] = {"type": "function", "function": chosen}
    elif request.tool_use:
        found["tool_choice"] = _USES[request.tool_use]
    if request.HasField("parallel_tool_calls"):
        found["parallel_tool_calls"] = request.parallel_tool_calls
    return found


def _listed(response: HTTPResponse) -> list[str]:
    """The names in a list of models.

    Raises:
        ValueError: it is none.
    """
    found = json.loads(response.read(_LONGEST_LIST)) if response.status == 200 else None
    listed = found.get("data") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise ValueError("no list")
    names = [each.get("id") for each in listed if isinstance(each, dict)]
    return [name for name in names if isinstance(name, str)]


def _pieces(response: HTTPResponse) -> Generator[generation.GenerateResponse, None, None]:
    """The answer in our words.

    Raises:
        ValueError: it is not what was agreed. OSError: the connection broke.
    """
    done = generation.GenerateDone()
    calls: dict[int, generation.ReleasedToolCall] = {}
    for event in heard(response):
        if event.usage is not None:
            done.prompt_tokens, done.completion_tokens = event.usage
        if event.finish:
            done.finish_reason = _REASONS.get(event.finish, generation.FINISH_REASON_STOP)
        for part in event.calls:
            call = calls.setdefault(part.number, generation.ReleasedToolCall())
            call.released_name += part.name
            call.released_arguments += part.arguments
        if len(calls) > _MOST_CALLS:
            raise ValueError("calls without end")
        if event.text:
            yield generation.GenerateResponse(delta_text=event.text)
    if not done.finish_reason:
        raise ValueError("broken off")
    for call in calls.values():
        yield generation.GenerateResponse(tool_call=call)
    yield generation.GenerateResponse(done=done)
