"""A client of the agent's OpenAI endpoint."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout

MODEL = "default"
LISTING = ClientTimeout(total=10)
ANSWERING = ClientTimeout(total=None, sock_connect=10, sock_read=300)


class EndpointError(Exception):
    """The agent does not answer, or reports a failure. The message holds no text of the user."""


class KeyRefused(EndpointError):
    """The agent refuses the key."""


class Endpoint:
    """The agent's OpenAI endpoint at an address that ends with `/v1`."""

    def __init__(self, session: ClientSession, url: str, key: str) -> None:
        self._session, self._url = session, url
        self._headers = {"Authorization": f"Bearer {key}"}

    async def models(self) -> list[str]:
        """List the models, which proves the address and the key.

        Raises:
            KeyRefused: the agent refuses the key.
            EndpointError: the agent does not answer as an OpenAI endpoint does.
        """
        try:
            async with self._session.get(
                f"{self._url}/models", headers=self._headers, timeout=LISTING
            ) as response:
                _check(response)
                return [each["id"] for each in (await response.json())["data"]]
        except (ClientError, TimeoutError, ValueError, LookupError, TypeError) as error:
            raise EndpointError("The Sottovoce agent does not answer. Is it running?") from error

    async def answer(self, conversation: str, messages: list[dict[str, str]]) -> AsyncIterator[str]:
        """Stream the answer to a conversation's messages, piece by piece.

        Args:
            conversation: An opaque id. One person has one surrogate in a conversation.

        Raises:
            KeyRefused: the agent refuses the key.
            EndpointError: the agent does not answer, or the stream ends early.
        """
        try:
            async with self._session.post(
                f"{self._url}/chat/completions",
                json={"model": MODEL, "messages": messages, "stream": True},
                headers={**self._headers, "X-Sottovoce-Conversation": conversation},
                timeout=ANSWERING,
            ) as response:
                _check(response)
                async for line in response.content:
                    field, _, data = line.decode().strip().partition(":")
                    if field != "data":
                        continue
                    if data.strip() == "[DONE]":
                        return
                    for choice in json.loads(data)["choices"]:
                        if piece := choice["delta"].get("content"):
                            yield piece
        except (ClientError, TimeoutError, ValueError, LookupError, TypeError) as error:
            raise EndpointError("The Sottovoce agent failed to answer.") from error
        raise EndpointError("The Sottovoce agent's answer ended early.")


def _check(response: ClientResponse) -> None:
    """Raise what a response's status means."""
    if response.status in (401, 403):
        raise KeyRefused("The Sottovoce agent refuses the key. Reconfigure the integration.")
    if response.status != 200:
        raise EndpointError(f"The Sottovoce agent answers with status {response.status}.")
