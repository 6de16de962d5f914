"""A daemon with its OpenAI endpoint open, and a client of few words."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sottovoce.core.http.page import SESSION
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.http.endpoints import openai_server, read_key
from tests.support.agent import configured, opened

SECONDS = 60.0


@dataclass(frozen=True)
class Answer:
    """An HTTP response; names of headers are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """Of the shape that clients expect."""
        error: dict[str, Any] = self.json["error"]
        assert sorted(error) == ["code", "message", "param", "type"]
        return error

    @property
    def events(self) -> list[Any]:
        """Of a stream that came to its end."""
        lines = [each for each in self.body.decode().split("\n\n") if each]
        assert lines.pop() == "data: [DONE]"
        return [json.loads(line.rpartition("data: ")[2]) for line in lines]


@dataclass(frozen=True)
class Door:
    """An open OpenAI endpoint."""

    address: str
    key: str

    @property
    def place(self) -> tuple[str, int]:
        host, _, port = self.address.rpartition(":")
        return host, int(port)

    def ask(self, path: str, body: Any = None, method: str = "", **headers: str) -> Answer:
        """One request with the key; ``headers`` add to its own or, empty, take away."""
        found = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        found |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        with closing(http.client.HTTPConnection(*self.place, timeout=SECONDS)) as connection:
            connection.request(
                method or ("GET" if body is None else "POST"),
                path,
                data,
                {name: value for name, value in found.items() if value},
            )
            response = connection.getresponse()
            told = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, told, response.read())

    def chat(self, text: str, **fields: Any) -> Answer:
        """One turn."""
        messages = [{"role": "user", "content": text}]
        return self.ask("/v1/chat/completions", {"messages": messages, **fields})


def entered(link: str) -> Door:
    """Exchange a page's link for a session."""
    parts = urlsplit(link)
    session = Door(parts.netloc, parts.fragment).ask(SESSION, b"", "POST").json["session"]
    return Door(parts.netloc, session)


@contextmanager
def opened_endpoint(
    folder: Path, bundle: Path, tagger: Tagger | None, **environ: str
) -> Iterator[Door]:
    """Open an OpenAI endpoint in this process without a daemon.

    The default tagger is the bundle's.
    """
    config = configured(folder, bundle=bundle, **environ)
    with opened(config, tagger) as device, openai_server(device, "127.0.0.1:0") as endpoint:
        yield Door(endpoint.address, read_key(config.agent.state))
