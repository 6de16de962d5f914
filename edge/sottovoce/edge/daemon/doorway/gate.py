"""Access control for the doorway: programs with the key, and no web page.

Every user of the machine can reach a loopback port, and so can every page in the owner's browser.
The key keeps other users out. Headers of browsers give pages away: a page cannot send a request to
another site without an Origin. If its own name points to this machine (DNS rebinding), it cannot
send a Host other than that name.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from sottovoce.core.errors import ConfigError
from sottovoce.core.page.gate import CHALLENGE, Failure
from sottovoce.core.rpc.address import is_loopback, split_address
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
"""The key's file name in the state folder."""

_OF_BROWSERS: Final = ("origin", "sec-fetch-site")
"""Headers that a page cannot omit. Sec-Fetch-Mode is not listed: Node's own fetch sends it."""


def read_key(state: Path, *, make: bool = False) -> str:
    """Return the key that the owner's programs send.

    Args:
        state: the daemon's state folder.
        make: create a key if the folder has none.

    Raises:
        ConfigError: there is no key, others can read it, or it cannot be read or written.
    """
    return _KEY.read(state, make=make)


class Gate:
    """Guard that admits requests with the key or a token, but no web page.

    ``key`` identifies the owner. ``find`` looks up an app's token; it may take long, but must not
    block the event loop.
    """

    def __init__(self, key: str, find: Callable[[str], Awaitable[App | None]]) -> None:
        self._key, self._find = key.encode(), find

    async def check(self, method: str, path: str, headers: Mapping[str, str]) -> App | bool:
        """Return the caller's app, or True for the owner; refuse all others.

        Args:
            method, path: the request's; the key and every token are good for all.
            headers: the request's headers, with names in lower case.

        Raises:
            Failure: 403 if a browser sent the request or it names another host; 401 without a valid
                key or token.
            SottovoceError: raised by ``find``.
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
