"""Gate of OpenAI's endpoints: it admits programs with the key, and no web page.

Every user of the machine can reach a loopback port, and so can every page in the owner's browser.
The key keeps other users out. Headers of browsers give pages away: a page cannot send a request to
another site without an Origin. If its own name points to this machine (DNS rebinding), it cannot
send a Host other than that name.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from sottovoce.core.errors import ConfigError
from sottovoce.core.http.connection import Caller
from sottovoce.core.http.messages import CHALLENGE, HttpError
from sottovoce.core.platform.threads import Threads
from sottovoce.core.rpc.address import is_loopback, split_address
from sottovoce.edge.state.apps import Callers
from sottovoce.edge.state.caller import App, inside
from sottovoce.edge.state.own_secret import OwnSecret

__all__ = ["KEY_FILE", "ApiKeyGate", "read_key"]

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

    Args:
        state: the daemon's state folder.
        make: create a key if the folder has none.

    Raises:
        ConfigError: there is no key, others can read it, or it cannot be read or written.
    """
    return _KEY.read(state, make=make)


class ApiKeyGate:
    """Gate that admits requests with the key or an app's token, but no web page.

    Args:
        key: identifies the owner.
        callers: look up an app's token, and limit its calls.
    """

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
