"""Who may use a page: the browser that came with a link which its program gave out.

Why it is here: every user of the machine can reach a loopback port, and so can every page in the
reader's browser. A link is good once, as others may see it on a command line or in a history; what
it is changed for is kept in the tab alone and sent in a header, which no other page can have sent
(a cookie would be). Host, Origin and what browsers say of a request's maker keep out pages whose
name was made to point here.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from sottovoce.core.page.failure import CHALLENGE, Failure

__all__ = ["FEW", "LINK_SECONDS", "SESSION", "PageGate"]

SESSION: Final = "/api/session"
"""Where a link is changed for a session."""
LINK_SECONDS: Final = 600.0
FEW: Final = 16
"""Links and sessions at once; the oldest gives way."""


class PageGate:
    """Lets in what has a session, or a link for `SESSION`; files alone need neither.

    Args:
        is_file: whether a path is one of the page's own files, which tell nothing of anybody.
        command: that gives out links, for who has none.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        is_file: Callable[[str], bool],
        command: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_file, self._command, self._clock = is_file, command, clock
        self._lock = threading.Lock()
        self._links: dict[str, float] = {}
        self._sessions: dict[str, float] = {}
        self.port = 0
        """That of the address at which all this stands."""

    def link(self) -> str:
        """A secret that is good for one session, within `LINK_SECONDS`."""
        return self._new(self._links)

    def session(self) -> str:
        """A secret that is good until the program ends or `FEW` newer ones are there."""
        return self._new(self._sessions)

    async def check(self, method: str, path: str, headers: Mapping[str, str]) -> bool:
        """Whether who asks has entered; False for the page's own files, which need no proof.

        Args:
            method, path: of the request.
            headers: of the request, names in small letters.

        Raises:
            Failure: 403 for other pages and names, 401 without link or session.
        """
        hosts = (f"127.0.0.1:{self.port}", f"localhost:{self.port}", f"[::1]:{self.port}")
        host = headers.get("host", "").lower()
        if host not in hosts:
            raise Failure(403, "the request is addressed to another host", code="forbidden_host")
        if headers.get("origin", f"http://{host}") != f"http://{host}":
            raise Failure(403, "other pages may not use this", code="forbidden_origin")
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            raise Failure(403, "other pages may not use this", code="forbidden_origin")
        if self._is_file(path):
            return False
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._has(given.strip(), entering=path == SESSION):
            return True
        raise Failure(
            401,
            f"this link was used, or is older than what it opens (run `{self._command}` for "
            "another)",
            "authentication_error",
            code="invalid_link",
            headers=(CHALLENGE,),
        )

    def _new(self, kept: dict[str, float]) -> str:
        secret = secrets.token_urlsafe(32)
        with self._lock:
            kept[secret] = self._clock()
            while len(kept) > FEW:
                del kept[next(iter(kept))]
        return secret

    def _has(self, given: str, *, entering: bool) -> bool:
        """Whether it is known; a link is forgotten by that."""
        kept = self._links if entering else self._sessions
        with self._lock:
            # Each is compared, so that the time taken tells nothing of any.
            found = [each for each in kept if hmac.compare_digest(each.encode(), given.encode())]
            if not found or not entering:
                return bool(found)
            return self._clock() - kept.pop(found[0]) <= LINK_SECONDS
