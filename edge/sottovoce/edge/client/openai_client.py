"""A server that speaks OpenAI's protocol: its address, and one request to it.

Conversations and teachers use these servers in the same way: over TLS beyond loopback, with a
separate key, and within limits. Their responses are not trusted. Proxies and redirects are not
followed.

A teacher that is a prompt votes for one of a few labels. Free text would have to be parsed, and
could contain anything. A probability for each label could not.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sottovoce.core.errors import (
    ConfigError,
    InvalidInput,
    NotFound,
    Overloaded,
    QuotaExceeded,
    SottovoceError,
    Unauthenticated,
    Unavailable,
)
from sottovoce.core.rpc.address import is_loopback, split_url
from sottovoce.core.rpc.openai import Reported, code, cut, request, timed
from sottovoce.edge.client.cloud import Stoppable
from sottovoce.edge.client.connection import SecretFile
from sottovoce.edge.client.handshake import Protocol, Server, certificate_problem, spoken
from sottovoce.edge.config import ChatConfig

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse
    from ssl import SSLContext

_SECONDS: Final = 120.0
"""Seconds without a byte before a server counts as gone.

Before the first byte, it may have to load a model.
"""

_LARGEST_ERROR: Final = 64 << 10
_ERROR_SECONDS: Final = 5.0
"""Seconds to wait for an error's body, which may only name its reason."""
_MOST_RETRY_SECONDS: Final = 3_600

_KEY: Final = "set chat.key_file to a file with the server's key"
_LATER: Final = "try again later"
_SHORTER: Final = "ask for fewer tokens, or shorten the text"
_PAY: Final = "check the account at the server"
_WHERE: Final = "check chat.upstream (it often ends in /v1) and the model's name"

_FAILED: Final = 500
"""The first status of a server that fails."""
_FAILS: Final = "try again later, or read the server's log"
_OTHER: Final = "check that chat.upstream names the right server"

_Meaning = tuple[type[SottovoceError], str, str]
_ERRORS: Final[dict[int, _Meaning]] = {
    400: (InvalidInput, "invalid_request", _SHORTER),
    401: (Unauthenticated, "unauthenticated", _KEY),
    402: (QuotaExceeded, "quota_exceeded", _PAY),
    403: (Unauthenticated, "forbidden", _KEY),
    404: (NotFound, "not_found", _WHERE),
    408: (Unavailable, "timeout", _LATER),
    413: (InvalidInput, "too_large", "shorten the text"),
    422: (InvalidInput, "invalid_request", _SHORTER),
    429: (Overloaded, "rate_limited", _LATER),
    503: (Unavailable, "unavailable", _LATER),
    504: (Unavailable, "timeout", _LATER),
    529: (Overloaded, "overloaded", _LATER),
}
"""Error, reason code and fix by status."""

_CODES: Final[dict[str, _Meaning]] = {
    "content_filter": (InvalidInput, "content_filter", "change the request"),
    "content_policy_violation": (InvalidInput, "content_filter", "change the request"),
    "context_length_exceeded": (InvalidInput, "context_length_exceeded", _SHORTER),
    "insufficient_quota": (QuotaExceeded, "quota_exceeded", _PAY),
    "invalid_api_key": (Unauthenticated, "unauthenticated", _KEY),
    "model_not_found": (NotFound, "model_not_found", _WHERE),
    "rate_limit_exceeded": (Overloaded, "rate_limited", _LATER),
}
"""The same by the server's own code."""


def _in_our_words(error: Exception) -> tuple[str, str]:
    """Return a description of a network or protocol error in our words, and the fix."""
    from http.client import HTTPException
    from socket import gaierror

    runs = "check that it runs, and that chat.upstream is right"
    if isinstance(error, gaierror):
        return "has a host name that is not known", "check chat.upstream, and the network"
    if isinstance(error, ConnectionRefusedError):
        return "refuses connections", runs
    if isinstance(error, TimeoutError):
        return "does not answer in time", runs
    if isinstance(error, ConnectionError | HTTPException):
        fix = "ask again, or read the server's log"
        return "ended the connection before the end of its answer", fix
    if isinstance(error, OSError):
        return "cannot be reached", "check chat.upstream, and the network"
    return "sends what is no answer of OpenAI's form", _WHERE


class OpenAIClient:
    """The server at ``config.upstream``.

    Raises:
        ConfigError: the address is invalid, or lies beyond loopback without TLS.
    """

    def __init__(self, config: ChatConfig) -> None:
        self._config = config
        self._address = split_url(config.upstream, "chat.upstream")
        self._context: tuple[tuple[int, ...], SSLContext] | None = None
        file = config.key_file
        self._secret = SecretFile(file, "chat.key_file", "key") if file else None

    @property
    def peer(self) -> str:
        """The server's address."""
        return self._config.upstream

    def key(self) -> str:
        """Return the device's key for the server; empty without ``chat.key_file``.

        Raises:
            ConfigError: the file cannot be used.
        """
        return self._secret.read() if self._secret else ""

    @contextmanager
    def asked(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        accept: str = "application/json",
        seconds: float | None = None,
        stoppable: Stoppable = lambda stop: None,
    ) -> Iterator[HTTPResponse]:
        """Send a request; the response is read within the block.

        Args:
            path: appended to the address's path.
            body: sent by POST as JSON; None sends a GET.
            seconds: the timeout, between two bytes and in total; by default the time that a model
                may need.

        Raises:
            Unavailable: the server breaks the protocol, also if the block raises OSError or
                ValueError. Unauthenticated, ConfigError: there is no key, or there are no
                certificates.
        """
        headers = {"Accept-Encoding": "identity", "User-Agent": "sottovoce", "Accept": accept}
        if key := self.key():
            headers["Authorization"] = f"Bearer {key}"
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        with self._explained():
            connection = self._connection(seconds or _SECONDS)
            try:
                connection.connect()
                sock = connection.sock
                with timed(sock, seconds):
                    stoppable(partial(cut, sock))
                    method = "GET" if data is None else "POST"
                    connection.request(method, self._address.path + path, data, headers)
                    with connection.getresponse() as response:
                        if response.status != 200:
                            sock.settimeout(_ERROR_SECONDS)
                        yield response
            finally:
                connection.close()

    def refused(self, response: HTTPResponse, kind: str, wanted: str) -> None:
        """Raise the error for a status other than 200, or for the wrong content.

        The server's own message is not quoted, because it may hold surrogates. Its code is read, if
        it is a known one.

        Args:
            wanted: ends the message "it answers, but not ...".
        """
        if response.status == 200 and response.headers.get_content_type() == kind:
            return
        if response.status == 200:
            page = response.headers.get_content_type() == "text/html"
            raise Unavailable(
                f"{self.peer} answers {'with a web page' if page else f'not {wanted}'}",
                fix=_WHERE if page else "use a server that does",
                subject="upstream",
                metadata={"code": "upstream_protocol_error"},
            )
        failed = response.status >= _FAILED
        usual = (Unavailable, "unavailable", _FAILS if failed else _OTHER)
        meaning = _CODES.get(_code(response)) or _ERRORS.get(response.status, usual)
        raise self._error(f"answered with HTTP status {response.status}", meaning, response)

    def _error(
        self, problem: str, meaning: _Meaning, response: HTTPResponse | None = None
    ) -> SottovoceError:
        error, reason, fix = meaning
        metadata = {"code": f"upstream_{reason}"}
        if response is not None:
            metadata["upstream_status"] = str(response.status)
            seconds = response.headers.get("Retry-After", "")
            if issubclass(error, Unavailable) and re.fullmatch("[0-9]{1,9}", seconds):
                metadata["retry_after"] = str(min(int(seconds), _MOST_RETRY_SECONDS))
        return error(f"{self.peer} {problem}", fix=fix, subject="upstream", metadata=metadata)

    def _connection(self, seconds: float) -> HTTPConnection:
        from http import client  # imported late: 2 MB with TLS

        tls, host, port, _ = self._address
        if not tls:
            return client.HTTPConnection(host, port, timeout=seconds)
        return client.HTTPSConnection(host, port, timeout=seconds, context=self._trusted())

    def _trusted(self) -> SSLContext:
        """Return the authorities, read again only when their file has changed.

        Reading them takes as long as a call.
        """
        import ssl

        file = self._config.ca_file
        try:
            seen = (found.st_mtime_ns, found.st_ino) if file and (found := file.stat()) else ()
            if self._context is None or self._context[0] != seen:
                self._context = (seen, ssl.create_default_context(cafile=file))
        except OSError as error:
            raise ConfigError(
                f"cannot read {file}",
                fix="set chat.ca_file to a file with certificates in PEM",
                subject="chat.ca_file",
            ) from error
        return self._context[1]

    @contextmanager
    def _explained(self) -> Iterator[None]:
        from http.client import HTTPException

        try:
            yield
        except Reported as error:
            usual = (Unavailable, "failed", "ask again")
            raise self._error("reports a failure", _CODES.get(error.code, usual)) from None
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            problem, fix = _in_our_words(error)
            raise self._found(error) or Unavailable(
                f"{self.peer} {problem}",
                fix=fix,
                subject="upstream",
                metadata={"code": f"upstream_{_reason(error)}"},
            ) from None

    def _found(self, error: Exception) -> SottovoceError | None:
        """Return the cause of an error if it is the certificate or another protocol."""
        import ssl
        from http.client import BadStatusLine

        tls, host, port, _ = self._address
        if isinstance(error, ssl.SSLCertVerificationError):
            server = Server(self.peer, "chat.upstream", "chat.ca_file")
            return certificate_problem(server, error)
        if not isinstance(error, ssl.SSLError | BadStatusLine | ConnectionError):
            return None
        found = spoken(host, port or (443 if tls else 80))
        if found in (None, Protocol.TLS if tls else Protocol.HTTP1):
            return None
        fix = "set chat.upstream to the address that the server's owner names"
        if found is Protocol.TLS or (found is Protocol.HTTP1 and is_loopback(host)):
            fix = f"begin its address with {'http' if tls else 'https'}://"
        elif found is Protocol.HTTP1:
            fix = "set chat.upstream to its port with TLS"
        elif found is Protocol.HTTP2:
            fix = "if it is your provider's cloud, set cloud.address to it, and no chat.upstream"
        return ConfigError(
            f"{self.peer} speaks {found}, not {'HTTPS' if tls else 'HTTP/1'}",
            fix=fix,
            subject="chat.upstream",
        )


def _code(response: HTTPResponse) -> str:
    """Return the server's code for an error; empty if it has no known one."""
    try:
        return code(json.loads(response.read1(_LARGEST_ERROR)))  # what has come by now
    except (OSError, ValueError, RecursionError):
        return ""


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "timeout"
    return "unreachable" if isinstance(error, OSError) else "protocol_error"


_MOST: Final = (20, 5)
"""Numbers of tokens to request: for vLLM and llama-server, then for OpenAI."""

_LONGEST: Final = 1 << 20
"""Largest answer in bytes."""


class NextTokens:
    """Asks a server's model for the likeliest next tokens."""

    def __init__(self, server: OpenAIClient, model: str) -> None:
        self._server = server
        self._model = model
        self._most: tuple[int, ...] = _MOST

    def after(self, prompt: str, stoppable: Stoppable = lambda stop: None) -> dict[str, float]:
        """Return the likeliest tokens after ``prompt``, each with its log-probability.

        Args:
            prompt: released.

        Raises:
            Unavailable: the answer has no log-probabilities. InvalidInput and others: the server
                refuses, see `OpenAIClient`.
        """
        path, body = request(self._model, prompt, stream=False, max_tokens=1, temperature=0)
        for most in self._most:
            try:
                with self._server.asked(
                    path,
                    {**body, "logprobs": most},
                    seconds=_SECONDS,
                    stoppable=stoppable,
                ) as response:
                    self._server.refused(response, "application/json", "with JSON")
                    told = _told(response)
                    self._most = (most,)  # a number that worked once works again
                    return told
            except InvalidInput:
                if most == self._most[-1]:
                    raise
        raise AssertionError("not reached")


def likeliest(tokens: Mapping[str, float], words: Sequence[str]) -> int | None:
    """Return which of ``words`` the likeliest fitting token begins.

    A token fits if exactly one word begins with it. Tokens are pieces of words, with or without a
    space in front, in any case.

    Returns:
        The word's index; None if no token fits.
    """
    plain = [word.casefold() for word in words]
    for token in sorted(tokens, key=lambda each: -tokens[each]):
        piece = token.strip().casefold()
        fits = [at for at, word in enumerate(plain) if word.startswith(piece)] if piece else []
        if len(fits) == 1:
            return fits[0]
    return None


def _told(response: HTTPResponse) -> dict[str, float]:
    """Return the tokens in an answer, in either of the two forms that servers use."""
    data = response.read(_LONGEST + 1)
    if len(data) > _LONGEST:
        raise ValueError("an answer without end")
    found = _at(json.loads(data), "choices", 0, "logprobs")
    listed, named = _at(found, "content", 0, "top_logprobs"), _at(found, "top_logprobs", 0)
    told: list[tuple[Any, Any]] = []
    if isinstance(listed, list):
        told = [(_at(each, "token"), _at(each, "logprob")) for each in listed]
    elif isinstance(named, dict):
        told = [*named.items()]
    numbers = ((token, _number(value)) for token, value in told if isinstance(token, str))
    tokens = {token: number for token, number in numbers if number is not None}
    if not tokens:
        raise Unavailable(
            "the server does not say how likely tokens are",
            fix="use one whose /v1/completions gives logprobs, such as vLLM or llama-server",
            subject="upstream",
        )
    return tokens


def _number(value: Any) -> float | None:
    try:
        number = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:  # an integer of hundreds of digits
        return None
    return None if math.isnan(number) else number


def _at(found: Any, *path: str | int) -> Any:
    """Return the value at a path in a JSON document; None if there is none."""
    for step in path:
        if isinstance(step, str):
            found = found.get(step) if isinstance(found, dict) else None
        else:
            found = found[step] if isinstance(found, list) and len(found) > step else None
    return found
