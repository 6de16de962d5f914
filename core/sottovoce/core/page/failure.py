"""An answer of ours over HTTP that is an error.

Why it is here: in the shape of OpenAI's, whose libraries decide by status and ``code`` whether to
try again, and show the message to whoever waits. It is ours, names the fix, and quotes no text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["CHALLENGE", "Failure"]

CHALLENGE: Final = ("WWW-Authenticate", 'Bearer realm="sottovoce"')
"""Header of a 401. One without a parameter is no challenge (RFC 6750, section 3): it ended the
programs of a client that reads it."""


@dataclass(frozen=True)
class Failure(Exception):
    """An answer that is an error.

    Attributes:
        status: of HTTP.
        kind, message, param, code: the four fields of OpenAI's error object; ``param`` names the
            field, empty for none.
        headers: further ones.
    """

    status: int
    message: str
    kind: str = "invalid_request_error"
    param: str = ""
    code: str = ""
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def body(self) -> dict[str, Any]:
        """The error object."""
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param or None,
                "code": self.code or None,
            }
        }

    @property
    def payload(self) -> bytes:
        """The same as JSON."""
        return json.dumps(self.body).encode()
