"""An HTTP error response, in the shape of OpenAI's.

OpenAI's client libraries decide by status and ``code`` whether to retry, and show the message to
the user. The message is this program's, names the fix, and quotes no text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["CHALLENGE", "Failure"]

CHALLENGE: Final = ("WWW-Authenticate", 'Bearer realm="sottovoce"')
"""The header of a 401 response.

A challenge without a parameter is invalid (RFC 6750, section 3), and it crashed the programs of a
client that parses it.
"""


@dataclass(frozen=True)
class Failure(Exception):
    """An error response.

    Attributes:
        status: the HTTP status.
        kind, message, param, code: the four fields of OpenAI's error object; ``param`` names the
            field, empty for none.
        headers: further headers.
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
        """The error object as JSON."""
        return json.dumps(self.body).encode()
