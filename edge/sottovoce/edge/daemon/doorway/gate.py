"""Who may come in: programs of the owner's that have the key, and no web page.

Why it is here: a loopback port can be reached by every user of the machine, and by every page that
the owner's browser shows. The key keeps the first out. Pages are told by what browsers say of
themselves: a page cannot send a request without an Origin to another place, nor, where its own name
was made to point to this machine, with another Host than that name.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sottovoce.core.errors import ConfigError
from sottovoce.core.system.files import atomic, disk
from sottovoce.core.wire.address import is_loopback, split_address
from sottovoce.edge.daemon.doorway.failures import Failure

__all__ = ["KEY_FILE", "Gate", "read_key"]

KEY_FILE: Final = "doorway.key"
"""In the state folder."""

_LONGEST: Final = 1_024
_OF_BROWSERS: Final = ("origin", "sec-fetch-site")
"""Of these a page cannot rid itself. Sec-Fetch-Mode would be one, but Node's own fetch sends it."""


def read_key(state: Path, *, make: bool = False) -> str:
    """The key that clients prove themselves with.

    Args:
        state: the daemon's state folder.
        make: make one where there is none.

    Raises:
        ConfigError: there is none, others can read it, or it cannot be read or written.
    """
    path = state / KEY_FILE
    if make and not path.exists():
        with atomic(path) as file:
            file.write(f"sk-sotto-{secrets.token_urlsafe(32)}\n".encode())
    with disk(path):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError as error:
            raise ConfigError(
                f"cannot read the doorway's key {path}",
                fix="start `sotto serve` with the doorway, which makes one",
                subject="doorway",
            ) from error
        with os.fdopen(descriptor, "rb") as file:
            if os.fstat(descriptor).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise ConfigError(
                    f"other users can read the doorway's key {path}",
                    fix="delete it, and restart `sotto serve`, which makes another",
                    subject="doorway",
                )
            key = file.read(_LONGEST).decode("ascii", "replace").strip()
    if len(key) < 16 or not key.isascii() or not key.isprintable():
        raise ConfigError(
            f"{path} holds no key",
            fix="delete it, and restart `sotto serve`, which makes another",
            subject="doorway",
        )
    return key


class Gate:
    """Lets requests with ``key`` in that no web page has made."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()

    def check(self, method: str, path: str, headers: Mapping[str, str]) -> bool:
        """Refuses who may not come in; who may has proved it.

        Args:
            method, path: of the request; the key opens them all.
            headers: of the request, names in small letters.

        Raises:
            Failure: 403 for what a browser sends or sends it to another name, 401 without the key.
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
        # Both are compared, so that the time taken tells nothing of either.
        known = hmac.compare_digest(given.strip().encode(), self._key)
        if scheme.lower() != "bearer" or not known:
            raise Failure(
                401,
                "no key, or the wrong one (send the one in the agent's state folder, "
                f"{KEY_FILE}, as a bearer token; `sotto run` does it)",
                "authentication_error",
                code="invalid_api_key",
                headers=(("WWW-Authenticate", "Bearer"),),
            )
        return True


def _here(host: str) -> bool:
    try:
        name, _ = split_address(host)
    except ConfigError:
        return False
    return is_loopback(name.lower())
