"""Who may come in: programs of the owner's that have the key, and no web page.

Why it is here: a loopback port can be reached by every user of the machine, and by every page that
the owner's browser shows. The key keeps the first out. Pages are told by what browsers say of
themselves: a page cannot send a request without an Origin to another place, nor, where its own name
was made to point to this machine, with another Host than that name.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from sottovoce.core.errors import ConfigError
from sottovoce.core.page.failure import CHALLENGE, Failure
from sottovoce.core.wire.address import is_loopback, split_address
from sottovoce.edge.state.caller import App
from sottovoce.edge.state.own_secret import OwnSecret

__all__ = ["KEY_FILE", "Gate", "read_key"]

_KEY: Final = OwnSecret(
    "doorway.key",
    "the doorway's key",
    "sk-sotto-",
    "`sotto serve` with the doorway",
    "doorway",
)
KEY_FILE: Final = _KEY.file
"""In the state folder."""

_OF_BROWSERS: Final = ("origin", "sec-fetch-site")
"""Of these a page cannot rid itself. Sec-Fetch-Mode would be one, but Node's own fetch sends it."""


def read_key(state: Path, *, make: bool = False) -> str:
    """The key that the owner's programs prove themselves with.

    Args:
        state: the daemon's state folder.
        make: make one where there is none.

    Raises:
        ConfigError: there is none, others can read it, or it cannot be read or written.
    """
    return _KEY.read(state, make=make)


class Gate:
    """Lets requests in that no web page has made: with ``key`` as the owner's, with a token that
    ``find`` knows as its app's, which may take its time, but not the loop's."""

    def __init__(self, key: str, find: Callable[[str], Awaitable[App | None]]) -> None:
        self._key, self._find = key.encode(), find

    async def check(self, method: str, path: str, headers: Mapping[str, str]) -> App | bool:
        """Refuses who may not come in; who may has proved it.

        Args:
            method, path: of the request; the key opens them all, and so does a token.
            headers: of the request, names in small letters.

        Raises:
            Failure: 403 for what a browser sends or sends it to another name, 401 without the key.
            SottovoceError: of ``find``.
        """
        if any(name in headers for name in _OF_BROWSERS):
            raise Failure(403, "web pages may not use this", code="forbidden_origin")
        if not _here(headers.get("host", "")):
            raise Failure(
                403,
                "the request is addressed to another host (use 127.0.0.1 or localhost)",
                code="forbidden_host",
            )
        scheme, _, given = headers.get("authorization", "").partition(" ")
        known = hmac.compare_digest(given.strip().encode(), self._key)
        app = None if known else await self._find(given.strip())
        if scheme.lower() != "bearer" or not (known or app):
            raise Failure(
                401,
                "no key, or the wrong one (send the one in the agent's state folder, "
                f"{KEY_FILE}, or an app's of its own, as a bearer token; `sotto run` does it)",
                "authentication_error",
                code="invalid_api_key",
                headers=(CHALLENGE,),
            )
        return app or True


def _here(host: str) -> bool:
    try:
        name, _ = split_address(host)
    except ConfigError:
        return False
    return is_loopback(name.lower())
